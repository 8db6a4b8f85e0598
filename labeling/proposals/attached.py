"""Which parts of a still scene belong to what moves?

A robot's foot or a joint never moves, yet it is part of the robot. Looks in the background for compact things that
stand out from their surroundings and that something moving touches on all pictures, and takes them out of the
background, so that they are proposed together with what moves.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from labeling.proposals.background import Background
from labeling.proposals.shadows import Shadows, shadow_pixels
from labeling.proposals.stacks import components, disc, largest_difference, place_of, thickness

SMALL_SIDE = 112  # the surroundings are estimated on a picture of this size
SURROUNDINGS = 3  # as the median of a window of one third of it
STAND_OUT_LEVELS, STAND_OUT_NOISE = 10.0, 4.0  # difference to the surroundings
STAND_OUT_CLUTTER, CLUTTER = 1.5, 90  # and than 1.5 times what a tenth of the scene differs by: clutter hides things
TOUCHED = 0.97  # share of the pictures on which something that moves touches one and the same place of a part
REACH = 2  # pixels of gap that count as touching, beyond a part's own radius: a joint turns
LARGEST = 0.6  # a part is at most this large against what moves
MOSTLY = 0.8  # share of a piece that is inside of parts: it is nothing else
WIDEST = 0.5  # and extend over this share of the picture


def without_attached(
    background: Background, fronts: Sequence[np.ndarray], shadows: Shadows | None
) -> tuple[Background, np.ndarray]:
    """The background with the unmoving parts of moving things replaced by their surroundings, and those parts.

    Args:
        background: The scene without what moves.
        fronts: What moves, (H, W) uint8 masks of some sampled pictures.
        shadows: The shadows of the shot, which stand out but are no parts.

    Returns:
        The new background, and where the parts are, (H, W) bool.
    """
    nothing = np.zeros(background.noise.shape, bool)
    moving = [(front > 0).astype(np.uint8) for front in fronts if front.any()]
    if len(moving) < max(2, TOUCHED * len(fronts)):
        return background, nothing
    around = surroundings(background.picture)
    contrast = contrast_to(around, background.picture)
    stands_out = (contrast > stand_out_threshold(contrast, background)).astype(np.uint8)
    if shadows is not None:
        stands_out[shadow_pixels(background.picture, Background(around[0], background.noise), shadows) > 0] = 0
    parts = _parts(stands_out, moving)
    if not parts.any():
        return background, nothing
    parts = cv2.dilate(parts, np.ones((3, 3), np.uint8)) > 0
    return Background(np.where(parts[:, :, None], around[0], background.picture), background.noise), parts


Piece = tuple[int, np.ndarray]  # a label, and x, y, w, h


def join_outside(labels: np.ndarray, pieces: list[Piece], parts: np.ndarray) -> tuple[np.ndarray, list[Piece]]:
    """Join the pieces of one frame that meet outside the picture.

    An arm may leave the picture and come in again. A piece that holds an unmoving part and is cut off by the picture's
    border becomes one with the others that are cut off there.

    Args:
        labels: (H, W).
        pieces: Those that count.
        parts: Where unmoving parts of moving things are, (H, W) bool.
    """
    height, width = labels.shape
    cut = [
        (label, place)
        for label, place in pieces
        if min(place[:2]) == 0 or place[0] + place[2] == width or place[1] + place[3] == height
    ]
    feet = [label for label, _ in cut if (parts & (labels == label)).any()]
    if not feet or len(cut) < 2:
        return labels, pieces
    joined = [label for label, _ in cut]
    corners = np.array([[x, y, x + w, y + h] for _, (x, y, w, h) in cut])
    low, high = corners[:, :2].min(0), corners[:, 2:].max(0)
    labels = np.where(np.isin(labels, joined), feet[0], labels).astype(labels.dtype)
    return labels, [(feet[0], np.concatenate([low, high - low]))] + [p for p in pieces if p[0] not in joined]


def join_parts(labels: np.ndarray, pieces: list[Piece], parts: np.ndarray) -> tuple[np.ndarray, list[Piece]]:
    """Join the pieces of one frame that are nothing but unmoving parts with the moving thing they belong to.

    A part is touched by its thing all the time, or it would not be one; where a gap is left between the two, as of
    dark before dark, it goes to the nearest piece that moves.

    Args:
        labels: (H, W).
        pieces: Those that count.
        parts: Where unmoving parts of moving things are, (H, W) bool.
    """
    masks = {label: cv2.compare(labels, float(label), cv2.CMP_EQ) for label, _ in pieces}
    inside = parts.astype(np.uint8)
    lone = [
        label
        for label, mask in masks.items()
        if cv2.countNonZero(cv2.bitwise_and(mask, inside)) > MOSTLY * cv2.countNonZero(mask)
    ]
    places = {label: place for label, place in pieces if label not in lone}
    if not lone or not places:
        return labels, pieces
    labels = labels.copy()
    for label in lone:
        distance = cv2.distanceTransform(cv2.bitwise_not(masks[label]), cv2.DIST_L2, 3)
        owner = min(places, key=lambda other: cv2.minMaxLoc(distance, masks[other])[0])
        labels[masks[label] > 0] = owner
        places[owner] = place_of(labels, owner)
    return labels, list(places.items())


def surroundings(picture: np.ndarray) -> list[np.ndarray]:
    """A picture (H, W, 3) uint8 without anything small in it, as it is at each pixel and to all four sides of it.

    To the sides because of floors of several colours: what is like the floor next to it does not stand out.
    """
    height, width = picture.shape[:2]
    scale = min(1.0, SMALL_SIDE / max(height, width))
    small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    window = max(small.shape[:2]) // SURROUNDINGS | 1
    smooth, half = cv2.medianBlur(small, window), window // 2
    wide = cv2.copyMakeBorder(smooth, half, half, half, half, cv2.BORDER_REPLICATE)
    rows, columns = smooth.shape[:2]
    shifts = [(0, 0), (-half, 0), (half, 0), (0, -half), (0, half)]
    views = [wide[half + dy : half + dy + rows, half + dx : half + dx + columns] for dy, dx in shifts]
    return [cv2.resize(view, (width, height), interpolation=cv2.INTER_LINEAR) for view in views]


def contrast_to(around: Sequence[np.ndarray], picture: np.ndarray) -> np.ndarray:
    """By how much each pixel differs from the most alike of its surroundings, (H, W) uint8."""
    contrast = largest_difference(picture, around[0])
    for colours in around[1:]:
        contrast = cv2.min(contrast, largest_difference(picture, colours))
    return contrast


def stand_out_threshold(contrast: np.ndarray, background: Background) -> np.ndarray:
    """The contrast from which on something stands out from noise and from the clutter of the scene, (H, W)."""
    clutter = STAND_OUT_CLUTTER * float(np.percentile(contrast, CLUTTER))
    return np.maximum(STAND_OUT_LEVELS + STAND_OUT_NOISE * background.noise, clutter)


def _parts(stands_out: np.ndarray, moving: Sequence[np.ndarray]) -> np.ndarray:
    """The compact pieces of `stands_out` that something in each of `moving` touches; all (H, W) uint8, 0 or 1."""
    radius = max(1, int(thickness(moving) / 3))  # lines on the floor are thinner than what stands on it
    filled = cv2.morphologyEx(stands_out, cv2.MORPH_CLOSE, disc(radius))
    opened = cv2.morphologyEx(filled, cv2.MORPH_OPEN, disc(radius))
    _, labels, stats, _ = cv2.connectedComponentsWithStats(opened, connectivity=8)
    area = np.median([_largest_area(front) for front in moving])
    height, width = stands_out.shape
    extent = np.maximum(stats[:, cv2.CC_STAT_WIDTH] / width, stats[:, cv2.CC_STAT_HEIGHT] / height)
    candidates = (stats[:, cv2.CC_STAT_AREA] <= LARGEST * area) & (extent <= WIDEST)
    candidates[0] = False
    parts = np.zeros_like(stands_out)
    if not candidates.any():
        return parts
    distances = [cv2.distanceTransform(1 - front, cv2.DIST_L2, 3) for front in moving]
    for label in np.flatnonzero(candidates):
        x, y, w, h = stats[label, :4]
        window = np.s_[y : y + h, x : x + w]
        part = (labels[window] == label).astype(np.uint8)
        inner = thickness([part])
        touched = np.mean([distance[window] <= REACH + inner for distance in distances], axis=0)
        if touched[part > 0].max() >= TOUCHED:
            parts[window] |= part
    return parts


def _largest_area(front: np.ndarray) -> int:
    return int(components(front)[1].max())
