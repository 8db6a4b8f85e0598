"""The documentation: it builds, every link leads somewhere, no page asks the network for anything, commands exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from typer.exceptions import TyperException
from typer.main import get_command

from flows.cli import app
from tests.layout import faint, faults, looks

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE_BLOCK = r"^ *```(?:sh|console)?\n(.*?)^ *```"
# What the theme draws around a page: lists that slide in and out of view.
AROUND = ".md-header, .md-sidebar, .md-search, .md-top, .md-skip, .headerlink, .md-clipboard"


class Links(HTMLParser):
    """What a page points to, what it asks for while it is shown, and the anchors that it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.leads, self.asks, self.anchors = list[str](), list[str](), {""}
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.leads.append(found["href"])
        elif tag == "link" and found.get("rel") not in ("canonical", "prev", "next"):
            self.asks.append(found["href"])
        elif "src" in found:
            self.asks.append(found["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does; not `--quiet`, which would keep warnings from being counted."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stderr
    return out


def test_every_link_of_the_site_leads_somewhere_and_nothing_is_asked_of_others(site: Path) -> None:
    pages = {page.as_uri(): Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    assert len(pages) > 40
    everywhere = pages[(site / "index.html").as_uri()].leads
    assert {f"{page.stem}.html" for page in (ROOT / "docs").glob("*.md")} - set(everywhere) == set(), "not in the menu"
    wrong = []
    for address, links in pages.items():
        for link in links.leads + links.asks:
            target = urlsplit(urljoin(address, link))
            if target.scheme in ("http", "https", "mailto"):
                wrong += [f"{address} asks for {link}"] if link in links.asks else []
            elif not Path(unquote(target.path)).is_file():
                wrong.append(f"{address} leads to {link}, which is not there")
            elif target.path.endswith(".html"):
                known = pages.get(target._replace(fragment="").geturl())
                if known and unquote(target.fragment) not in known.anchors:
                    wrong.append(f"{address} leads to {link}, which has no such section")
    assert wrong == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", styles) == []


def test_lists_and_tables_of_the_pages_are_not_left_as_signs(site: Path) -> None:
    """GitHub is more forgiving than the site: a list right below a paragraph is part of it there."""
    for page in site.glob("*.html"):
        left = re.findall(r"<p>[^<]*\n(?:[-*] |\|)[^\n]*", page.read_text())
        assert left == [], f"{page.name}: {left[0] if left else ''}"


def test_each_command_has_a_page_with_all_its_options(site: Path) -> None:
    for name, command in _commands():
        text = (site / "commands" / f"{name.replace(' ', '-')}.html").read_text()
        for option in (option for param in command.params for option in param.opts if option.startswith("--")):
            assert f"{option}" in text, f"{name} {option}"


@pytest.mark.slow
def test_pages_are_whole_and_can_be_searched_without_a_server(site: Path, opened) -> None:
    page = opened(site / "index.html", folder=site)
    for name in ("index.html", "recipes.html", "commands/label.html", "notebooks/label_and_look.html"):
        page.goto((site / name).as_uri())
        for look in looks(page):
            assert faults(page, ignore=AROUND) + faint(page, ignore=AROUND) == [], f"{name}, {look}"
    page.locator("[data-md-component=search-query]").click()
    page.keyboard.type("keep_static")
    page.locator(".md-search-result__item", has_text="Objects stand still").first.wait_for()
    assert page.trouble == []


def test_every_command_line_of_the_documentation_is_one_that_exists() -> None:
    known, lines = dict(_commands()), 0
    for page in PAGES:
        for line in _command_lines(page.read_text()):
            words = shlex.split(line, comments=True)[1:]
            if not words or words[0].startswith("-"):
                continue
            name = next(n for n in (" ".join(words[:2]), words[0], "") if n in known or not n)
            assert name, f"{page.name}: {line}"
            try:
                known[name].make_context(name, words[len(name.split()) :])
            except TyperException as error:
                pytest.fail(f"{page.name}: {line}: {error}")
            lines += 1
    assert lines > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_said_beside_a_command_is_a_comment(page: Path) -> None:
    """Typed as it stands, a sentence would be taken for names of packages."""
    for block in re.findall(CODE_BLOCK, page.read_text(), re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.strip().startswith(("pip ", "python ", "prefect ", "make ")):
                assert "   " not in line.partition("#")[0].strip(), line


def _commands() -> Iterator[tuple[str, object]]:
    for name, command in get_command(app).commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())
        else:
            yield name, command


def _command_lines(text: str) -> Iterator[str]:
    """Lines of code blocks that call `spectrabox`, alone or one after another."""
    for block in re.findall(CODE_BLOCK, text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            yield from (part.strip() for part in line.split("&&") if part.strip().startswith("spectrabox "))
