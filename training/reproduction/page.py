"""How is a table shown?

As Markdown and as one HTML page: our numbers beside the paper's, with intervals, reductions and the time they took.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from labeling.files import write_whole
from training.markdown import as_it_is
from training.pages import render
from training.reproduction.cells import Cell, Folder
from training.reproduction.intervals import Estimate, estimate
from training.reproduction.judge import PASSED_OVER
from training.reproduction.table import Entry, Table, Unit

TEMPLATE = Path(__file__).with_name("page.html")
NOTHING = "–"
BESIDE = " / the paper's"
REDUCED, SIZES = "Reductions against the paper", "Sizes"
INTERVALS = (
    "Means over seeds. In brackets 95 % intervals: of a rate in one run Wilson's over its trials; of several runs "
    "Student's t over the runs, for rates never narrower than Wilson's over the trials of one, since "
    "all are tried on the same starts. A figure that is the same in all runs has none."
)
_FORMATS: dict[Unit, Callable[[float], str]] = {
    "percent": lambda value: f"{100 * value:.1f} %",
    "correlation": lambda value: f"{value:.3f}",
    "error": lambda value: f"{value:.5f}",
    "pixels": lambda value: f"{value:.3f}",
    "count": lambda value: f"{value:.1f}",
    "steps": lambda value: f"{value:,.0f}",
}
# What a figure can be: Student's interval of two runs may reach beyond.
_RANGES: dict[Unit, tuple[float, float]] = {
    "percent": (0, 1), "correlation": (-1, 1), "error": (0, math.inf), "pixels": (0, math.inf), "count": (0, math.inf),
    "steps": (0, math.inf),
}  # fmt: skip
_ENDS: dict[Unit, Callable[[float], str]] = {**_FORMATS, "percent": lambda value: f"{100 * value:.1f}"}


@dataclass(frozen=True)
class Shown:
    """An entry in words."""

    ours: str
    interval: str = ""
    paper: str = NOTHING
    lacking: str = ""  # why a number of ours is not there, or not of all seeds

    def as_text(self, beside_paper: bool = True) -> str:
        """In a line."""
        ours = " ".join(part for part in (self.ours, self.interval, self.lacking) if part)
        return f"{ours} / {self.paper}" if beside_paper else ours


@dataclass(frozen=True)
class Behind:
    """What stands behind the numbers: a cell, and how it is getting on."""

    label: str
    run: str
    state: str
    left_out: str  # starts that were not planned from
    minutes: str
    declared: str


def write(table: Table, folder: Folder) -> Path:
    """Write `TABLE.md`, `TABLE.html` and, if there is a picture, `TABLE.png` into the folder; the path of the page."""
    folder.path.mkdir(parents=True, exist_ok=True)
    stem = f"{table.name}-{table.scale.name}"
    drawn = table.picture.draw(folder) if table.picture else None
    if drawn:
        write_whole(folder.path / f"{stem}.png", drawn)
    write_whole(folder.path / f"{stem}.md", markdown(table, folder))
    page = folder.path / f"{stem}.html"
    widths = [(column.group, 2 if beside else 1) for column, beside in zip(table.columns, table.beside, strict=True)]
    groups = [(name, sum(width for _, width in members)) for name, members in groupby(widths, key=itemgetter(0))]
    text = render(
        TEMPLATE, table=table, groups=groups, width=sum(width for _, width in widths), rows=rows(table, folder),
        behind=behind(table.cells, folder), standing=standing(table, folder), intervals=INTERVALS,
        found=_found(table, folder), picture=base64.b64encode(drawn).decode() if drawn else "",
    )  # fmt: skip
    write_whole(page, text)
    return page


def markdown(table: Table, folder: Folder) -> str:
    """The table and all that is said about it as text; cells are `ours (interval) / paper's`."""
    headings = ["", *(f"{column.group}, {column.name}" if column.group else column.name for column in table.columns)]
    beside = bool(table.source)
    lines = [
        [label, *(entry.as_text(paper) for entry, paper in zip(entries, table.beside, strict=True))]
        for label, entries in rows(table, folder)
    ]
    cells = [
        [one.label, one.run, one.state, one.left_out, one.minutes, one.declared] for one in behind(table.cells, folder)
    ]
    paper = f"the paper's table `{table.source}`." if beside else "the paper has no such table."
    reading = f"Each cell: ours (95 % interval){BESIDE if beside else ''}."
    stem = f"{table.name}-{table.scale.name}.png"
    picture = table.picture.caption if table.picture and (folder.path / stem).exists() else ""
    return "\n".join([
        f"# {table.title}", "", f"Scale `{table.scale.name}`; {paper} {standing(table, folder)} {reading}", "",
        *(f"- {sentence}" for sentence in _found(table, folder)), "",
        *_grid(headings, lines), "", INTERVALS, "", *(f"- {note}" for note in table.notes), "",
        *([f"![{picture}]({stem})", "", picture, ""] if picture else []),
        *_titled(REDUCED if beside else SIZES, [f"- {sentence}" for sentence in table.reductions]),
        *_titled("Cells", _grid(["", "run", "", "starts left out", "minutes by the clock", "planned"], cells)),
    ])  # fmt: skip


def rows(table: Table, folder: Folder) -> list[tuple[str, list[Shown]]]:
    """All rows by their labels, as things stand."""
    units = [column.unit for column in table.columns]
    return [
        (row.label, [shown(entry, unit, folder) for entry, unit in zip(row.entries, units, strict=True)])
        for row in table.rows
    ]


def shown(entry: Entry, unit: Unit, folder: Folder) -> Shown:
    """An entry as things stand."""
    paper = _FORMATS[unit](entry.paper) if isinstance(entry.paper, float | int) else entry.paper or NOTHING
    if not entry.trainings or entry.measure is None:
        return Shown(NOTHING, paper=paper, lacking="left out at this scale" if entry.paper is not None else "")
    found, reasons = [], []
    for training in entry.trainings:
        figures = folder.figures(training, entry.measure)
        if figures is not None and entry.figure in figures:
            found.append(figures[entry.figure])
        elif figures is not None:
            reasons.append(entry.absent)
        else:
            reasons.append("failed" if folder.failure(training) else "not run yet")
    if not found:
        return Shown(NOTHING, paper=paper, lacking=reasons[0])
    some = f"{len(found)} of {len(entry.trainings)} seeds" if reasons else ""
    together = estimate(found)
    return Shown(_FORMATS[unit](together.value), _interval(together, unit), paper, some)


def behind(cells: Sequence[Cell], folder: Folder) -> list[Behind]:
    """Cells, as things stand."""
    return [
        Behind(
            cell.label, cell.training.id, _state(cell, folder), _left_out(cell, folder), _minutes(_used(cell, folder)),
            _minutes(cell.minutes),
        )
        for cell in cells
    ]  # fmt: skip


def standing(table: Table, folder: Folder) -> str:
    """How far it is, and the time used, in a sentence or two."""
    done = sum(not folder.left(cell) for cell in table.cells)
    failed = sum(bool(folder.left(cell) and folder.failure(cell.training)) for cell in table.cells)
    words = f"{done} of {len(table.cells)} cells are done" + (f", {failed} failed." if failed else ".")
    used = sum(_used(cell, folder) for cell in table.cells)
    return f"{words} By the clock they took {used / 60:.1f} hours, one after another." if used else words


def _found(table: Table, folder: Folder) -> list[str]:
    return table.find(folder) if table.find else []


def _interval(found: Estimate, unit: Unit) -> str:
    if found.low is None or found.high is None:
        return ""
    least, most = _RANGES[unit]
    return f"({_ENDS[unit](max(least, found.low))} to {_ENDS[unit](min(most, found.high))})"


def _state(cell: Cell, folder: Folder) -> str:
    if not folder.left(cell):
        return "done"
    if reason := folder.failure(cell.training):
        return f"failed: {reason}"
    return "begun" if folder.begun(cell.training) else "not run yet"


def _left_out(cell: Cell, folder: Folder) -> str:
    """How many starts were passed over, and why, in all of a cell's plans together; runs of old did not count them."""
    counts: Counter[str] = Counter()
    for measure in cell.measures:
        for name, figure in (folder.figures(cell.training, measure) or {}).items():
            if name.startswith(PASSED_OVER):
                counts[name.removeprefix(PASSED_OVER)] += round(figure.value)
    return ", ".join(f"{count} {why}" for why, count in counts.items()) or NOTHING


def _used(cell: Cell, folder: Folder) -> float:
    """Minutes of training and judging."""
    times = [folder.times(cell.training, measure) for measure in cell.measures]
    return (max(one.training for one in times) + sum(one.judging for one in times)) / 60


def _minutes(minutes: float) -> str:
    return f"{minutes:.0f}" if minutes else NOTHING


def _titled(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""] if lines else []


def _grid(headings: list[str], rows: list[list[str]]) -> list[str]:
    table = (headings, ["---"] * len(headings), *rows)
    return [f"| {' | '.join(as_it_is(cell) for cell in row)} |" for row in table]
