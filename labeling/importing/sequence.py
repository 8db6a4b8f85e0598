"""What do all formats of labels have in common?

A `Sequence` is what one file says about one video: rows of frame, identity, category, box and score, each with the
place in the file that it comes from, so that whatever is wrong with it can be said with file and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

LARGEST = float(2**53)  # of numbers in a file: beyond it, whole numbers are not told apart


class ImportProblem(Exception):
    """Labels cannot be used; the message says which file and line, and why."""


@dataclass(frozen=True)
class Sequence:
    """The labels of one video; M rows."""

    name: str
    where: Path  # the file that it is from
    called: list[str]  # what its video may be called, best first
    frame: np.ndarray  # (M,) int64, from 0 on
    instance: np.ndarray  # (M,) int64
    category: np.ndarray  # (M,) int64, a key of `names`
    boxes: np.ndarray  # (M, 4) float64, x1 y1 x2 y2, continuous pixels
    score: np.ndarray  # (M,) float64, 0 to 1
    place: np.ndarray  # (M,) int64: line or number of the annotation
    unit: str  # what `place` counts, as it stands in messages: ":" or " annotation "
    names: Mapping[int, str]
    size: tuple[int, int] | None = None  # height and width of the video, if the file says
    skipped: Mapping[str, int] = field(default_factory=dict)  # what was left out -> how often
    ignored: np.ndarray = field(default_factory=lambda: np.zeros((0, 5)))  # frame and box of what may be found or not
    fault: str = ""  # what is wrong with the file, if it could not be read to its end

    def at(self, row: int) -> str:
        """File and line of a row."""
        return f"{self.where}{self.unit}{self.place[row]}"

    def checked(self) -> Sequence:
        """The same, if it makes sense; ImportProblem otherwise."""
        if self.fault:
            raise ImportProblem(self.fault)
        bad = ~(np.isfinite(self.boxes).all(axis=1) & (self.boxes[:, 2:] > self.boxes[:, :2]).all(axis=1))
        for row in np.flatnonzero(bad)[:1]:
            raise ImportProblem(f"{self.at(row)}: width and height of a box must be numbers above zero.")
        for row in np.flatnonzero(self.frame < 0)[:1]:
            raise ImportProblem(f"{self.at(row)}: there is no frame before the first.")
        for row in np.flatnonzero((self.instance < 0) | (self.instance > np.iinfo(np.int32).max))[:1]:
            raise ImportProblem(
                f"{self.at(row)}: {self.instance[row]} is no identity. Boxes without one are detections, not tracks."
            )
        pairs = np.stack([self.frame, self.instance], axis=1)
        _, first, inverse = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        for row in np.flatnonzero(first[inverse.reshape(-1)] != np.arange(len(pairs)))[:1]:
            other = self.place[first[inverse.reshape(-1)[row]]]
            raise ImportProblem(
                f"{self.at(row)}: object {self.instance[row]} has a second box on that frame, the first is at {other}."
            )
        return self

    def kind_of(self, instance: int) -> int:
        """The category of an object: the one that most of its boxes have."""
        return int(Counter(self.category[self.instance == instance].tolist()).most_common(1)[0][0])


def in_words(value: object) -> str:
    """A value of a file as it stands in messages: short, and in one line."""
    text = str(value)
    return "".join(sign if sign.isprintable() else "?" for sign in text[:80]) + "..." * (len(text) > 80)
