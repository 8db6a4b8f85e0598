"""How do pictures, and boxes on them, come to the training size?

`Framing` stretches pictures of one size to a square, or fits them between black bars, and carries boxes from pixels of
the original to shares of the square, 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np


@dataclass(frozen=True)
class Framing:
    """From pictures of `height` x `width` pixels to squares of `size` pixels."""

    height: int
    width: int
    size: int
    letterbox: bool = False

    @cached_property
    def inner(self) -> tuple[int, int, int, int]:
        """Left, top, width and height of the picture within the square, in pixels."""
        if not self.letterbox or self.height == self.width:
            return 0, 0, self.size, self.size
        scale = self.size / max(self.height, self.width)
        width, height = max(1, round(self.width * scale)), max(1, round(self.height * scale))
        return (self.size - width) // 2, (self.size - height) // 2, width, height

    def picture(self, image: np.ndarray) -> np.ndarray:
        """A picture (H, W, 3) in the training size; it may have been scaled before, as a whole."""
        left, top, width, height = self.inner
        if image.shape[:2] != (height, width):
            shrinks = image.shape[0] * image.shape[1] > height * width
            weights = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
            image = np.asarray(cv2.resize(image, (width, height), interpolation=weights))
        if (width, height) == (self.size, self.size):
            return image
        square = np.zeros((self.size, self.size, 3), np.uint8)
        square[top : top + height, left : left + width] = image
        return square

    def points(self, points: np.ndarray) -> np.ndarray:
        """Points (..., 2) in pixels as shares of the square."""
        return np.asarray(points, np.float64) * self._scale + self._shift

    def vectors(self, vectors: np.ndarray) -> np.ndarray:
        """Differences of points (..., 2), such as velocities."""
        return np.asarray(vectors, np.float64) * self._scale

    def boxes(self, corners: np.ndarray) -> np.ndarray:
        """Boxes (..., 4) x1 y1 x2 y2 in pixels as cx cy w h, shares of the square."""
        low, high = self.points(corners[..., :2]), self.points(corners[..., 2:])
        return np.concatenate([(low + high) / 2, high - low], axis=-1)

    def oriented(self, boxes: np.ndarray) -> np.ndarray:
        """Oriented boxes (..., 5) cx cy w h theta in pixels as shares of the square.

        Stretching makes a parallelogram of a turned rectangle: the box keeps the way of its long axis and its area.
        """
        boxes = np.asarray(boxes, np.float64)
        width, height, angle = boxes[..., 2], boxes[..., 3], boxes[..., 4]
        axis = self.vectors(np.stack([width * np.cos(angle), width * np.sin(angle)], axis=-1))
        long = np.hypot(axis[..., 0], axis[..., 1])
        short = width * height * self._scale.prod() / np.maximum(long, 1e-12)
        turn = np.arctan2(axis[..., 1], axis[..., 0]) + np.where(short > long, np.pi / 2, 0)
        turn = (turn + np.pi / 2) % np.pi - np.pi / 2
        sides = [np.maximum(long, short), np.minimum(long, short), turn]
        return np.concatenate([self.points(boxes[..., :2]), np.stack(sides, axis=-1)], axis=-1)

    def column(self, name: str, values: np.ndarray) -> np.ndarray:
        """A column of objects that has places in pixels, as shares of the square; other columns stay as they are."""
        to_shares = {"oriented": self.oriented, "mass": self.points, "velocity": self.vectors}
        return to_shares.get(name, np.asarray)(values)

    @cached_property
    def _scale(self) -> np.ndarray:
        _, _, width, height = self.inner
        return np.array([width / self.width, height / self.height]) / self.size

    @cached_property
    def _shift(self) -> np.ndarray:
        return np.array(self.inner[:2], float) / self.size
