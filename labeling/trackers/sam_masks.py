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


def mask_of(logits: np.ndarray, height: int, width: int) -> Mask | None:
    """The mask of a picture of this size in which `logits` (h, w) are above zero; None if they are nowhere.

    Coverage comes from the distance to the line where logits cross zero. Their sigmoid would say how sure the network
    is: unsure edges are many pixels wide, and a box around them too large.
    """
    inside = (logits > 0).astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(inside, connectivity=8)
    if count < 2:
        return None
    areas = stats[1:, cv2.CC_STAT_AREA]
    specks = np.flatnonzero(areas < SPECK * areas.max()) + 1
    if len(specks):
        logits = np.where(np.isin(labels, specks), np.minimum(-logits, -1e-3), logits)
    large = cv2.resize(logits, (width, height), interpolation=cv2.INTER_LINEAR)
    rows, columns = np.flatnonzero((large > 0).any(1)), np.flatnonzero((large > 0).any(0))
    if not len(rows):
        return None
    top, bottom = max(rows[0] - MARGIN, 0), rows[-1] + 1 + MARGIN
    left, right = max(columns[0] - MARGIN, 0), columns[-1] + 1 + MARGIN
    crop = large[top:bottom, left:right]
    across = cv2.Sobel(crop, cv2.CV_32F, 1, 0, scale=1 / 8, borderType=cv2.BORDER_REPLICATE)
    down = cv2.Sobel(crop, cv2.CV_32F, 0, 1, scale=1 / 8, borderType=cv2.BORDER_REPLICATE)
    distance = crop / np.maximum(cv2.magnitude(across, down), 1e-3)
    coverage = np.clip(0.5 + distance, 0, 1) * 255
    return Mask.cut(coverage.round().astype(np.uint8), int(left), int(top))


def overlap(first: Mask, second: Mask) -> float:
    """Intersection over union of two masks of one frame."""
    shared = intersection(first, second)
    return shared / max(first.area + second.area - shared, 1e-9)


def covered(mask: Mask, others: Iterable[Mask]) -> float:
    """The share of a mask's area on which others of the frame lie."""
    return sum(intersection(mask, other) for other in others) / max(mask.area, 1e-9)
