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
    wanted, seen = _channels(reference[grid]), _channels(image[grid])
    lightest = wanted.max(0)
    np.maximum(lightest, seen.max(0), out=lightest)
    usable = (wanted.min(0) > DARK) & (lightest < 250)
    count = np.count_nonzero(usable)
    if count < MAJORITY * len(usable):
        return image
    ratios = (seen + np.float32(1)) / (wanted + np.float32(1))
    changed = [(usable & (ratios >= 1 + NOTICEABLE)).sum(1), (usable & (ratios <= 1 - NOTICEABLE)).sum(1)]
    if 2 * np.max(changed) < count - 1:  # no channel's median has changed: the usual case, so it comes before all else
        return image
    ratios = ratios[:, usable]
    factor = np.median(ratios, axis=1)[:, None]
    agree = (np.abs(ratios / factor - 1) < AGREE).all(0).mean()
    alike = (np.abs(ratios - 1) < AGREE).all(0).mean()
    if np.abs(factor - 1).max() < NOTICEABLE or agree < MAJORITY or agree < alike:
        return image
    tables = np.clip(np.round(np.arange(256)[:, None] / factor[:, 0]), 0, 255).astype(np.uint8)
    return cv2.LUT(image, np.ascontiguousarray(tables[None]))


def _channels(picture: np.ndarray) -> np.ndarray:
    """The three channels of a picture, (3, n) uint8: numpy is quick along rows."""
    return np.ascontiguousarray(picture.reshape(-1, 3).T)
