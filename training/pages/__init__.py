"""How are pages about world models written?

`render` fills a template in, with every text escaped. A template extends `base.html`, which has the head of the page
and the style that all of them share.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def render(template: Path, **values: Any) -> str:
    """A page, from a template; all that it is given is text, never markup."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folders = FileSystemLoader([template.parent, HERE])
    environment = Environment(loader=folders, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template(template.name).render(**values)
