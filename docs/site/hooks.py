"""Pages of the site that are made while it is built, so that they cannot go stale; called by MkDocs.

The README and the notes of other folders become pages, each command has one made from the command itself, notebooks are
shown cell by cell, results stand under the paper, and a page that nobody has given a place stands under "More".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.main import get_command

from flows.cli import app

ROOT = Path(__file__).parents[2]
# Pages that live elsewhere in the repository: page -> file.
ELSEWHERE = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "manifests.md": "data_manifests/README.md"}
TITLES = {"manifests.md": "# Manifests\n\n"}
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give every page a place in the navigation."""
    nav: list[Any] = config.nav or []
    places = [
        {context.command_path.removeprefix("spectrabox "): f"commands/{name}.md"} for name, _, context in _commands()
    ]
    nav.append({"Commands": ["commands/index.md", *places]})
    results = sorted(path.name for path in Path(config.docs_dir).glob("results/*.md"))
    paper = next(entry["The paper"] for entry in nav if "The paper" in entry)
    paper.append({"Results": [{name.removesuffix("-cpu.md"): f"results/{name}"} for name in results]})
    known = set(_pages(nav))
    if more := sorted(path.name for path in Path(config.docs_dir).glob("*.md") if path.name not in known):
        nav.append({"More": more})
    config.nav = nav
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are no files of `docs`."""
    made = {page: TITLES.get(page, "") + _moved(source) for page, source in ELSEWHERE.items()}
    made |= {f"commands/{name}.md": _command_page(command, context) for name, command, context in _commands()}
    made["commands/index.md"] = _command_table()
    for notebook in Path(config.docs_dir).glob("notebooks/*.ipynb"):
        made[f"notebooks/{notebook.stem}.md"] = _cells(notebook)
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links out of `docs` lead to the pages that were made of those files."""
    return LINK.sub(lambda link: _page_of(link[1].removeprefix("../")) or link[1], markdown)


def _moved(source: str) -> str:
    """A file of the repository as a page; its links count from its own folder."""
    folder = Path(source).parent

    def target(link: re.Match[str]) -> str:
        path = (folder / link[1]).as_posix()
        return _page_of(path) or path.removeprefix("docs/")

    return LINK.sub(target, (ROOT / source).read_text())


def _page_of(path: str) -> str | None:
    return next((page for page, source in ELSEWHERE.items() if source == path), None)


def _pages(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        for target in entry.values() if isinstance(entry, dict) else [entry]:
            yield from _pages(target) if isinstance(target, list) else [target]


def _commands() -> Iterator[tuple[str, Any, Any]]:
    """Name, command and context of every command; those of a group are called `group-name`."""
    top = get_command(app)
    root = top.make_context("spectrabox", [], resilient_parsing=True)
    for name, command in sorted(top.commands.items()):
        context = command.make_context(name, [], parent=root, resilient_parsing=True)
        if not hasattr(command, "commands"):
            yield name, command, context
            continue
        for inner, one in command.commands.items():
            yield f"{name}-{inner}", one, one.make_context(inner, [], parent=context, resilient_parsing=True)


def _command_table() -> str:
    rows = [
        f"| [`{context.command_path}`]({name}.md) | {_cell(_summary(command))} |"
        for name, command, context in _commands()
    ]
    head = "# Commands\n\nEach explains itself with `--help`, which says the same.\n\n| command | |\n|---|---|"
    return "\n".join([head, *rows])


def _summary(command: Any) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def _command_page(command: Any, context: Any) -> str:
    usage = context.get_usage().removeprefix("Usage: ")
    lines = [f"# {context.command_path}", "", command.help or "", "", "```", usage, "```", ""]
    records = [record for param in command.params if (record := param.get_help_record(context))]
    if records:
        lines += ["| argument or option | what it says |", "|---|---|"]
        lines += [f"| {_spelled(declared)} | {_cell(words)} |" for declared, words in records]
    return "\n".join(lines)


def _spelled(declared: str) -> str:
    """An option and what it takes, each in a piece that is not broken: `--seed` `<int>`."""
    return declared.replace(" / ", "` / `").replace(" <", "` `<", 1).join("``")


def _cell(words: str) -> str:
    """Text that neither ends a cell nor begins a tag; what is in backticks is left alone."""
    parts = words.split("`")
    parts[::2] = [part.replace("|", "\\|").replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def _cells(notebook: Path) -> str:
    """A notebook as a page: its words, and its code to copy."""
    parts = []
    for cell in json.loads(notebook.read_text())["cells"]:
        text = "".join(cell["source"])
        is_code = cell["cell_type"] == "code"
        parts.append(f"```python\n{text}\n```" if is_code else text.replace(".ipynb)", ".md)"))
    title, rest = parts[0].partition("\n")[::2]
    note = f"To run it: [download the notebook]({notebook.name}), or open it in your clone."
    return "\n\n".join([title, note, rest.strip(), *parts[1:]])
