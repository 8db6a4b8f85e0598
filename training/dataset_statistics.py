"""What are the usual values of a dataset's columns?

Means, standard deviations and extremes over the training episodes, as plain data for the dataset's attributes. Columns
are read in pieces; frames are not looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr

from labeling.zarr_io import ROWS, array_at
from training.dataset_format import OBJECT_COLUMNS

CONSTANT = 1e-6  # a smaller deviation is none: it counts as 1, so that dividing by it does no harm


def statistics(root: zarr.Group, offset: np.ndarray, length: np.ndarray) -> dict[str, dict[str, Any]]:
    """Mean, std, low and high of actions, state and object columns over the episodes at `offset` with `length` rows.

    The last action of an episode leads out of it and may not be known: it does not count. Depths count as logarithms;
    numbers that do not apply (NaN) do not count.
    """
    rows = int(array_at(root, "frames").shape[0])
    training = np.zeros(rows + 1, np.int64)
    training[offset] += 1
    training[offset + length] -= 1
    inside = np.cumsum(training)[:-1] > 0
    leads_on = inside.copy()
    leads_on[offset + length - 1] = False
    table = {}
    for name in ("actions", "state", *OBJECT_COLUMNS):
        if name in root and array_at(root, name).size:
            chosen = leads_on if name == "actions" else inside
            table["log_depth" if name == "depth" else name] = _moments(root, name, chosen)
    return table


def _moments(root: zarr.Group, name: str, chosen: np.ndarray) -> dict[str, Any]:
    array = array_at(root, name)
    present = array_at(root, "present") if name in OBJECT_COLUMNS else None
    count, total, squares = (np.zeros(array.shape[-1]) for _ in range(3))
    low, high = np.full(array.shape[-1], np.inf), np.full(array.shape[-1], -np.inf)
    shift: np.ndarray | None = None  # near the mean: sums of squares then lose no digits
    for row in range(0, len(chosen), ROWS):
        wanted = chosen[row : row + ROWS]
        if not wanted.any():
            continue
        values = np.asarray(array[row : row + ROWS])[wanted].astype(np.float64)
        if present is not None:
            values = values[np.asarray(present[row : row + ROWS])[wanted]]
        values = np.log(np.maximum(values, 1e-6)) if name == "depth" else values
        if not len(values):
            continue
        applies = ~np.isnan(values)
        if shift is None:
            shift = values.sum(axis=0, where=applies) / np.maximum(applies.sum(axis=0), 1)
        low = np.minimum(low, values.min(axis=0, where=applies, initial=np.inf))
        high = np.maximum(high, values.max(axis=0, where=applies, initial=-np.inf))
        count += applies.sum(axis=0)
        total += (values - shift).sum(axis=0, where=applies)
        squares += ((values - shift) ** 2).sum(axis=0, where=applies)
    if shift is None:
        low, high, mean, std = (np.full_like(total, value) for value in (0, 0, 0, 1))
        return _row(mean, std, low, high, 0)
    counted = np.maximum(count, 1)
    mean = total / counted
    std = np.sqrt(np.maximum(squares / counted - mean**2, 0))
    std[std < CONSTANT] = 1.0
    low, high = np.where(count, low, 0), np.where(count, high, 0)  # infinities are no JSON
    return _row(mean + shift, std, low, high, int(count.max()))


def _row(mean: np.ndarray, std: np.ndarray, low: np.ndarray, high: np.ndarray, count: int) -> dict[str, Any]:
    return {
        "mean": mean.tolist(), "std": std.tolist(), "low": low.tolist(), "high": high.tolist(), "count": count
    }  # fmt: skip
