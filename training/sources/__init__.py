"""Where does a dataset come from?

Each kind of source is one file with a class that keeps to `Source`: it says what its takes have in common and hands
them out one after another. `open_source` in `training.prepare` knows which file reads what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Protocol, runtime_checkable

from training.dataset_format import DatasetCategory
from training.takes import Layout, Take

FEW = 10  # takes: with fewer, holding one out would leave a gap in the training set
PIECES = 20  # into which they are then cut
SHORTEST = 48  # frames of such a piece

Report = Callable[[str, str], None]  # the file, and what is wrong with it


class Source(Protocol):
    """Something that datasets are made of."""

    name: str
    origin: str  # what it is, in full: a dataset of one origin is not replaced by that of another unasked
    layout: Layout
    categories: list[DatasetCategory]
    notes: list[str]  # choices that were made, for the user to know
    recipe: str  # a hash of all that decides the dataset
    frames: int  # about how many there will be

    def takes(self, report: Report) -> Iterator[Take]:
        """All takes in a fixed order; what cannot be used is reported and left out."""


@runtime_checkable
class Numbered(Source, Protocol):
    """A source whose takes are the same in every run, so that the first ones need not be looked at again."""

    def takes_from(self, first: int, report: Report) -> Iterator[Take]:
        """The takes from number `first` on."""


def longest_episode(asked: int, takes: int, frames: int) -> int:
    """Frames from which on a take is cut: as asked for, or so that few takes can be split; 0: never."""
    if asked or takes >= FEW:
        return asked
    return max(SHORTEST, frames // PIECES)


def pieces(start: int, stop: int, longest: int) -> list[tuple[int, int]]:
    """A stretch of frames in equal pieces of at most `longest` (0: as a whole)."""
    count = -(-(stop - start) // longest) if longest else 1
    edges = [start + (stop - start) * number // count for number in range(count + 1)]
    return list(pairwise(edges))
