"""How are pages written?

`render` fills a template of this folder or of another one in, with every text escaped; style, script and brand are
shared by all of them. `save` puts a page in its place whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labeling.files import write_whole
from labeling.store import StoreError

HERE = Path(__file__).parent


def render(template: str, *, beside: Path | None = None, **values: Any) -> str:
    """A page, from the template of that name in the folder `beside`, or in this one."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([*([beside] if beside else []), HERE]), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template(template).render(**values)


def save(page: Path, text: str) -> Path:
    """Write a page, and make its folder if needed; StoreError if that cannot be done."""
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        return write_whole(page, text)
    except OSError as error:
        raise StoreError(f"{page} cannot be written: {error.strerror}. Choose another folder with --out.") from error
