"""Did the camera change its exposure?

Cameras darken the whole picture when something bright comes into view, and skies cloud over. Estimates the factor
between a picture and a reference from a sparse grid, and takes it out.
"""

from __future__ import annotations

import cv2
import numpy as np

GRID = 32  # pixels are compared on a grid of about this many a side
DARK = 24  # darker pixels say little about a factor
NOTICEABLE = 0.03  # a smaller change is left to the noise
AGREE = 0.05  # pixels within this share of the factor agree with it
MAJORITY = 0.4  # share of the grid that must agree, or something large moved rather than the light


def with_exposure_of(reference: np.ndarray, image: np.ndarray) -> np.ndarray:
    """A picture (H, W, 3) uint8 with the exposure of the reference; the picture itself where they do not differ."""
    height, width = image.shape[:2]
    grid = np.s_[:: max(1, height // GRID), :: max(1, width // GRID)]
    wanted, seen = reference[grid].reshape(-1, 3).astype(np.float32), image[grid].reshape(-1, 3).astype(np.float32)
    usable = (wanted.min(1) > DARK) & (wanted.max(1) < 250) & (seen.max(1) < 250)
    if np.count_nonzero(usable) < MAJORITY * len(usable):
        return image
    ratios = (seen[usable] + 1) / (wanted[usable] + 1)
    factor = np.median(ratios, axis=0)
    agree = (np.abs(ratios / factor - 1) < AGREE).all(1).mean()
    alike = (np.abs(ratios - 1) < AGREE).all(1).mean()
    if np.abs(factor - 1).max() < NOTICEABLE or agree < MAJORITY or agree < alike:
        return image
    tables = np.clip(np.round(np.arange(256)[:, None] / factor), 0, 255).astype(np.uint8)
    return cv2.LUT(image, np.ascontiguousarray(tables[None]))
