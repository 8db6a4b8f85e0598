"""The judge of layouts, on pages with faults that were made on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.layout import faint, faults, looks

SOUND = """
<!doctype html><meta name="viewport" content="width=device-width">
<style>
  @media (prefers-color-scheme: dark) { body { background: #111; color: #eee } a { color: #9cf } }
  .skip { position: absolute; left: -999px }
  .name { width: 5em; overflow: hidden; white-space: nowrap; text-overflow: ellipsis }
  .table { overflow-x: auto }
</style>
<body><a class="skip" href="#main">Skip to the content</a>
<h1 id="main">A heading that is long enough to be broken into two lines on a phone</h1><p>And <b>words</b> under it.</p>
<p class="name">a name that ends in an ellipsis</p>
<div class="table"><table width="2000"><tr><td>wide, but it scrolls</td></tr></table></div>
"""


@pytest.fixture
def shown(opened, tmp_path: Path):
    """A page of the given HTML."""

    def show(html: str):
        (tmp_path / "page.html").write_text(html)
        return opened(tmp_path / "page.html")

    return show


def test_a_sound_page_has_no_faults(shown) -> None:
    page = shown(SOUND)
    for look in looks(page):
        assert faults(page) + faint(page) + page.trouble == [], look


@pytest.mark.parametrize(
    ("flaw", "words"),
    [
        ("<p style='margin-top:-1.2em'>climbs onto the line above", "and climbs onto the line above"),
        ("<p style='height:.6em; overflow:hidden'>only its upper half", "cut: only its upper half"),
        ("<p style='width:3em; overflow:hidden; white-space:nowrap'>no ellipsis", "cut: no ellipsis"),
        ("<p style='width:3000px'>a line that is far too long " + "and goes on " * 40, "the page is"),
        ("<p style='position:fixed; left:-2em; top:0'>begins outside", "sticks out: begins outside"),
        ("<svg style='position:fixed; right:-50px; bottom:0' width=100 height=9></svg>", "sticks out:  <svg"),
        ("<p style='width:4ch; overflow-wrap:anywhere'>Spearman", "broken: Spearman"),
        ("<p style='color:#999; background:#fff'>grey on white", "faint (2.8): grey on white"),
    ],
)
def test_each_fault_is_named(shown, flaw: str, words: str) -> None:
    page = shown(SOUND + flaw)
    found = faults(page) + faint(page)
    assert any(words in fault for fault in found), found
    assert faults(page, ignore="p, svg, td") + faint(page, ignore="p") == [f for f in found if f.startswith("the page")]


def test_what_a_page_asks_others_for_is_noted(shown) -> None:
    assert shown(SOUND + "<img src='http://127.0.0.1:9/picture.png'>").trouble[0] == "http://127.0.0.1:9/picture.png"
