"""How is a name of the user's written into Markdown, so that it is shown as it is and does nothing else?"""

from __future__ import annotations

import re


def as_it_is(text: str) -> str:
    """A text in one line, in which Markdown finds no tags, columns, links or headings."""
    return re.sub(r"([\\`*_\[\]<>|&~$#!])", r"\\\1", " ".join(text.split()))
