"""Can what an HDF5 file says be true?

Columns must have a row for each picture and the shape that their name stands for, and each row belongs to one episode
at most: otherwise frames would get other frames' actions, or held-out frames be trained on. Looked at when the file is
opened; no pictures are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from training.dataset_format import FROM_FILES, OBJECT_COLUMNS, DatasetError

TABLES = ("ep_len", "ep_offset")
NUMBERS = "iuf"  # kinds of numpy types


def episodes(file: Any, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Length and first row of each episode; DatasetError if the file does not say them."""
    missing = [name for name in TABLES if name not in file]
    if missing:
        raise DatasetError(f"{path} has no column {' and '.join(missing)}: it is not a stable-worldmodel file.")
    for name in TABLES:
        _refuse_other_kind(file, path, name)
        if file[name].ndim != 1:
            raise DatasetError(
                f"{path}: {name} has the shape {file[name].shape}, one number for each episode is needed."
            )
    length, offset = (np.asarray(file[name][:], np.int64) for name in TABLES)
    if len(length) != len(offset):
        raise DatasetError(
            f"{path}: ep_len has {len(length)} episodes, ep_offset {len(offset)}. Write both anew, a number for each."
        )
    return length, offset


def refuse_other_shapes(file: Any, path: Path, rows: int, columns: Sequence[str]) -> None:
    """DatasetError if one of the columns has not a row for each of `rows` pictures, or another shape than it must.

    With boxes, all columns of objects that are there are looked at as well.
    """
    objects: int | str = "objects"
    ours = [name for name in FROM_FILES if name in file] if "boxes" in file else []
    for name in (*columns, *ours):
        _refuse_other_kind(file, path, name)
        shape = file[name].shape
        if not shape or shape[0] != rows:
            raise DatasetError(
                f"{path}: the column {name} has {shape[0] if shape else 0} rows, the pictures have {rows}. "
                "Write a row for each picture; the action of an episode's last row may be NaN."
            )
        if name not in FROM_FILES:
            continue
        if len(shape) != 3 or shape[2] != OBJECT_COLUMNS[name] or (name != "boxes" and shape[1] != objects):
            wanted = f"({rows}, {objects}, {OBJECT_COLUMNS[name]})"
            raise DatasetError(
                f"{path}: the column {name} has the shape {shape}, it should be {wanted}: a row for each picture, "
                f"{OBJECT_COLUMNS[name]} numbers for each object."
            )
        objects = shape[1]


def refuse_overlap(offset: np.ndarray, length: np.ndarray, rows: int, path: Path) -> None:
    """DatasetError if a row belongs to two episodes: one might be trained on while the other is held out.

    Episodes that do not lie within the file do not count: they are left out, each with its reason.
    """
    usable = np.flatnonzero((length > 0) & (offset >= 0) & (offset + length <= rows))
    order = usable[np.argsort(offset[usable], kind="stable")]
    ends = (offset + length)[order]
    shared = np.flatnonzero(offset[order][1:] < ends[:-1])
    if len(shared):
        one, other = order[shared[0]], order[shared[0] + 1]
        raise DatasetError(
            f"{path}: by ep_offset and ep_len, row {offset[other]} belongs to the episodes {one} and {other}. Each row "
            "may be in one episode only, or held-out frames would be trained on. Write both columns anew."
        )


def _refuse_other_kind(file: Any, path: Path, name: str) -> None:
    column = file[name]
    if not hasattr(column, "dtype") or column.dtype.kind not in NUMBERS:
        what = f"of type {column.dtype}" if hasattr(column, "dtype") else "a group"
        raise DatasetError(f"{path}: {name} is {what}, a column of numbers is needed.")
