"""Can what a dataset says be true?

Tables and columns must fit one another, or a window would show other rows than those of its episode. Looked at once,
when a dataset is opened; only metadata and the tables of episodes are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr

from labeling.zarr_io import array_at, attributes, holds, load

# Shapes by letters, which stand for the same number everywhere; "3" and the like for themselves.
COLUMNS: dict[str, tuple[str, str]] = {
    "frames": ("uint8", "rows H W 3"), "actions": ("float32", "rows A"), "boxes": ("float32", "rows N 4"),
    "present": ("bool", "rows N"), "oriented": ("float32", "rows N 5"), "mass": ("float32", "rows N 2"),
    "depth": ("float32", "rows N 5"), "velocity": ("float32", "rows N 2"), "heading": ("float32", "rows N 1"),
    "pose": ("float32", "rows N 6"), "pose_velocity": ("float32", "rows N 3"), "state": ("float32", "rows S"),
}  # fmt: skip
NEEDED = ("frames", "actions", "boxes", "present")
EMPTY = -1  # category and instance of a slot without an object
EPISODES = ("offset", "length", "split", "source", "start")


def refuse_impossible(root: zarr.Group) -> None:
    """ValueError or StoreError if tables, columns and attributes of a dataset do not fit one another."""
    sizes: dict[str, int] = {}
    for name, (kind, shape) in COLUMNS.items():
        if name in NEEDED or holds(root, name):
            _refuse_other_shape(name, array_at(root, name), kind, shape.split(), sizes)
    for name in ("category", "instance"):
        _refuse_other_shape(name, array_at(root, name), "int32", ["episodes", "N"], sizes)
    tables = {name: load(root, f"episode_{name}") for name in EPISODES}
    for name, table in tables.items():
        if table.shape != (sizes["episodes"],) or table.dtype.kind not in "iu":
            raise ValueError(f"episode_{name} has the shape {table.shape} for {sizes['episodes']} episodes")
    offset, length = tables["offset"].astype(np.int64), tables["length"].astype(np.int64)
    if (length < 1).any() or (offset != np.cumsum(length) - length).any() or length.sum() != sizes["rows"]:
        raise ValueError("the episodes do not follow one another through all rows")
    _refuse_attributes(attributes(root), tables["source"], set(np.unique(load(root, "category")).tolist()))


def _refuse_other_shape(name: str, array: Any, kind: str, wanted: list[str], sizes: dict[str, int]) -> None:
    fits = len(array.shape) == len(wanted) and str(array.dtype) == kind
    for axis, length in zip(wanted, array.shape, strict=False):
        fits = fits and length == (int(axis) if axis.isdigit() else sizes.setdefault(axis, length))
    if not fits:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, expected {kind} ({', '.join(wanted)})")


def _refuse_attributes(known: dict[str, Any], source: np.ndarray, used: set[int]) -> None:
    for name in ("name", "fingerprint"):
        if not isinstance(known.get(name), str):
            raise ValueError(f"the attribute {name} is no text")
    sources: Any = known.get("sources")
    if not _are(sources, str) or (source >= len(sources)).any() or (source < 0).any():
        raise ValueError("the attribute sources does not list where episodes come from")
    rows: Any = known.get("categories")
    kinds = {"id": int, "name": str, "members": list, "tracks": int}
    if not _are(rows, dict) or not all(isinstance(row.get(key), kind) for row in rows for key, kind in kinds.items()):
        raise ValueError("the attribute categories is no table of categories")
    if rows and not used <= {EMPTY, *(row["id"] for row in rows)}:  # a dataset need not know kinds
        raise ValueError("the attribute categories does not list all categories")
    table = known.get("statistics")
    if not isinstance(table, dict) or not all(_is_statistics(row) for row in table.values()):
        raise ValueError("the attribute statistics is no table of numbers")


def _are(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _is_statistics(row: Any) -> bool:
    if not isinstance(row, dict) or not {"mean", "std"} <= row.keys():
        return False
    columns = [row[name] for name in ("mean", "std", "low", "high") if row.get(name) is not None]
    return all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns) and all(
        isinstance(value, int | float) and np.isfinite(float(value)) for column in columns for value in column
    )
