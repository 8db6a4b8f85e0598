"""What is a table made of?

Rows and columns as the paper has them. Each `Entry` knows the paper's number, the trainings whose mean stands beside
it, one for each seed, and which figure of which measure that is. The cells to run follow from the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from training.reproduction.cells import Cell, Data, Folder, Measure, Training
from training.reproduction.scale import Scale

Unit = Literal["percent", "correlation", "error", "pixels", "count", "steps"]

WAVES = (
    "Learned positions of the encoder's patches begin as half a wave over the picture; in "
    "LeWM's code they begin as small noise, with which models learn later (docs/grounding.md)."
)


@dataclass(frozen=True)
class Entry:
    """One number of a table."""

    trainings: tuple[Training, ...] = ()  # one for each seed; none: this scale leaves it out
    measure: Measure | None = None
    figure: str = ""  # of the measure
    paper: float | str | None = None  # its number, or a word where it has none; None: it says nothing
    absent: str = "not measured"  # what it means if the measure does not have that figure


LEFT_OUT = Entry()


@dataclass(frozen=True)
class Column:
    """A column of the paper's table."""

    name: str
    unit: Unit
    group: str = ""  # the heading above it, which neighbours may share


@dataclass(frozen=True)
class Row:
    """A row of the paper's table, or one of ours beside it."""

    label: str
    entries: tuple[Entry, ...]  # one for each column


@dataclass(frozen=True)
class Picture:
    """What a table shows besides numbers."""

    draw: Callable[[Folder], bytes | None]  # PNG; None while there is nothing to draw
    caption: str


@dataclass(frozen=True)
class Table:
    """One table at one scale."""

    name: str
    title: str
    source: str  # which table of the paper; empty: the paper has no such table
    scale: Scale
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()  # how the paper was read, what is ours
    find: Callable[[Folder], list[str]] | None = None  # what the figures say, a sentence each
    picture: Picture | None = None
    needs: str = ""  # what has to be given before it has rows
    cells: tuple[Cell, ...] = field(init=False)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.entries) != len(self.columns):
                raise ValueError(f"{self.name}: the row {row.label} has {len(row.entries)} entries.")
        object.__setattr__(self, "cells", _cells(self.rows))

    @property
    def beside(self) -> list[bool]:
        """Of each column, whether the paper has anything to stand beside ours."""
        return [any(row.entries[number].paper is not None for row in self.rows) for number in range(len(self.columns))]

    @property
    def data(self) -> list[Data]:
        """All datasets, those first that take longest."""
        found = dict.fromkeys(data for cell in self.cells for data in sorted(cell.data, key=lambda one: one.name))
        return sorted(found, key=lambda data: -data.minutes)

    def minutes(self, workers: int = 2) -> float:
        """How long it takes from nothing, as declared, with so many cells side by side; 0: nobody knows."""
        if not self.scale.timed:
            return 0.0
        return side_by_side([data.minutes for data in self.data], workers) + side_by_side(
            [cell.minutes for cell in self.cells], workers
        )

    @property
    def reductions(self) -> tuple[str, ...]:
        """What the scale does otherwise than the paper, a sentence each."""
        found = self.scale.reductions_of(self.name)
        waves = [cell.training.config().model.encoder.waves for cell in self.cells]
        return (*found, WAVES) if waves and all(waves) else found


Build = Callable[[Scale], Table]


def side_by_side(minutes: Sequence[float], workers: int) -> float:
    """How long jobs take that begin in this order, each as soon as one of the workers is free."""
    busy = [0.0] * workers
    for one in minutes:
        first = busy.index(min(busy))
        busy[first] += one
    return max(busy)


def _cells(rows: Sequence[Row]) -> tuple[Cell, ...]:
    """Each training once, with all of its measures; those first that take longest."""
    found: dict[Training, dict[Measure, None]] = {}
    for entry in (entry for row in rows for entry in row.entries):
        for training in entry.trainings:
            assert entry.measure is not None
            found.setdefault(training, {})[entry.measure] = None
    cells = [Cell(training, tuple(measures)) for training, measures in found.items()]
    return tuple(sorted(cells, key=lambda cell: -cell.minutes))
