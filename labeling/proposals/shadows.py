"""What is only a shadow?

A shadow dims all channels of the background by one factor, the same for the whole shot, and lets the background's
edges shine through. Learns that factor from the sampled pictures of a still shot, and tells shadows (and places that
are lit now, where the background was seen in shadow) from objects on single pictures.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from labeling.proposals.background import Background, largest_difference

PICTURES = 12  # pictures to learn from: shadows fall on most of them or do not matter
RESIDUAL_LEVELS, RESIDUAL_NOISE = 4.0, 2.0  # what a dimmed pixel may be off by
DARKEST, BRIGHTEST = 0.3, 0.93  # share of light left in a shadow
EVEN = 0.04  # a shadow keeps one share of light: half its pixels lie within this much of the middle
MARGIN = 0.06  # how far single pixels may be off that share
LEAST_AREA = 1e-3  # share of the picture from which on a dim region says anything
EDGE_LEVELS, EDGE_NOISE = 8.0, 4.0  # background structure that shines through a shadow or is hidden by an object
EDGE_PIXELS = 40  # fewer say nothing
BLOCK = np.ones((3, 3), np.uint8)


@dataclass(frozen=True)
class Shadows:
    """How shadows look in one shot."""

    low: float  # share of light left in them, from
    high: float  # to


def find_shadows(pictures: np.ndarray, background: Background, threshold: np.ndarray) -> Shadows | None:
    """Learn the shadows of a shot, or None if it has none that are sure not to be dark objects.

    Args:
        pictures: (K, H, W, 3) uint8.
        background: The scene without its objects.
        threshold: (H, W) uint8, larger differences to the background are foreground.
    """
    structured = _structured(background)
    chosen = pictures[np.unique(np.linspace(0, len(pictures) - 1, PICTURES).astype(int))]
    shares, through, hidden, touching, apart = [], 0, 0, 0, 0
    for image in chosen:
        front = largest_difference(image, background.picture) > threshold
        share, dimmed = dimming(image, background, front)
        dimmed &= (share > DARKEST) & (share < BRIGHTEST)
        dim = cv2.morphologyEx(dimmed.astype(np.uint8), cv2.MORPH_OPEN, BLOCK)
        count, labels, stats, _ = cv2.connectedComponentsWithStats(dim, connectivity=8)
        others = cv2.dilate((front & ~dimmed).astype(np.uint8), BLOCK)
        for label in range(1, count):
            if stats[label, cv2.CC_STAT_AREA] < LEAST_AREA * dim.size:
                continue
            region = labels == label
            inside = share[region]
            low, middle, high = np.percentile(inside, [25, 50, 75])
            if high - low > 2 * EVEN:
                continue
            shares.append(inside[np.abs(inside - middle) < 2 * EVEN])
            whole = cv2.morphologyEx(region.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((7, 7), np.uint8)) > 0
            through += int((whole & structured & dimmed).sum())
            hidden += int((whole & structured & ~dimmed).sum())
            if (others[region] > 0).any():
                touching += 1
            else:
                apart += 1
    if not shares:
        return None
    seen_through = through > hidden if through + hidden >= EDGE_PIXELS else touching > apart
    low, high = np.percentile(np.concatenate(shares), [5, 95])
    if not seen_through or high - low > 4 * EVEN:
        return None
    return Shadows(float(low) - MARGIN, float(high) + MARGIN)


def shadow_pixels(image: np.ndarray, background: Background, shadows: Shadows, front: np.ndarray) -> np.ndarray:
    """Where a picture (H, W, 3) uint8 differs from the background by a shadow or by the lack of one; (H, W) bool.

    Only pixels of `front`, (H, W) uint8, are looked at.
    """
    share, dimmed = dimming(image, background, front)
    light = np.minimum(share, 1.0 / np.maximum(share, 1e-3))
    dimmed &= light > shadows.low
    core = (dimmed & (light < shadows.high)).astype(np.uint8)
    core = cv2.morphologyEx(core, cv2.MORPH_OPEN, BLOCK)
    fringe = dimmed & (cv2.dilate(core, BLOCK, iterations=2) > 0)
    return fringe | (core > 0)


def dimming(image: np.ndarray, background: Background, front: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share of the background's light in every pixel, (H, W) float32, and whether that explains the pixel.

    Pixels outside `front`, (H, W), have a share of 1 and are not explained.
    """
    pixels = np.flatnonzero(front)
    seen = image.reshape(-1, 3)[pixels].astype(np.float32)
    behind = background.picture.reshape(-1, 3)[pixels].astype(np.float32)
    light = (seen * behind).sum(1) / np.maximum((behind * behind).sum(1), 1.0)
    residual = np.abs(seen - behind * light[:, None]).max(1)
    allowed = (RESIDUAL_LEVELS + RESIDUAL_NOISE * background.noise.ravel()[pixels]) * np.maximum(light, 1.0)
    share, dimmed = np.ones(front.shape, np.float32), np.zeros(front.shape, bool)
    share.flat[pixels], dimmed.flat[pixels] = light, residual < allowed
    return share, dimmed


def _structured(background: Background) -> np.ndarray:
    """Where the background has edges, (H, W) bool."""
    spread = largest_difference(cv2.dilate(background.picture, BLOCK), cv2.erode(background.picture, BLOCK))
    return spread > EDGE_LEVELS + EDGE_NOISE * background.noise
