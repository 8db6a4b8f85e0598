"""What is only a shadow?

A shadow dims all channels of the background by one factor, the same for the whole shot, and lets the background's
edges shine through. Learns that factor from the sampled pictures of a still shot, and tells shadows (and places that
are lit now, where the background was seen in shadow) from objects on single pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from labeling.proposals.background import Background
from labeling.proposals.stacks import components, largest_difference, place_of

RESIDUAL_LEVELS, RESIDUAL_NOISE = 4.0, 2.0  # what a dimmed pixel may be off by
DARKEST, BRIGHTEST = 0.3, 0.93  # share of light left in a shadow
EVEN = 0.04  # a shadow keeps one share of light: half its pixels lie within this much of the middle
MARGIN = 0.06  # how far single pixels may be off that share
LEAST_AREA = 1e-3  # share of the picture from which on a dim region says anything
EDGE_LEVELS, EDGE_NOISE = 8.0, 4.0  # background structure that shines through a shadow or is hidden by an object
EDGE_PIXELS = 40  # fewer say nothing
WHOLE = 64  # light is counted in parts of this
SHADES = int(DARKEST * WHOLE) + 1, int(BRIGHTEST * WHOLE)  # from and to, in those parts
BLOCK, HOLES = np.ones((3, 3), np.uint8), np.ones((7, 7), np.uint8)  # holes of this size in a shadow are closed
ROOM = 7  # pixels around a shadow, so that closing works as on the whole picture


@dataclass(frozen=True)
class Shadows:
    """How shadows look in one shot."""

    low: float  # share of light left in them, from
    high: float  # to


def find_shadows(pictures: Sequence[np.ndarray], background: Background, threshold: np.ndarray) -> Shadows | None:
    """Learn the shadows of a shot, or None if it has none that are sure not to be dark objects.

    Args:
        pictures: Sampled ones, (H, W, 3) uint8.
        background: The scene without its objects.
        threshold: (H, W) uint8, larger differences to the background are foreground.
    """
    structured, allowed = _structured(background), _allowed(background)
    shares, through, hidden, touching, apart = [], 0, 0, 0, 0
    for image in pictures:
        front = cv2.compare(largest_difference(image, background.picture), threshold, cv2.CMP_GT)
        light, residual = dimming(image, background)
        explained = cv2.bitwise_and(front, cv2.compare(residual, allowed, cv2.CMP_LT))
        dimmed = cv2.bitwise_and(explained, cv2.inRange(light, *SHADES))
        labels, area = components(cv2.morphologyEx(dimmed, cv2.MORPH_OPEN, BLOCK))
        others = cv2.dilate(cv2.subtract(front, dimmed), BLOCK)
        for label in np.flatnonzero(area >= max(1.0, LEAST_AREA * front.size)):
            x, y, w, h = place_of(labels, int(label))
            window = np.s_[max(y - ROOM, 0) : y + h + ROOM, max(x - ROOM, 0) : x + w + ROOM]
            region, share = labels[window] == label, light[window] / WHOLE
            inside = share[region]
            low, middle, high = np.percentile(inside, [25, 50, 75])
            if high - low > 2 * EVEN:
                continue
            shares.append(inside[np.abs(inside - middle) < 2 * EVEN])
            whole = cv2.morphologyEx(region.astype(np.uint8), cv2.MORPH_CLOSE, HOLES) > 0
            even = (dimmed[window] > 0) & (np.abs(share - middle) < 2 * EVEN)
            through += int((whole & structured[window] & even).sum())
            hidden += int((whole & structured[window] & ~even).sum())
            if (others[window][region] > 0).any():
                touching += 1
            else:
                apart += 1
    if not shares:
        return None
    seen_through = through > 3 * hidden if through + hidden >= EDGE_PIXELS else touching > apart
    low, high = np.percentile(np.concatenate(shares), [5, 95])
    if not seen_through or high - low > 4 * EVEN:
        return None
    return Shadows(float(low) - MARGIN, float(high) + MARGIN)


def shadow_pixels(image: np.ndarray, background: Background, shadows: Shadows) -> np.ndarray:
    """Where a picture (H, W, 3) uint8 differs from the background by a shadow or by the lack of one; (H, W) uint8."""
    share, residual = dimming(image, background)
    allowed = _allowed(background)
    dimmed = cv2.compare(residual, allowed, cv2.CMP_LT)
    lit = cv2.compare(residual, cv2.convertScaleAbs(allowed, alpha=1 / shadows.low), cv2.CMP_LT)
    even = cv2.bitwise_and(cv2.inRange(share, WHOLE * shadows.low, WHOLE * shadows.high), dimmed)
    bright = cv2.bitwise_and(cv2.inRange(share, WHOLE / shadows.high, WHOLE / shadows.low), lit)
    core = cv2.morphologyEx(cv2.bitwise_or(even, bright), cv2.MORPH_OPEN, BLOCK)
    if not cv2.countNonZero(core):
        return core
    fading = cv2.bitwise_and(cv2.inRange(share, WHOLE * shadows.low, WHOLE / shadows.low), dimmed)
    fringe = cv2.bitwise_and(cv2.dilate(core, BLOCK, iterations=2), fading)
    return cv2.bitwise_or(core, fringe)


def dimming(image: np.ndarray, background: Background) -> tuple[np.ndarray, np.ndarray]:
    """The share of the background's light in every pixel, in parts of WHOLE, and what it leaves unexplained.

    Both are (H, W) uint8, the latter in grey levels: whole pictures of bytes are quick to compute with.
    """
    share = cv2.divide(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), background.grey, scale=float(WHOLE))
    dimmed = cv2.multiply(background.picture, cv2.merge([share, share, share]), scale=1 / WHOLE)
    return share, largest_difference(image, dimmed)


def _allowed(background: Background) -> np.ndarray:
    """What a dimmed pixel may be off by, (H, W) uint8."""
    return cv2.convertScaleAbs(background.noise, alpha=RESIDUAL_NOISE, beta=RESIDUAL_LEVELS)


def _structured(background: Background) -> np.ndarray:
    """Where the background has edges, (H, W) bool."""
    spread = largest_difference(cv2.dilate(background.picture, BLOCK), cv2.erode(background.picture, BLOCK))
    return spread > EDGE_LEVELS + EDGE_NOISE * background.noise
