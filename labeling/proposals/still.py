"""What stands out from a still background?

Takes the frames of a shot whose camera stands still and its background; gives a soft mask of everything that is not
background, one proposal a connected piece, edges precise to a fraction of a pixel.
"""

from __future__ import annotations

import cv2
import numpy as np
from pydantic import BaseModel, Field

from labeling.masks import Mask
from labeling.proposals import Proposal
from labeling.proposals.background import Background

FAINT_LEVELS, FAINT_NOISE = 8.0, 3.0  # a pixel may belong to an object from here on: levels + so many deviations
CLEAR_LEVELS, CLEAR_NOISE = 16.0, 6.0  # an object has pixels at least this different
RING = 2  # pixels around a piece in which its soft edge may end


class StillConfig(BaseModel, extra="forbid", frozen=True):
    """Settings for shots of a still camera."""

    keep_static: bool = Field(default=False, description="Also propose compact things that never move.")
    min_area: float = Field(default=6.0, gt=0, description="Smaller pieces, in pixels, are taken for noise.")


class StillProposer:
    """Proposals of one still shot."""

    def __init__(self, background: Background, config: StillConfig) -> None:
        self.background = background
        self.config = config
        self._faint = _levels(FAINT_LEVELS + FAINT_NOISE * background.noise)
        self._clear = _levels(CLEAR_LEVELS + CLEAR_NOISE * background.noise)

    def propose(self, image: np.ndarray) -> list[Proposal]:
        """The objects of one picture (H, W, 3) uint8."""
        difference = cv2.absdiff(image, self.background.picture).max(2)
        faint = (difference > self._faint).astype(np.uint8)
        faint = cv2.morphologyEx(faint, cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
        count, labels, stats, _ = cv2.connectedComponentsWithStats(faint, connectivity=8)
        clear = np.bincount(labels[difference > self._clear], minlength=count)
        proposals = []
        for label in range(1, count):
            if clear[label] < 1 or stats[label, cv2.CC_STAT_AREA] < self.config.min_area:
                continue
            mask = self._matte(image, labels, label, stats[label])
            if mask is not None:
                proposals.append(Proposal(mask, 1.0))
        return proposals

    def _matte(self, image: np.ndarray, labels: np.ndarray, label: int, stats: np.ndarray) -> Mask | None:
        """The soft mask of one piece: how far each pixel's colour lies on the way from background to object."""
        height, width = labels.shape
        x, y = max(stats[0] - RING, 0), max(stats[1] - RING, 0)
        right, bottom = min(stats[0] + stats[2] + RING, width), min(stats[1] + stats[3] + RING, height)
        window = np.s_[y:bottom, x:right]
        piece = labels[window] == label
        free = (labels[window] == 0) | piece
        behind = self.background.picture[window].astype(np.float32)
        away = image[window].astype(np.float32) - behind
        size = np.einsum("ijk,ijk->ij", away, away)
        size[~piece] = 0
        front = _uphill(size, piece)
        peak = away.reshape(-1, 3)[front] + behind.reshape(-1, 3)[front] - behind
        share = np.einsum("ijk,ijk->ij", away, peak) / np.maximum(np.einsum("ijk,ijk->ij", peak, peak), 1.0)
        share = np.clip(share, 0, 1)
        near = cv2.dilate(piece.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
        share[~(near & free) | (share < 0.05)] = 0
        return Mask.cut(np.round(share * 255).astype(np.uint8), int(x), int(y))


def _uphill(height: np.ndarray, piece: np.ndarray, rounds: int = 6) -> np.ndarray:
    """For each pixel (h, w) the flat index of the summit that leads uphill from it; outside, of the nearest inside."""
    rows, columns = height.shape
    padded = np.pad(height, 1)
    steps = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    around = np.stack([padded[1 + dy : 1 + dy + rows, 1 + dx : 1 + dx + columns] for dy, dx in steps])
    best = around.argmax(0)
    offset = np.array([dy * columns + dx for dy, dx in steps])
    target = np.arange(rows * columns).reshape(rows, columns) + np.where(around.max(0) > 1.1 * height, offset[best], 0)
    for _ in range(rounds):
        target = target.ravel()[target]
    return target


def _levels(values: np.ndarray) -> np.ndarray:
    return np.clip(values, 0, 254).astype(np.uint8)
