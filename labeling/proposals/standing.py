"""What stands in the scene and never moves?

Only for `keep_static`: finds the things of a background picture that stand out most from their surroundings, takes
them out of the background, so that they are proposed on every picture, and says where to cut things that touch.
"""

from __future__ import annotations

import cv2
import numpy as np

from labeling.proposals.attached import contrast_to, stand_out_threshold, surroundings
from labeling.proposals.background import Background

BODY = 0.4  # the body of a thing has at least this share of the picture's strongest contrast
LIMBS = 0.1  # and what belongs to it this share
AS_LARGE = 0.1  # things are at least this large against the largest: the rest is dust
LARGEST = 0.25  # share of the picture; more is scenery
BLOCK = np.ones((3, 3), np.uint8)


def without_standing(background: Background) -> tuple[Background, np.ndarray]:
    """The background with its standing things replaced by their surroundings, and cuts between them, (H, W) uint8."""
    around = surroundings(background.picture)
    contrast = contrast_to(around, background.picture)
    cuts = np.zeros_like(contrast)
    peak = float(cv2.erode(contrast, np.ones((5, 5), np.uint8)).max())
    threshold = np.maximum(stand_out_threshold(contrast, background), LIMBS * peak)
    bodies = _bodies(contrast > np.maximum(threshold, BODY * peak))
    if not bodies.any():
        return background, cuts
    limbs = (contrast > threshold).astype(np.uint8)
    _, pieces = cv2.connectedComponents(cv2.max(limbs, bodies), connectivity=8)
    chosen = np.isin(pieces, np.unique(pieces[bodies > 0])).astype(np.uint8)
    _, nearest = cv2.distanceTransformWithLabels(1 - bodies, cv2.DIST_L2, 5)  # labels bodies by connected component
    nearest = nearest.astype(np.float32)
    cuts[cv2.dilate(nearest, BLOCK) != cv2.erode(nearest, BLOCK)] = 255
    hidden = cv2.dilate(chosen, BLOCK, iterations=2) > 0
    return Background(np.where(hidden[:, :, None], around[0], background.picture), background.noise), cuts


def _bodies(strong: np.ndarray) -> np.ndarray:
    """The pieces of `strong`, (H, W) bool, that are large enough for things and small enough, (H, W) uint8."""
    opened = cv2.morphologyEx(strong.astype(np.uint8), cv2.MORPH_OPEN, BLOCK)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(opened, connectivity=8)
    area = stats[:, cv2.CC_STAT_AREA].astype(float)
    area[0] = 0
    area[area > LARGEST * strong.size] = 0
    return ((area > 0) & (area >= AS_LARGE * area.max()))[labels].astype(np.uint8)
