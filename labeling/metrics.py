"""How well do tracked boxes agree with the true ones?

`compare` takes found and true boxes of one video, arrays over frames and objects with NaN where absent, and counts what
HOTA is made of: boxes that match at 19 thresholds of overlap, and how long both sides keep to the same partner. Counts
of many videos add up; `Agreement` says HOTA, detection and association, and how far the edges of matching boxes are
off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

THRESHOLDS = np.arange(1, 20) * 0.05  # of overlap, 0.05 to 0.95
HALF = 9  # the one of 0.5
_TINY = 1e-9  # an overlap of a threshold exactly counts


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


NOTHING = Agreement(np.zeros(len(THRESHOLDS)), np.zeros(len(THRESHOLDS)), 0, 0, 0.0)


def compare(found: np.ndarray, true: np.ndarray) -> Agreement:
    """Compare boxes (T, N, 4) with true ones (T, M, 4), x1 y1 x2 y2."""
    pairs, overlaps = match(found, true)
    here, there = (np.isfinite(boxes).all(axis=-1) for boxes in (found, true))
    frames = (here.sum(axis=0)[:, None], there.sum(axis=0)[None])
    matched, kept = np.zeros(len(THRESHOLDS)), np.zeros(len(THRESHOLDS))
    for index, threshold in enumerate(THRESHOLDS):
        good = pairs[overlaps >= threshold - _TINY]
        together = np.zeros((found.shape[1], true.shape[1]))
        np.add.at(together, (good[:, 1], good[:, 2]), 1)
        matched[index] = len(good)
        kept[index] = (together**2 / np.maximum(1, frames[0] + frames[1] - together)).sum()
    at, one, other = pairs[overlaps >= THRESHOLDS[HALF] - _TINY].T
    edges = np.abs(found[at, one] - true[at, other]).mean(axis=-1).sum()
    return Agreement(matched, kept, int(here.sum()), int(there.sum()), float(edges))


def match(found: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of boxes that belong together, (K, 3): frame, found, true; and their overlaps (K,).

    Each frame is matched one to one; where boxes could go with several, those are preferred whose tracks overlap most
    over the whole video.
    """
    overlap = overlaps_of(found, true)  # (T, N, M)
    rivals = overlap.sum(axis=1, keepdims=True) + overlap.sum(axis=2, keepdims=True) - overlap
    shared = (overlap / np.maximum(rivals, _TINY)).sum(axis=0)
    lengths = [np.isfinite(boxes).all(axis=-1).sum(axis=0) for boxes in (found, true)]
    alike = shared / np.maximum(lengths[0][:, None] + lengths[1][None] - shared, _TINY)
    pairs = []
    for frame, scores in enumerate(overlap):
        for one, other in zip(*linear_sum_assignment(-alike * scores), strict=True):
            if scores[one, other] > 0:
                pairs.append((frame, one, other))
    table = np.array(pairs, int).reshape(-1, 3)
    return table, overlap[table[:, 0], table[:, 1], table[:, 2]]


def overlaps_of(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Intersection over union (T, N, M); 0 where one of the two is absent."""
    one, other = found[:, :, None], true[:, None]
    sides = np.minimum(one[..., 2:], other[..., 2:]) - np.maximum(one[..., :2], other[..., :2])
    common = np.prod(np.maximum(sides, 0), axis=-1)
    areas = [np.prod(boxes[..., 2:] - boxes[..., :2], axis=-1) for boxes in (one, other)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(common / (areas[0] + areas[1] - common), nan=0.0, posinf=0.0)
