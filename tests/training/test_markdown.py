"""Does a name do anything in Markdown but stand there?"""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from training.markdown import as_it_is

TABLE = MarkdownIt("commonmark", {"html": True}).enable("table")


class Shown(HTMLParser):
    """The tags of a page, and what can be read in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C"])))
@example("a|b<script>.mp4")
@example("![x](javascript:alert(1)) **bold** <img src=x onerror=alert(1)> &lt; \\| `code` ~~no~~ # $x$")
def test_a_name_in_a_cell_is_text_and_all_of_it(name: str) -> None:
    shown = Shown(TABLE.render(f"| video | failure |\n|---|---|\n| x{as_it_is(name)}x | |"))
    assert shown.tags == ["table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]
    assert shown.text.split() == f"video failure x{' '.join(name.split())}x".split()
