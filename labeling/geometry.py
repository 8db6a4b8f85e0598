"""Where exactly is a mask?

Boxes, oriented boxes and centres of mass of a soft mask, in continuous pixels of the frame: pixel k spans k to k + 1.
Edges are placed by the share of the outermost pixels that is covered, so they are precise to a fraction of a pixel.
"""

from __future__ import annotations

import cv2
import numpy as np

from labeling.masks import Mask

FAINT = 0.1  # a row or column whose fullest pixel is covered less than this is outside the object
FULL = 0.9  # coverage of a pixel that counts as inside
BLUR = 3  # pixels that a sharp edge may be spread over


def box(mask: Mask) -> np.ndarray:
    """x1, y1, x2, y2 of a mask, float32 (4,)."""
    x1, x2 = _extent(mask.coverage.max(0))
    y1, y2 = _extent(mask.coverage.max(1))
    return np.array([mask.x + x1, mask.y + y1, mask.x + x2, mask.y + y2], np.float32)


def _extent(profile: np.ndarray) -> tuple[float, float]:
    """First and last edge of a coverage profile (n,) uint8."""
    share = np.concatenate([[0.0], profile / 255.0, [0.0]])
    inside = np.flatnonzero(share >= min(FAINT, share.max()))
    first, last = inside[0], inside[-1]
    if first == last:
        middle = first - 0.5
        return middle - share[first] / 2, middle + share[first] / 2
    backwards = share[::-1]
    return _edge(share, first) - 1, len(share) - 1 - _edge(backwards, len(share) - 1 - last)


def _edge(share: np.ndarray, first: int) -> float:
    """Where the object begins that `share` first shows at pixel `first`.

    A sharp edge lies as far before the first full pixel as the shares before that one add up to: blur and video's
    coarse colour spread an edge over up to three pixels. An object that fades out begins where it is covered by FAINT.
    """
    full = np.flatnonzero(share[first : first + BLUR + 1] >= FULL)
    if len(full):
        return float(first + full[0] - share[first : first + full[0]].sum())
    before, here = share[first - 1], share[first]
    return float(first - 0.5 + (min(FAINT, here) - before) / max(here - before, 1e-6))


def centre_of_mass(mask: Mask) -> np.ndarray:
    """x, y of the coverage-weighted centre, float32 (2,)."""
    moments = cv2.moments(mask.coverage)
    return np.array(
        [mask.x + moments["m10"] / moments["m00"] + 0.5, mask.y + moments["m01"] / moments["m00"] + 0.5], np.float32
    )


def oriented_box(mask: Mask) -> np.ndarray:
    """cx, cy, w, h, theta of the smallest rotated rectangle around a mask, w >= h, theta in [-pi/2, pi/2); (5,)."""
    solid = mask.solid if mask.solid.any() else mask.coverage > 0
    rows = np.flatnonzero(solid.any(1))
    first, last = solid[rows].argmax(1), solid.shape[1] - solid[rows, ::-1].argmax(1)
    # The outer corners of each row's first and last pixel span the same rectangle as all pixels do.
    corners = [np.stack([x, y], 1) for x in (first, last) for y in (rows, rows + 1)]
    hull = np.concatenate(corners).astype(np.float32)
    (cx, cy), (w, h), degrees = cv2.minAreaRect(hull)
    theta = np.deg2rad(degrees)
    if w < h:
        w, h, theta = h, w, theta + np.pi / 2
    theta = (theta + np.pi / 2) % np.pi - np.pi / 2
    return np.array([mask.x + cx, mask.y + cy, w, h, theta], np.float32)
