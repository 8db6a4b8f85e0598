"""What shape does an object have on one frame?

A `Mask` is a soft mask cut to its bounding rectangle: the share of every pixel that the object covers, 0 to 255.
Soft edges let boxes be precise to a fraction of a pixel. Run-length coding (column-major, as in COCO) is for storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from labeling.problems import StoreError


@dataclass(frozen=True, slots=True)
class Mask:
    """A crop of coverage, placed in a frame."""

    x: int  # left column of the crop in the frame
    y: int  # top row of the crop in the frame
    coverage: np.ndarray  # (h, w) uint8, 255 = the object covers the pixel entirely

    @property
    def solid(self) -> np.ndarray:
        """The pixels that the object covers for at least half, (h, w) bool."""
        return self.coverage >= 128

    @property
    def area(self) -> float:
        """Covered area in pixels."""
        return float(self.coverage.sum(dtype=np.int64)) / 255.0

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """The crop's x1, y1, x2, y2 in the frame, exclusive at the far end."""
        height, width = self.coverage.shape
        return self.x, self.y, self.x + width, self.y + height

    def placed(self, height: int, width: int) -> np.ndarray:
        """The coverage on a whole frame, (height, width) uint8."""
        frame = np.zeros((height, width), np.uint8)
        x1, y1, x2, y2 = self.bounds
        left, top, right, bottom = max(x1, 0), max(y1, 0), min(x2, width), min(y2, height)
        if left < right and top < bottom:
            frame[top:bottom, left:right] = self.coverage[top - y1 : bottom - y1, left - x1 : right - x1]
        return frame

    @classmethod
    def cut(cls, coverage: np.ndarray, x: int = 0, y: int = 0) -> Mask | None:
        """Crop `coverage` (h, w), whose corner lies at x, y of the frame, to what is covered; None if nothing is."""
        coverage = np.asarray(coverage, np.uint8)
        left, top, width, height = cv2.boundingRect(coverage)
        if not width:
            return None
        return cls(x + left, y + top, np.ascontiguousarray(coverage[top : top + height, left : left + width]))


def intersection(first: Mask, second: Mask) -> float:
    """Area in pixels that two masks of one frame share."""
    ax1, ay1, ax2, ay2 = first.bounds
    bx1, by1, bx2, by2 = second.bounds
    left, top, right, bottom = max(ax1, bx1), max(ay1, by1), min(ax2, bx2), min(ay2, by2)
    if left >= right or top >= bottom:
        return 0.0
    a = first.coverage[top - ay1 : bottom - ay1, left - ax1 : right - ax1]
    b = second.coverage[top - by1 : bottom - by1, left - bx1 : right - bx1]
    return float(np.minimum(a, b).sum(dtype=np.int64)) / 255.0


def encode_runs(mask: Mask, height: int, width: int) -> np.ndarray:
    """Run lengths of a mask on a frame, column by column, beginning with a run of zeros; uint32.

    Only the crop is looked at. A faint object keeps its strongest pixels rather than none.
    """
    crop = mask.coverage[max(0, -mask.y) : max(0, height - mask.y), max(0, -mask.x) : max(0, width - mask.x)]
    left, top = max(mask.x, 0), max(mask.y, 0)
    level = min(128, max(1, int(crop.max(initial=0))))
    columns = np.zeros((crop.shape[1], crop.shape[0] + 1), bool)  # one row that is empty keeps the columns apart
    np.greater_equal(crop.T, level, out=columns[:, :-1])
    flat = columns.ravel()
    steps = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    steps = np.concatenate([[0], steps]) if flat[:1].any() else steps
    column, row = np.divmod(steps, crop.shape[0] + 1)
    edges = (left + column) * height + top + row
    if crop.shape[0] == height:  # an object as tall as the frame runs on from one column into the next
        touching = np.flatnonzero(edges[1:-1:2] == edges[2::2])
        edges = np.delete(edges, np.concatenate([2 * touching + 1, 2 * touching + 2]))
    runs = np.empty(len(edges) + 1, np.uint32)
    runs[0], runs[-1] = (edges[0], height * width - edges[-1]) if len(edges) else (0, height * width)
    np.subtract(edges[1:], edges[:-1], out=runs[1:-1], casting="unsafe")
    return runs[:-1] if len(runs) > 1 and runs[-1] == 0 else runs


def decode_runs(runs: np.ndarray, height: int, width: int) -> np.ndarray:
    """The mask (height, width) bool that `encode_runs` took; StoreError if these runs are not of such a mask."""
    if (covered := int(runs.sum(dtype=np.int64))) != height * width:
        raise StoreError(
            f"a stored mask is damaged: its runs cover {covered} of {height * width} pixels. `spectrabox validate` "
            "says which."
        )
    values = np.arange(len(runs)) % 2 == 1
    return np.repeat(values, runs).reshape(width, height).T


def united(masks: Sequence[np.ndarray], height: int, width: int) -> np.ndarray:
    """Run lengths of what several masks of one frame, given as run lengths, cover together."""
    union = np.logical_or.reduce([decode_runs(runs, height, width) for runs in masks])
    return encode_runs(Mask(0, 0, union.astype(np.uint8) * 255), height, width)
