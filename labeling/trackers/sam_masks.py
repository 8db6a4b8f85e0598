"""Where exactly is the object that a network drew, and which masks are of the same thing?

Networks draw masks as logits on a coarse grid over the whole picture; a label needs the share of every pixel that is
covered. Masks are compared by the area that they share.
"""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np

from labeling.masks import Mask, intersection

SPECK = 0.05  # pieces smaller than this share of the largest are no part of the object: one would spoil the box
MARGIN = 2  # pixels around the inside whose coverage is computed, too
WAYS = (1, 0), (0, 1)  # derivatives across and down


def mask_of(logits: np.ndarray, height: int, width: int) -> Mask | None:
    """The mask of a picture of this size in which `logits` (h, w) are above zero; None if they are nowhere.

    Coverage comes from the distance to the line where logits cross zero. Their sigmoid would say how sure the network
    is: unsure edges are many pixels wide, and a box around them too large.
    """
    inside = (logits > 0).astype(np.uint8)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(inside, connectivity=8)
    areas = stats[1:, cv2.CC_STAT_AREA]
    if not len(areas):
        return None
    pieces = np.flatnonzero(areas >= SPECK * areas.max()) + 1
    if len(pieces) < len(areas):
        specks = inside.astype(bool) & ~np.isin(labels, pieces)
        logits = np.where(specks, -logits, logits)
    left, top, across, down = stats[pieces, :4].T
    rows = _positions(int(top.min()), int((top + down).max()), logits.shape[0], height)
    columns = _positions(int(left.min()), int((left + across).max()), logits.shape[1], width)
    enlarged = _between(_between(logits, *rows[1:]).T, *columns[1:]).T
    slope = [cv2.Sobel(enlarged, cv2.CV_32F, *way, scale=1 / 8, borderType=cv2.BORDER_REPLICATE) for way in WAYS]
    distance = enlarged / np.maximum(cv2.magnitude(*slope), 1e-3)
    coverage = np.clip(0.5 + distance, 0, 1) * 255
    return Mask.cut(coverage.round().astype(np.uint8), columns[0], rows[0])


def _positions(first: int, last: int, count: int, size: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Which of `size` pixels lie over the cells from `first` to before `last` of `count`, and where between cells.

    Returns the first pixel, the cell before each pixel's centre, and how far that centre is on the way to the next.
    """
    cell = size / count
    begin = max(0, int((first - 1) * cell) - MARGIN)
    centres = (np.arange(begin, min(size, int((last + 1) * cell) + 1 + MARGIN)) + 0.5) / cell - 0.5
    centres = np.clip(centres, 0, count - 1)
    before = np.minimum(centres.astype(int), max(count - 2, 0))
    return begin, before, (centres - before).astype(np.float32)


def _between(values: np.ndarray, before: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Rows of values (n, m) at fractional places."""
    after = np.minimum(before + 1, len(values) - 1)
    return values[before] * (1 - part[:, None]) + values[after] * part[:, None]


def overlap(first: Mask, second: Mask) -> float:
    """Intersection over union of two masks of one frame."""
    shared = intersection(first, second)
    return shared / (first.area + second.area - shared) if shared else 0.0


def covered(mask: Mask, others: Iterable[Mask]) -> float:
    """The share of a mask's area on which others of the frame lie."""
    return sum(intersection(mask, other) for other in others) / max(mask.area, 1e-9)
