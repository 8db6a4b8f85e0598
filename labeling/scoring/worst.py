"""Where do labels and truth agree least?

Picks a few frames of a clip, apart from one another, and says of each box on them what became of it: found, missed,
made up, or set aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from labeling.metrics import FITS, Matching, Switch, present

SHOWN = 3  # frames of a clip
APART = 6  # shown frames are at least this part of the clip away from one another
PERFECT = 0.999  # an agreement that is not worth showing

Fate = Literal["true", "missed", "found", "extra", "aside"]


@dataclass(frozen=True)
class Mark:
    """A box on a frame, found or true, and what became of it."""

    fate: Fate
    name: str
    box: tuple[float, float, float, float]  # x1 y1 x2 y2 in pixels


@dataclass(frozen=True)
class WorstFrame:
    """A frame on which labels and truth differ."""

    frame: int
    agreement: float  # 0 to 1: overlap of the boxes that stand for one another, over all boxes
    marks: list[Mark]
    switches: list[str]  # changes of identity, in words

    def count(self, fate: Fate) -> int:
        """How many boxes have met that fate."""
        return sum(mark.fate == fate for mark in self.marks)


def worst_frames(
    found: np.ndarray, true: np.ndarray, matching: Matching, switches: Sequence[Switch],
    names: tuple[list[str], list[str]], every: np.ndarray, count: int = SHOWN,
) -> list[WorstFrame]:  # fmt: skip
    """The frames with the least agreement, worst first.

    Args:
        found: The judged boxes, (T, N, 4).
        true: The true boxes, (T, M, 4).
        matching: What `match` gave for them.
        switches: Changes of identity; a pair that has just changed is not counted as right.
        names: Of the found tracks and of the true objects.
        every: All found boxes, (T, A, 4), of which those that are not judged are shown as such.
        count: How many frames.
    """
    agreement, boxes = agreements(found, true, matching, switches)
    frames: list[int] = []
    for frame in np.lexsort([np.arange(len(true)), -boxes, agreement]).tolist():
        if len(frames) == count or agreement[frame] > PERFECT:
            break
        if all(abs(frame - other) >= max(1, len(true) // APART) for other in frames):
            frames.append(frame)
    pairs, overlaps = matching
    good = pairs[overlaps >= FITS]
    shown = []
    for frame in frames:
        ours, theirs = ({int(row[side]) for row in good[good[:, 0] == frame]} for side in (1, 2))
        words = [
            f"{names[1][at.true]}: track {names[0][at.before]} before, {names[0][at.after]} now"
            for at in switches
            if at.frame == frame
        ]
        marks = [
            *_marks(true[frame], names[1], theirs, ("true", "missed")),
            *_marks(found[frame], names[0], ours, ("found", "extra")),
            *_set_aside(every[frame], found[frame]),
        ]
        shown.append(WorstFrame(frame, float(agreement[frame]), marks, words))
    return shown


def agreements(
    found: np.ndarray, true: np.ndarray, matching: Matching, switches: Sequence[Switch]
) -> tuple[np.ndarray, np.ndarray]:
    """Agreement of each frame, (T,), 1 where there is no box; and how many boxes there are, (T,)."""
    pairs, overlaps = matching
    good = overlaps >= FITS
    at, worth = pairs[good, 0], overlaps[good].copy()
    changed = {(switch.frame, switch.true) for switch in switches}
    worth[[(frame, other) in changed for frame, _, other in pairs[good].tolist()]] = 0
    boxes = present(found).sum(axis=1) + present(true).sum(axis=1)
    together = np.bincount(at, minlength=len(true))
    right = np.bincount(at, worth, minlength=len(true))
    return np.where(boxes > 0, right / np.maximum(1, boxes - together), 1.0), boxes


def _marks(boxes: np.ndarray, names: list[str], paired: set[int], fates: tuple[Fate, Fate]) -> list[Mark]:
    return [
        Mark(fates[0] if index in paired else fates[1], names[index], tuple(boxes[index].tolist()))
        for index in np.flatnonzero(present(boxes)).tolist()
    ]


def _set_aside(every: np.ndarray, judged: np.ndarray) -> list[Mark]:
    known = {tuple(box) for box in judged[present(judged)].tolist()}
    return [
        Mark("aside", "", (box[0], box[1], box[2], box[3]))
        for box in every[present(every)].tolist()
        if tuple(box) not in known
    ]
