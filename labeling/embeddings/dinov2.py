"""What does an object look like to DINOv2?

Takes an RGB image and masks, and returns unit vectors: the network's patch features, averaged under each mask with the
share of every patch that the mask covers as weight. One pass of the network a frame, however many masks it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, Field

from labeling.masks import Mask


class Dinov2Config(BaseModel, extra="forbid", frozen=True):
    """Settings of the DINOv2 embedder."""

    image_size: int = Field(644, ge=32, description="Longest side of the picture that the network sees, in pixels.")
    batch: int = Field(8, ge=1, description="Frames that go through the network at once.")


class Dinov2Embedder:
    """Patch features of DINOv2 under a mask."""

    def __init__(self, config: Dinov2Config, path: Path, device: str = "auto") -> None:
        """Load a Dinov2Model or Dinov2WithRegistersModel (or a ViTModel) from the directory `path`."""
        from labeling.embeddings.dinov2_network import PatchNetwork

        self.config = config
        self._network = PatchNetwork(path, device)
        self._longest = max(1, config.image_size // self._network.patch)
        # Trackers ask about one mask after another of the same image: it goes through the network once.
        self._last: tuple[np.ndarray, np.ndarray] | None = None

    def embed(self, image: np.ndarray, masks: Sequence[Mask]) -> np.ndarray:
        """Describe each mask of an RGB image (H, W, 3) uint8; (M, D) float32, rows of unit length."""
        return self.embed_frames([image], [masks])[0]

    def embed_frames(self, images: Sequence[np.ndarray], masks: Sequence[Sequence[Mask]]) -> list[np.ndarray]:
        """Describe the masks of several images, `batch` images at a time; those without masks are not looked at."""
        rows: list[np.ndarray] = [np.zeros((0, self._network.depth), np.float32) for _ in images]
        wanted = [place for place, some in enumerate(masks) if some]
        for first in range(0, len(wanted), self.config.batch):
            batch = wanted[first : first + self.config.batch]
            for place, features in zip(batch, self._features([images[place] for place in batch]), strict=True):
                size = images[place].shape[:2]
                rows[place] = np.stack([pooled(features, mask, size) for mask in masks[place]])
        return rows

    def _features(self, images: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Features (rows, columns, D) of each image, those of the last one from memory if it is the first again."""
        known = []
        if self._last is not None and images[0] is self._last[0]:
            known, images = [self._last[1]], images[1:]
        same_size = len({image.shape for image in images}) <= 1
        for some in [images] if same_size else [[image] for image in images]:
            known += list(self._network(some, self._longest)) if some else []
        if images:
            self._last = images[-1], known[-1].copy()  # not a view that would keep the whole batch
        return known


def pooled(features: np.ndarray, mask: Mask, size: tuple[int, int]) -> np.ndarray:
    """The mean of `features` (rows, columns, D) under a mask of an image of `size` (H, W); (D,) of unit length."""
    weights = patch_weights(mask, size, features.shape[:2])
    vector = np.einsum("rc,rcd->d", weights, features, dtype=np.float64)
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)


def patch_weights(mask: Mask, size: tuple[int, int], grid: tuple[int, int]) -> np.ndarray:
    """The share of a mask that lies on each patch of a grid, (rows, columns), in all 1.

    A mask that covers nothing of the image counts as the patch that its middle is on or nearest to.
    """
    x1, y1, x2, y2 = mask.bounds
    down = _overlap(y1, y2, size[0], grid[0])
    across = _overlap(x1, x2, size[1], grid[1])
    weights = down.T @ mask.coverage.astype(np.float64) @ across
    total = float(weights.sum())
    if total > 0:
        return np.asarray(weights / total)
    nearest = np.zeros(grid)
    row, column = ((y1 + y2) / 2 * grid[0] / size[0], (x1 + x2) / 2 * grid[1] / size[1])
    nearest[min(max(int(row), 0), grid[0] - 1), min(max(int(column), 0), grid[1] - 1)] = 1
    return nearest


def _overlap(start: int, stop: int, length: int, parts: int) -> np.ndarray:
    """How much of each pixel from `start` to `stop` lies in each of `parts` equal parts of `length` pixels."""
    pixels = np.arange(start, stop)[:, None]
    edges = np.arange(parts + 1) * (length / parts)
    return np.clip(np.minimum(pixels + 1, edges[1:]) - np.maximum(pixels, edges[:-1]), 0, 1)
