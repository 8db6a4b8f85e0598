"""Where exactly does an object end, when only its patches are known?

Takes a picture and a mask of patches, and returns coverage to the pixel, 0 to 255. Around every pixel the mask is
explained by colour (a guided filter: the best linear function of the three channels in a window of a few patches), so
that edges of the mask move to edges of the picture; where colours say nothing, the smoothed patches remain.
"""

from __future__ import annotations

import cv2
import numpy as np

REACH = 1.25  # patches: half the side of the window in which colour explains the mask
STIFF = 5e-5  # variance of colour (of 1) below which a window counts as plain
SHARP = 3.0  # the filter blurs edges: slope at one half that makes edges of them again
CRUMB = 0.05  # pieces of less than this share of the object are not part of it
LOST = 0.1  # a patch of which less than this is left was thin (a rope, a mast): it stays as it was
PAD = 3  # patches around the object that are looked at
RIM = np.ones((3, 3), np.uint8)


def refined(image: np.ndarray, patches: np.ndarray) -> np.ndarray:
    """Coverage (H, W) uint8 of what `patches` (rows, columns) bool cover of an image (H, W, 3) uint8."""
    height, width = image.shape[:2]
    rows, columns = patches.shape
    coverage = np.zeros((height, width), np.float32)
    if not patches.any():
        return coverage.astype(np.uint8)
    window = np.s_[_window(patches, height), _window(patches.T, width)]
    rough = cv2.resize(patches.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
    colour = cv2.cvtColor(image[window], cv2.COLOR_RGB2LAB).astype(np.float32) / 255
    reach = max(1, round(REACH * height / rows)), max(1, round(REACH * width / columns))
    share = _sharp(_explained(rough[window], colour, reach))
    coverage[window] = _without_crumbs(share, rough[window])
    left = cv2.resize(coverage, (columns, rows), interpolation=cv2.INTER_AREA)
    lost = (patches & (left < LOST)).astype(np.uint8)
    thin = cv2.resize(lost, (width, height), interpolation=cv2.INTER_NEAREST)
    return np.round(255 * np.where(thin > 0, np.maximum(coverage, _sharp(rough)), coverage)).astype(np.uint8)


def _sharp(share: np.ndarray) -> np.ndarray:
    return np.clip((share - 0.5) * SHARP + 0.5, 0, 1)


def _window(patches: np.ndarray, length: int) -> slice:
    """The pixels to look at along the first axis of `patches`, of `length` pixels."""
    first, last = np.flatnonzero(patches.any(1))[[0, -1]]
    patch = length / len(patches)
    return slice(max(0, int((first - PAD) * patch)), min(length, int(np.ceil((last + 1 + PAD) * patch))))


def _explained(rough: np.ndarray, colour: np.ndarray, reach: tuple[int, int]) -> np.ndarray:
    """`rough` (h, w) as a locally linear function of `colour` (h, w, 3)."""

    def mean(values: np.ndarray) -> np.ndarray:
        return np.asarray(cv2.blur(values, (2 * reach[1] + 1, 2 * reach[0] + 1), borderType=cv2.BORDER_REFLECT))

    means, mean_rough = mean(colour), mean(rough)
    first, second, third = cv2.split(colour)
    products = mean(cv2.merge([first * first, second * second, third * third]))
    spread = products - means * means + STIFF
    crossed = mean(cv2.merge([first * second, first * third, second * third]))
    crossed -= cv2.merge([means[..., i] * means[..., j] for i, j in ((0, 1), (0, 2), (1, 2))])
    pull = mean(colour * rough[..., None]) - means * mean_rough[..., None]
    slope = _solved(spread, crossed, pull)
    offset = mean_rough - np.einsum("hwc,hwc->hw", slope, means)
    return np.einsum("hwc,hwc->hw", mean(slope), colour) + mean(offset)


def _solved(diagonal: np.ndarray, crossed: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a symmetric 3x3 system at every pixel; `crossed` holds its entries 01, 02 and 12. (h, w, 3)."""
    a, b, c = np.moveaxis(diagonal, -1, 0)
    d, e, f = np.moveaxis(crossed, -1, 0)
    aa, bb, cc = b * c - f * f, a * c - e * e, a * b - d * d
    dd, ee, ff = e * f - d * c, d * f - e * b, d * e - a * f
    determinant = a * aa + d * dd + e * ee
    x, y, z = np.moveaxis(right, -1, 0)
    solution = [aa * x + dd * y + ee * z, dd * x + bb * y + ff * z, ee * x + ff * y + cc * z]
    return np.stack(solution, -1) / determinant[..., None]


def _without_crumbs(share: np.ndarray, rough: np.ndarray) -> np.ndarray:
    """The pieces that hold a fair part of the object."""
    _, pieces = cv2.connectedComponents((share >= 0.5).astype(np.uint8), connectivity=4)
    inside = np.bincount(pieces.ravel(), (share * rough).ravel())
    inside[0] = 0
    kept = (inside > CRUMB * inside.sum())[pieces].astype(np.uint8)
    return np.where(cv2.dilate(kept, RIM) > 0, share, 0)
