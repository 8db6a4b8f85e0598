"""How much of each pixel does an object cover?

Takes a piece of foreground, the picture and the background; gives coverage, 0 to 255. A pixel at the edge shows a
mixture of object and background; its share of the object is how far its colour lies on the way between the two. The
object's own colour is found uphill, where the difference to the background is largest: two pixels in for a sharp edge,
in the middle for a blob that fades out.
"""

from __future__ import annotations

from functools import cache, reduce

import cv2
import numpy as np

CHROMA = 0.02  # weight of colour against brightness: video stores colour at half the resolution
SOFT = 0.3  # an object whose pixels close to its edge are mostly covered less than this fades out, as a blob does
RINGS = 0.06  # compression draws rings of this strength around a strong contrast
NEARBY = np.ones((9, 9), np.uint8)  # as far as this
BLOCK = np.ones((3, 3), np.uint8)
RISE, RISE_LEVELS = 1.05, 1.0  # a sharp edge ends where the next step rises by less than this factor and levels
STEPS = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
LONGEST_WALK = 64  # pixels from the edge of a blob to its middle


def luma_first(image: np.ndarray) -> np.ndarray:
    """A picture (H, W, 3) uint8, RGB, as brightness and two colour differences, uint8."""
    return cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb)


def coverage_of(
    piece: np.ndarray, others: np.ndarray, difference: np.ndarray, seen: np.ndarray, behind: np.ndarray
) -> np.ndarray:
    """The coverage of one piece, (h, w) uint8; all arguments are the same window of the picture.

    Args:
        piece: 255 where the piece is, else 0; (h, w) uint8 with at least one pixel around the piece.
        others: 255 where other pieces are, else 0; (h, w) uint8.
        difference: To the background, (h, w) uint8.
        seen: The picture, `luma_first`.
        behind: The background, `luma_first`.
    """
    height = cv2.bitwise_and(difference, piece)
    inner = cv2.erode(piece, BLOCK, borderValue=255)
    core = cv2.erode(inner, BLOCK, borderValue=255)
    reach = cv2.subtract(cv2.dilate(piece, BLOCK), others)
    edge = np.flatnonzero(cv2.subtract(reach, core))
    slope = cv2.blur(height, (3, 3), borderType=cv2.BORDER_REPLICATE)
    shares = _shares(edge, _summits(edge, slope), seen, behind)
    near_edge = shares[inner.ravel()[edge] > 0]
    if 2 * np.count_nonzero(near_edge <= SOFT * 255) > len(near_edge):
        everywhere = np.flatnonzero(reach)
        slope = cv2.blur(height, (5, 5), borderType=cv2.BORDER_REPLICATE)
        coverage = np.zeros(piece.shape, np.uint8)
        coverage.ravel()[everywhere] = _shares(everywhere, _far_summits(slope)[everywhere], seen, behind)
        coverage = cv2.bitwise_and(cv2.blur(coverage, (3, 3), borderType=cv2.BORDER_REPLICATE), reach)
    else:
        coverage = core
        coverage.ravel()[edge] = shares
    strong = cv2.convertScaleAbs(cv2.dilate(height, NEARBY), alpha=RINGS, beta=0.49)
    rings = cv2.subtract(cv2.compare(height, strong, cv2.CMP_LT), inner)
    return cv2.subtract(coverage, rings)


def _shares(pixels: np.ndarray, summits: np.ndarray, seen: np.ndarray, behind: np.ndarray) -> np.ndarray:
    """The coverage of pixels whose object's colour is found at `summits`, (n,) uint8; both are flat indices."""
    seen, behind = seen.reshape(-1, 3), behind.reshape(-1, 3)
    here = behind.take(pixels, axis=0).astype(np.float32)
    way, gone = seen.take(summits, axis=0) - here, seen.take(pixels, axis=0) - here
    weighted = way * np.array([1, CHROMA, CHROMA], np.float32)
    share = np.einsum("ij,ij->i", gone, weighted) / np.maximum(np.einsum("ij,ij->i", way, weighted), 1.0)
    return np.round(np.clip(share, 0, 1) * 255).astype(np.uint8)


def _summits(pixels: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Where the way uphill ends from some pixels of a landscape (h, w) uint8 with sharp edges; flat indices (n,)."""
    uphill = _uphill(slope, RISE, RISE_LEVELS)
    summits = uphill.take(pixels)
    for _ in range(LONGEST_WALK):
        higher = uphill.take(summits)
        if (higher == summits).all():
            break
        summits = higher
    return summits


def _far_summits(slope: np.ndarray) -> np.ndarray:
    """Where the way uphill ends from every pixel of a landscape (h, w) uint8 that fades out; flat indices (h * w,)."""
    uphill = _uphill(slope, 1.0, 0.0)
    for _ in range(LONGEST_WALK.bit_length()):  # each round doubles the way
        higher = uphill.take(uphill)
        if (higher == uphill).all():
            break
        uphill = higher
    return uphill


def _uphill(slope: np.ndarray, rise: float, levels: float) -> np.ndarray:
    """For each pixel of a landscape (h, w) uint8 the neighbour that leads uphill, or itself; flat indices (h * w,).

    A step must lead higher than `rise` times the height plus `levels`.
    """
    rows, columns = slope.shape
    padded = cv2.copyMakeBorder(slope, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0).astype(np.uint16) << 4
    # Height and direction are one number, so that one maximum finds both.
    near = [padded[1 + dy : 1 + dy + rows, 1 + dx : 1 + dx + columns] | way for way, (dy, dx) in enumerate(STEPS)]
    best = reduce(cv2.max, near)
    offsets = np.array([dy * columns + dx for dy, dx in STEPS], np.int32).take(best & 15)
    offsets *= best >= _least(rise, levels).take(slope)
    offsets += np.arange(slope.size, dtype=np.int32).reshape(slope.shape)
    return offsets.ravel()


@cache
def _least(rise: float, levels: float) -> np.ndarray:
    """The height that a step must reach from each height, (256,), as `_uphill` writes it."""
    return np.floor(rise * np.arange(256) + levels + 1).astype(np.uint16) << 4
