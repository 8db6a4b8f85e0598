"""How much of each pixel does an object cover?

Takes a piece of foreground, the picture and the background; gives coverage, 0 to 255. A pixel at the edge shows a
mixture of object and background; its share of the object is how far its colour lies on the way between the two. The
object's own colour is found uphill, where the difference to the background is largest: two pixels in for a sharp edge,
in the middle for a blob that fades out.
"""

from __future__ import annotations

import cv2
import numpy as np

CHROMA = 0.05  # weight of colour against brightness: video stores colour at half the resolution
SOFT = 0.3  # an object whose pixels close to its edge are mostly covered less than this fades out, as a blob does
RINGS = 0.06  # compression draws rings of this strength around a strong contrast
NEARBY = np.ones((9, 9), np.uint8)  # as far as this
BLOCK = np.ones((3, 3), np.uint8)
RISE, RISE_LEVELS = 1.05, 1.0  # a step uphill is at least this factor plus this many levels, or it is noise
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
        others: Where other pieces are, (h, w) bool.
        difference: To the background, (h, w) uint8.
        seen: The picture, `luma_first`.
        behind: The background, `luma_first`.
    """
    height = cv2.bitwise_and(difference, piece)
    slope = cv2.blur(height, (3, 3), borderType=cv2.BORDER_REPLICATE)
    inner = cv2.erode(piece, BLOCK, borderValue=255)
    core = cv2.erode(inner, BLOCK, borderValue=255) > 0
    reach = cv2.dilate(piece, BLOCK) > 0
    reach[others] = False
    coverage = np.zeros(piece.shape, np.uint8)
    edge = np.flatnonzero(reach & ~core)
    coverage.flat[edge] = _shares(edge, slope, seen, behind)
    near_edge = coverage[(inner > 0) & ~core]
    if len(near_edge) and np.median(near_edge) <= SOFT * 255:
        middle = np.flatnonzero(core)
        coverage.flat[middle] = _shares(middle, slope, seen, behind)
        coverage = cv2.blur(coverage, (3, 3), borderType=cv2.BORDER_REPLICATE)
        coverage[~reach] = 0
    else:
        coverage[core] = 255
    rings = height < RINGS * cv2.dilate(height, NEARBY)
    rings[inner > 0] = False
    coverage[rings] = 0
    return coverage


def _shares(pixels: np.ndarray, slope: np.ndarray, seen: np.ndarray, behind: np.ndarray) -> np.ndarray:
    """The coverage of pixels given by flat index, (n,) uint8."""
    summits = _uphill(pixels, slope)
    seen, behind = seen.reshape(-1, 3), behind.reshape(-1, 3)
    here = behind[pixels].astype(np.float32)
    way, gone = seen[summits] - here, seen[pixels] - here
    weighted = way * np.array([1, CHROMA, CHROMA], np.float32)
    share = (gone * weighted).sum(1) / np.maximum((way * weighted).sum(1), 1.0)
    return np.round(np.clip(share, 0, 1) * 255).astype(np.uint8)


def _uphill(pixels: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The summits (n,) that lead steadily uphill from pixels (n,) of a landscape (h, w) uint8; flat indices."""
    width = slope.shape[1]
    padded = cv2.copyMakeBorder(slope, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0).ravel()
    steps = np.array([dy * (width + 2) + dx for dy in (-1, 0, 1) for dx in (-1, 0, 1)])
    place = (pixels // width + 1) * (width + 2) + pixels % width + 1
    walking = np.arange(len(place))
    for _ in range(LONGEST_WALK):
        here = place[walking]
        around = padded[here[:, None] + steps]
        best = around.argmax(1)
        rises = around[np.arange(len(here)), best] > RISE * padded[here] + RISE_LEVELS
        walking = walking[rises]
        if not len(walking):
            break
        place[walking] = here[rises] + steps[best[rises]]
    return (place // (width + 2) - 1) * width + place % (width + 2) - 1
