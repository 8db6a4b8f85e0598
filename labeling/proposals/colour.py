"""Which colours belong to what moves?

Soft histograms of colours inside and outside of what moves. Their log ratio, looked up for every pixel, says how much
its colour speaks for the moving things: over a whole chunk of frames, and close around them on the frames nearby.
"""

from __future__ import annotations

import cv2
import numpy as np

LEVELS = 16  # bins of lightness and of both colour axes
BINS = LEVELS**3
MOST_SPILL = 0.7  # share of the inside that may turn out to be outside
COMMON = 0.15  # quantile of the outside's colours by which that share is measured
UNDECIDED = 0.02  # share of the overall histogram mixed into both: rare colours say little


def colour_codes(image: np.ndarray) -> np.ndarray:
    """The colour bin of every pixel of an RGB image (h, w, 3), (h, w) uint16."""
    light, a, b = cv2.split(cv2.LUT(cv2.cvtColor(image, cv2.COLOR_RGB2LAB), _LEVEL))
    return cv2.merge([cv2.add(a, b), light]).view(np.uint16)[..., 0]  # low byte first


def _levels() -> np.ndarray:
    """Level of each value of L, a and b, (1, 256, 3) uint8, that of a times 16. Real colours have a and b near 128."""
    values = np.arange(256)
    narrow = np.clip((values - 64) // 8, 0, LEVELS - 1)
    return np.stack([values // LEVELS, narrow * LEVELS, narrow], 1).astype(np.uint8)[None]


_LEVEL = _levels()


def count(codes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Histogram (BINS,) of colour codes (h, w), each pixel counted by its weight (h, w)."""
    return np.bincount(codes.ravel(), weight.ravel(), BINS)


def log_ratio(inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """How much each colour speaks for the inside, (BINS,) float32, from two histograms."""
    inside, outside = _smooth(inside), _smooth(outside)
    both = inside + outside
    both *= UNDECIDED / max(both.sum(), 1e-9)
    inside /= max(inside.sum(), 1e-9)
    outside /= max(outside.sum(), 1e-9)
    inside = np.maximum(inside - _spilled(inside, outside) * outside, 0)
    inside /= max(inside.sum(), 1e-9)
    return np.log((inside + both + 1e-7) / (outside + both + 1e-7)).astype(np.float32)


def _spilled(inside: np.ndarray, outside: np.ndarray) -> float:
    """The share of the inside that is really outside: even colours that are common outside and rare inside have it."""
    common = np.flatnonzero(outside > 1e-5)
    if not len(common):
        return 0.0
    share = inside[common] / outside[common]
    order = np.argsort(share)
    weight = np.cumsum(outside[common][order])
    return float(min(MOST_SPILL, share[order][np.searchsorted(weight, COMMON * weight[-1])]))


def _smooth(histogram: np.ndarray) -> np.ndarray:
    """Blur a histogram (BINS,) a little along its three axes."""
    cube = histogram.reshape(LEVELS, LEVELS, LEVELS)
    for _ in range(3):
        blurred = 0.6 * cube
        blurred[1:] += 0.2 * cube[:-1]
        blurred[:-1] += 0.2 * cube[1:]
        cube = blurred.transpose(1, 2, 0)  # after three turns the axes are in order again
    return cube.reshape(BINS)
