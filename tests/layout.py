"""Pages in a real browser: is anything cut, over something else, too faint to read, or asked of the network?

A test takes the fixture `opened` (there for all tests through `conftest.py`) and opens a file or an address. `looks`
goes through phone and desktop, light and dark; `page.trouble` holds what the page asked others for or complained about.

    page = opened(path)
    for _ in looks(page):
        assert faults(page) + faint(page) == []
    assert page.trouble == []
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

PHONE, DESKTOP = 390, 1280  # pixels
PAPER, LANDSCAPE = 718, 1047  # of A4, between its margins
WIDTHS = (PHONE, DESKTOP)
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

# What moves on its way to a new place is judged where it ends.
_AT_ONCE = """addEventListener("DOMContentLoaded", () => {
    const sheet = new CSSStyleSheet();  // an element would be refused by pages that take no style but their own
    sheet.replaceSync("*, ::before, ::after { transition: none !important; animation: none !important }");
    document.adoptedStyleSheets.push(sheet);
})"""
_SCRIPT = Path(__file__).with_suffix(".js").read_text()


def looks(page: Any, widths: Sequence[int] = WIDTHS) -> Iterator[str]:
    """Show a page at each width, light and dark; yields how it is shown."""
    for width, scheme in product(widths, ("light", "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(50)  # for what moves to its new place
        yield f"{width} pixels, {scheme}"


def on_paper(page: Any, width: int = PAPER) -> None:
    """Show a page as it is printed."""
    page.set_viewport_size({"width": width, "height": 1000})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")


def faults(page: Any, ignore: str = "") -> list[str]:
    """What is wrong with the layout of a page: sideways scrolling, text that is cut, or lies over other text.

    Args:
        page: A page of playwright.
        ignore: A selector of parts where text may lie over text, as names of objects in a picture.
    """
    return page.evaluate(f"ignored => {{ {_SCRIPT}\nreturn faults(ignored); }}", ignore)


def faint(page: Any, ignore: str = "") -> list[str]:
    """Text whose contrast with what is behind it is below that of WCAG AA: 4.5, of large text 3."""
    return page.evaluate(f"ignored => {{ {_SCRIPT}\nreturn faint(ignored); }}", ignore)


@pytest.fixture(scope="module")  # no longer: while it lives, no other event loop can run in this process
def browser() -> Iterator[Any]:
    """A real browser; the test is left out where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    if BROWSER is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", "--disable-quic"])


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page; everything that it asks the network for or complains about ends up in `page.trouble`.

    A file may ask for files below its `folder` (default: for itself alone), an address for what is below that address.
    """
    contexts = []

    def open_page(place: Path | str, folder: Path | None = None) -> Any:
        context = browser.new_context(viewport={"width": DESKTOP, "height": 800})
        contexts.append(context)
        context.add_init_script(_AT_ONCE)
        page = context.new_page()
        page.trouble = []
        address = place if isinstance(place, str) else place.resolve().as_uri()
        own = folder.resolve().as_uri() if folder else address
        page.on("request", lambda it: it.url.startswith(("data:", "blob:", own)) or page.trouble.append(it.url))
        page.on("console", lambda it: page.trouble.append(it.text))
        page.on("pageerror", lambda it: page.trouble.append(str(it)))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
