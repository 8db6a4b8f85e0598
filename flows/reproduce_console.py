"""What a person sees at the terminal while a table is reproduced."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from flows.console import errors, terminal
from flows.threads import sleeping_threads
from flows.train_console import training_errors
from labeling.run import RunError
from training.reproduction.beyond import BEYOND
from training.reproduction.cells import Folder
from training.reproduction.page import behind, rows, standing
from training.reproduction.run import Listener, Reproduction
from training.reproduction.tables import TABLES, TableError, build

if TYPE_CHECKING:
    from training.config import Device
    from training.reproduction.scale import ScaleName
    from training.reproduction.table import Table as PaperTable


def name_tables(scale: ScaleName, workers: int) -> None:
    """All tables, and how long they take from nothing: first the paper's, then those that it does not have."""
    found = Table("table", "", Column("cells", justify="right"), Column("minutes", justify="right"))
    for name in [*TABLES, *BEYOND]:
        table = build(name, scale)
        if name == next(iter(BEYOND)):
            found.add_section()
        how_many = "with --videos" if table.needs else str(len(table.cells))
        found.add_row(name, escape(table.title), how_many, _minutes(table.minutes(workers)))
    terminal.print(found)


def preview(name: str, scale: ScaleName, out: Path, workers: int, videos: Path | None, only: str) -> None:
    """Cells, reductions, and the time that is left."""
    with training_errors(), _known_tables():
        this = Reproduction(build(name, scale, videos), out, only=only)
    _skip_if_something_is_missing(this.table)
    found = Table("cell", "state", Column("run", no_wrap=True), Column("minutes", justify="right"))
    for one in behind(this.chosen, this.folder):
        found.add_row(escape(one.label), escape(one.state), one.run, one.declared)
    terminal.print(found)
    for sentence in this.table.reductions:
        terminal.print(f"- {escape(sentence)}", soft_wrap=True)
    words = f"{len(this.cells)} of {len(this.chosen)} cells and {len(this.data)} datasets are left"
    minutes = this.minutes(workers) if this.cells or this.data else 0.0
    time = f": {minutes:.0f} minutes with {workers} side by side" if minutes else ""
    terminal.print(f"{words}{time}.", soft_wrap=True)


def reproduce(
    name: str, scale: ScaleName, out: Path, workers: int, device: Device, flow: bool, videos: Path | None, only: str
) -> None:
    """Run what is left of a table, here or as a Prefect flow run; exit code 1 if a cell failed."""
    sleeping_threads()  # also in the processes of its cells
    with training_errors(goes_on=True), _known_tables():
        table = build(name, scale, videos)
        _skip_if_something_is_missing(table)
        with CellBar() as bar:
            if flow:
                failures = _run_flow(name, scale, out, workers, device, videos, only, bar)
            else:
                from training.reproduction.run import reproduce as run

                failures = run(table, out, workers, device, bar, only)
        _print(table, Folder(out))
        for label, reason in failures.items():
            terminal.print(f"[red]failed[/] {escape(label)}: {escape(reason)}", soft_wrap=True)
        terminal.print(f"Page: {escape(str((out / f'{name}-{scale}.html').resolve()))}", soft_wrap=True)
        sys.exit(1 if failures else 0)


def _skip_if_something_is_missing(table: PaperTable) -> None:
    """End here, in peace: who runs all tables one after another wants the others."""
    if table.needs:
        terminal.print(f"skipped: {escape(table.needs)}", soft_wrap=True)
        sys.exit(0)


def _run_flow(
    name: str,
    scale: ScaleName,
    out: Path,
    workers: int,
    device: Device,
    videos: Path | None,
    only: str,
    bar: Listener,
) -> dict[str, str]:
    from flows.local import prefect_here

    with prefect_here():
        from flows.reproduce import heard_by, reproduce_paper

        with heard_by(bar):
            return reproduce_paper(name, scale, out, workers, device, videos, only)


def _print(table: PaperTable, folder: Folder) -> None:
    headings = [f"{column.group}\n{column.name}" if column.group else column.name for column in table.columns]
    beside = bool(table.source)
    found = Table("ours / paper's" if beside else "", *(Column(heading, justify="right") for heading in headings))
    for label, entries in rows(table, folder):
        texts = [entry.as_text(paper) for entry, paper in zip(entries, table.beside, strict=True)]
        found.add_row(escape(label), *map(escape, texts))
    terminal.print(found)
    for sentence in table.find(folder) if table.find else []:
        terminal.print(f"- {escape(sentence)}", soft_wrap=True)
    terminal.print(escape(standing(table, folder)), soft_wrap=True)


class CellBar(Listener):
    """A bar over datasets and cells, and a line for each that is at work."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(),
            console=errors, transient=True,
        )  # fmt: skip
        self._all = self._bar.add_task("cells", total=None)
        self._at: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def planned(self, jobs: int) -> None:
        """So many datasets and cells are left."""
        self._bar.update(self._all, total=jobs)

    def at(self, job: str, what: str) -> None:
        """A job got so far."""
        self._at[job] = what
        self._describe()

    def finished(self, job: str, failure: str) -> None:
        """A job is done, or failed."""
        self._at.pop(job, None)
        how = f"[red]failed[/]: {escape(failure)}" if failure else "done"
        self._bar.console.print(f"{escape(job)}: {how}", soft_wrap=True)
        self._bar.advance(self._all)
        self._describe()

    def _describe(self) -> None:
        lines = [f"{escape(job)}: {escape(what)}" for job, what in sorted(self._at.items())]
        self._bar.update(self._all, description="\n".join(lines) or "cells")


@contextmanager
def _known_tables() -> Iterator[None]:
    try:
        yield
    except TableError as error:
        raise RunError(str(error)) from error


def _minutes(minutes: float) -> str:
    return f"{minutes:.0f}" if minutes else "not known"
