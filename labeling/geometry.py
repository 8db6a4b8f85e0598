"""Where exactly is a mask?

Boxes, oriented boxes and centres of mass of a soft mask, in continuous pixels of the frame: pixel k spans k to k + 1.
Edges are placed by the share of the outermost pixels that is covered, so they are precise to a fraction of a pixel.
"""

from __future__ import annotations

import math

import cv2
import numpy as np

from labeling.masks import Mask

Scale = tuple[float, float]  # pixels of another size for each of this one, across and down

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
    share = [0.0, *(profile / 255.0).tolist(), 0.0]
    faint = min(FAINT, max(share))
    first = next(place for place, value in enumerate(share) if value >= faint)
    backwards = share[::-1]
    last = next(place for place, value in enumerate(backwards) if value >= faint)
    if first == len(share) - 1 - last:
        middle = first - 0.5
        return middle - share[first] / 2, middle + share[first] / 2
    return _edge(share, first) - 1, len(share) - 1 - _edge(backwards, last)


def _edge(share: list[float], first: int) -> float:
    """Where the object begins that `share` first shows at pixel `first`.

    A sharp edge lies as far before the first full pixel as the shares before that one add up to: blur and video's
    coarse colour spread an edge over up to three pixels. An object that fades out begins where it is covered by FAINT.
    """
    for place in range(first, min(first + BLUR + 1, len(share))):
        if share[place] >= FULL:
            return place - sum(share[first:place])
    before, here = share[first - 1], share[first]
    return first - 0.5 + (min(FAINT, here) - before) / max(here - before, 1e-6)


def scaled(oriented: np.ndarray, scale: Scale) -> np.ndarray:
    """An oriented box (5,) in pixels of another size; the two scales differ by rounding alone, so angles stay."""
    across, down = scale
    side = math.sqrt(across * down)
    return oriented * np.array([across, down, side, side, 1], oriented.dtype)


def centre_of_mass(mask: Mask) -> np.ndarray:
    """x, y of the coverage-weighted centre, float32 (2,)."""
    moments = cv2.moments(mask.coverage)
    return np.array(
        [mask.x + moments["m10"] / moments["m00"] + 0.5, mask.y + moments["m01"] / moments["m00"] + 0.5], np.float32
    )


def oriented_box(mask: Mask) -> np.ndarray:
    """cx, cy, w, h, theta of the smallest rotated rectangle around a mask, w >= h, theta in [-pi/2, pi/2); (5,)."""
    solid = mask.solid
    rows = np.flatnonzero(solid.any(1))
    if not len(rows):
        solid = mask.coverage > 0
        rows = np.flatnonzero(solid.any(1))
    solid = solid if len(rows) == len(solid) else solid[rows]
    # The outer corners of each row's first and last pixel span the same rectangle as all pixels do.
    corners = np.empty((2, 2, len(rows), 2), np.float32)
    corners[0, :, :, 0], corners[1, :, :, 0] = solid.argmax(1), solid.shape[1] - solid[:, ::-1].argmax(1)
    corners[:, 0, :, 1], corners[:, 1, :, 1] = rows, rows + 1
    (cx, cy), (w, h), degrees = cv2.minAreaRect(corners.reshape(-1, 2))
    theta = math.radians(degrees)
    if w < h:
        w, h, theta = h, w, theta + math.pi / 2
    theta = (theta + math.pi / 2) % math.pi - math.pi / 2
    return np.array([mask.x + cx, mask.y + cy, w, h, theta], np.float32)


def upright(boxes: np.ndarray) -> np.ndarray:
    """Boxes (..., 4) x1 y1 x2 y2 as oriented boxes (..., 5) cx cy w h theta that do not lean; the long side is w."""
    middle, sides = (boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]
    tall = sides[..., 1:] > sides[..., :1]
    angle = np.where(tall, -np.pi / 2, 0.0) + 0 * middle[..., :1]  # NaN where there is no box
    return np.concatenate([middle, np.where(tall, sides[..., ::-1], sides), angle], axis=-1).astype(np.float32)
