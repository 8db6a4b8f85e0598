"""How well do tracked boxes agree with the true ones?

Takes found and true boxes of one video, (T, N, 4) and (T, M, 4) with NaN where absent. `compare` counts what HOTA is
made of, `follow` who follows whom and where that changes (CLEAR), `identity_f1` how much one name for each object gets
right; all as TrackEval defines them, which the tests hold them to. Counts of many videos add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

THRESHOLDS = np.arange(1, 20) * 0.05  # of overlap, 0.05 to 0.95
HALF = 9  # the one of 0.5
FITS = 0.5 - 1e-9  # an overlap from which on a found box stands for a true one
_TINY = 1e-9  # an overlap of a threshold exactly counts
_SAME = 1000.0  # going on with the same partner is worth more than any overlap


@dataclass(frozen=True)
class Agreement:
    """Counts over any number of videos; arrays are (19,), one number a threshold."""

    matched: np.ndarray  # pairs of boxes
    kept: np.ndarray  # over these, how much their tracks have in common, 0 to 1 each
    found: int  # boxes
    true: int
    edges: float  # sum of the mean distances of the edges of pairs that overlap by half

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(
            self.matched + other.matched, self.kept + other.kept, self.found + other.found, self.true + other.true,
            self.edges + other.edges,
        )  # fmt: skip

    @property
    def detection(self) -> np.ndarray:
        """DetA at each threshold."""
        return self.matched / np.maximum(1, self.found + self.true - self.matched)

    @property
    def association(self) -> np.ndarray:
        """AssA at each threshold."""
        return self.kept / np.maximum(1, self.matched)

    @property
    def hota(self) -> float:
        """The geometric mean of detection and association, averaged over the thresholds."""
        return float(np.sqrt(self.detection * self.association).mean())

    @property
    def edge_error(self) -> float:
        """Mean distance of an edge from the true one, in the unit of the boxes; NaN where nothing matches."""
        return self.edges / self.matched[HALF] if self.matched[HALF] else float("nan")


Matching = tuple[np.ndarray, np.ndarray]
NOTHING = Agreement(np.zeros(len(THRESHOLDS)), np.zeros(len(THRESHOLDS)), 0, 0, 0.0)


class Switch(NamedTuple):
    """A true object is followed by another track than before."""

    frame: int
    true: int
    before: int
    after: int


@dataclass(frozen=True)
class Following:
    """Which found box stands for which true one, where tracks keep to their objects as long as they fit."""

    matched: int  # pairs of boxes that overlap by half
    switches: list[Switch]


class Meeting(NamedTuple):
    """The boxes of one frame."""

    frame: int
    true: np.ndarray  # (m,) which are there
    found: np.ndarray  # (n,)
    overlap: np.ndarray  # (m, n)


def meetings(found: np.ndarray, true: np.ndarray) -> Iterator[Meeting]:
    """The frames on which there are both found and true boxes: memory does not grow with a video's length."""
    here, there = present(found), present(true)
    for frame in np.flatnonzero(here.any(axis=1) & there.any(axis=1)).tolist():
        rows, columns = np.flatnonzero(there[frame]), np.flatnonzero(here[frame])
        overlap = overlaps_of(true[frame, rows][:, None], found[frame, columns][None])
        yield Meeting(frame, rows, columns, overlap)


def compare(found: np.ndarray, true: np.ndarray, matching: Matching | None = None) -> Agreement:
    """Compare boxes (T, N, 4) with true ones (T, M, 4), x1 y1 x2 y2; what `match` gave may be handed on."""
    pairs, overlaps = match(found, true) if matching is None else matching
    here, there = present(found), present(true)
    frames = (here.sum(axis=0)[:, None], there.sum(axis=0)[None])
    matched, kept = np.zeros(len(THRESHOLDS)), np.zeros(len(THRESHOLDS))
    for index, threshold in enumerate(THRESHOLDS):
        good = pairs[overlaps >= threshold - _TINY]
        together = np.zeros((found.shape[1], true.shape[1]))
        np.add.at(together, (good[:, 1], good[:, 2]), 1)
        matched[index] = len(good)
        kept[index] = (together**2 / np.maximum(1, frames[0] + frames[1] - together)).sum()
    at, one, other = pairs[overlaps >= FITS].T
    edges = np.abs(found[at, one] - true[at, other]).mean(axis=-1).sum()
    return Agreement(matched, kept, int(here.sum()), int(there.sum()), float(edges))


def match(found: np.ndarray, true: np.ndarray) -> Matching:
    """Pairs of boxes that belong together, (K, 3): frame, found, true; and their overlaps (K,).

    Each frame is matched one to one; where boxes could go with several, those are preferred whose tracks overlap most
    over the whole video.
    """
    shared = np.zeros((true.shape[1], found.shape[1]))
    for _, rows, columns, overlap in meetings(found, true):
        rivals = overlap.sum(axis=0, keepdims=True) + overlap.sum(axis=1, keepdims=True) - overlap
        shared[np.ix_(rows, columns)] += overlap / np.maximum(rivals, _TINY)
    lengths = [present(boxes).sum(axis=0) for boxes in (true, found)]
    alike = shared / np.maximum(lengths[0][:, None] + lengths[1][None] - shared, _TINY)
    pairs: list[tuple[int, int, int]] = []
    overlaps: list[float] = []
    for frame, rows, columns, overlap in meetings(found, true):
        for row, column in zip(*linear_sum_assignment(-alike[np.ix_(rows, columns)] * overlap), strict=True):
            if overlap[row, column] > 0:
                pairs.append((frame, columns[column], rows[row]))
                overlaps.append(overlap[row, column])
    return np.array(pairs, int).reshape(-1, 3), np.array(overlaps)


def follow(found: np.ndarray, true: np.ndarray) -> Following:
    """Pair boxes that overlap by half, frame after frame; who was a pair on the frame before stays one if it can."""
    matched, switches = 0, []
    last: dict[int, int] = {}  # who followed a true object most recently
    before: dict[int, int] = {}  # who did on the frame before
    for frame, rows, columns, overlap in meetings(found, true):
        same = np.array([before.get(row, -1) for row in rows.tolist()])[:, None] == columns[None]
        worth = np.where(overlap >= FITS, _SAME * same + overlap, 0)
        now = {
            int(rows[row]): int(columns[column])
            for row, column in zip(*linear_sum_assignment(-worth), strict=True)
            if worth[row, column] > 0
        }
        switches += [
            Switch(frame, row, last[row], column) for row, column in now.items() if last.get(row, column) != column
        ]
        matched += len(now)
        last, before = last | now, now
    return Following(matched, switches)


def identity_f1(found: np.ndarray, true: np.ndarray) -> float:
    """IDF1: the boxes that are right if every true object may go by one track's name alone, 0 to 1."""
    together = np.zeros((true.shape[1], found.shape[1]))
    for _, rows, columns, overlap in meetings(found, true):
        together[np.ix_(rows, columns)] += overlap >= FITS
    best = together[linear_sum_assignment(-together)].sum()
    return float(2 * best / max(1, present(found).sum() + present(true).sum()))


def covered(found: np.ndarray, true: np.ndarray, overlap: float = 0.3) -> int:
    """How many true boxes some found box overlaps by so much; one found box may cover several."""
    return sum(int((frame.overlap.max(axis=1) >= overlap - _TINY).sum()) for frame in meetings(found, true))


def present(boxes: np.ndarray) -> np.ndarray:
    """Where there is a box, (...) bool."""
    return np.isfinite(boxes).all(axis=-1)


def overlaps_of(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes (..., 4) that broadcast; 0 where one of the two is absent."""
    sides = np.minimum(one[..., 2:], other[..., 2:]) - np.maximum(one[..., :2], other[..., :2])
    common = np.prod(np.maximum(sides, 0), axis=-1)
    areas = [np.prod(boxes[..., 2:] - boxes[..., :2], axis=-1) for boxes in (one, other)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(common / (areas[0] + areas[1] - common), nan=0.0, posinf=0.0)
