"""What does it look like? Embedders turn an image and masks into unit vectors: alike objects lie close together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from labeling.masks import Mask


class Embedder(Protocol):
    """A backend that describes appearance."""

    def embed(self, image: np.ndarray, masks: Sequence[Mask]) -> np.ndarray:
        """Describe each mask of an RGB image (H, W, 3) uint8; (M, D) float32, rows of unit length."""
        ...

    def embed_frames(self, images: Sequence[np.ndarray], masks: Sequence[Sequence[Mask]]) -> list[np.ndarray]:
        """Describe the masks of several images at once, as `embed` does one by one."""
        ...
