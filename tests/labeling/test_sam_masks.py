"""Masks that a network drew as logits are exact to a fraction of a pixel."""

from __future__ import annotations

import numpy as np
import pytest

from labeling.geometry import box
from labeling.trackers.sam_masks import mask_of


@pytest.mark.parametrize("steepness", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("grid", [64, 256])
def test_boxes_of_drawn_masks_are_exact_to_a_fraction_of_a_pixel(steepness: float, grid: int) -> None:
    height, width, (x, y), radius = 180, 320, (141.3, 88.6), 31.7
    rows, columns = (np.mgrid[:grid, :grid] + 0.5) * np.array([height / grid, width / grid])[:, None, None]
    logits = steepness * (radius - np.hypot(columns - x, rows - y))
    logits[2:4, 2:4] = 3.0  # a speck
    mask = mask_of(logits.astype(np.float32), height, width)
    assert mask is not None
    coarse = width / grid
    assert np.abs(box(mask) - [x - radius, y - radius, x + radius, y + radius]).max() < 0.2 + 0.1 * coarse
    assert mask.area == pytest.approx(np.pi * radius**2, rel=0.03)
    assert mask_of(np.full((grid, grid), -3.0, np.float32), height, width) is None
