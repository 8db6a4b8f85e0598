"""What are the usual values of a dataset's columns?

Means and standard deviations over the training episodes, as plain data for the dataset's attributes. Columns are read
in pieces; frames are not looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr

from labeling.zarr_io import ROWS, array_at
from training.dataset_format import OBJECT_COLUMNS

CONSTANT = 1e-6  # a smaller deviation is none: it counts as 1, so that dividing by it does no harm


def statistics(root: zarr.Group, offset: np.ndarray, length: np.ndarray) -> dict[str, dict[str, Any]]:
    """Mean and std of actions, state and object columns over the episodes at `offset` with `length` rows.

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
    shift: np.ndarray | None = None  # near the mean: sums of squares then lose no digits
    for low in range(0, len(chosen), ROWS):
        wanted = chosen[low : low + ROWS]
        if not wanted.any():
            continue
        values = np.asarray(array[low : low + ROWS])[wanted].astype(np.float64)
        if present is not None:
            values = values[np.asarray(present[low : low + ROWS])[wanted]]
        values = np.log(np.maximum(values, 1e-6)) if name == "depth" else values
        if not len(values):
            continue
        applies = ~np.isnan(values)
        if shift is None:
            shift = values.sum(axis=0, where=applies) / np.maximum(applies.sum(axis=0), 1)
        count += applies.sum(axis=0)
        total += (values - shift).sum(axis=0, where=applies)
        squares += ((values - shift) ** 2).sum(axis=0, where=applies)
    if shift is None:
        return {"mean": [0.0] * len(total), "std": [1.0] * len(total), "count": 0}
    counted = np.maximum(count, 1)
    mean = total / counted
    std = np.sqrt(np.maximum(squares / counted - mean**2, 0))
    std[std < CONSTANT] = 1.0
    return {"mean": (mean + shift).tolist(), "std": std.tolist(), "count": int(count.max())}
