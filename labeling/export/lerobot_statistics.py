"""Mean, spread and limits of a column, gathered a piece at a time, as LeRobot's stats.json has them."""

from __future__ import annotations

from typing import Any

import numpy as np


class Statistics:
    """What has been seen of a column so far."""

    def __init__(self) -> None:
        self.count = 0
        self._sum: Any = 0.0
        self._squares: Any = 0.0
        self._low: Any = np.inf
        self._high: Any = -np.inf

    def add(self, rows: np.ndarray) -> None:
        """Take note of rows (n, ...)."""
        rows = rows.astype(np.float64)
        self.count += len(rows)
        self._sum = self._sum + rows.sum(axis=0)
        self._squares = self._squares + np.square(rows).sum(axis=0)
        self._low, self._high = np.minimum(self._low, rows.min(axis=0)), np.maximum(self._high, rows.max(axis=0))

    def __add__(self, other: Statistics) -> Statistics:
        both = Statistics()
        both.count = self.count + other.count
        both._sum, both._squares = self._sum + other._sum, self._squares + other._squares
        both._low, both._high = np.minimum(self._low, other._low), np.maximum(self._high, other._high)
        return both

    def summary(self, is_picture: bool = False) -> dict[str, Any]:
        """The figures as lists; those of pictures have the shape (3, 1, 1)."""
        mean = self._sum / self.count
        spread = np.sqrt(np.maximum(0, self._squares / self.count - mean**2))
        figures = {"min": self._low, "max": self._high, "mean": mean, "std": spread}
        shape = (3, 1, 1) if is_picture else np.atleast_1d(mean).shape
        return {name: np.reshape(value, shape).tolist() for name, value in figures.items()} | {"count": [self.count]}
