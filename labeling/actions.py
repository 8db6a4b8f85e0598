"""Which actions belong to a video?

They stand beside it: `clip.actions.npy`, `.csv` or `.parquet` for `clip.mp4`, one row a frame. actions[t] leads from
frame t to t + 1, so the last row may be missing; anything else is refused, for shifted actions would teach nonsense.
"""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from labeling.places import Place, fetched
from labeling.problems import RunError, VideoError, in_short

SUFFIXES = (".npy", ".csv", ".parquet")


def actions_beside(video: Place) -> Place | None:
    """The file with the actions of a video, or None; VideoError if there are several."""
    stem = video.name if video.is_dir() else video.stem
    beside = [video.with_name(f"{stem}.actions{suffix}") for suffix in SUFFIXES]
    found = [path for path in beside if path.is_file()]
    if len(found) > 1:
        raise VideoError(f"{video} has several files of actions: {', '.join(p.name for p in found)}. Keep one.")
    return found[0] if found else None


def read_actions(path: Place) -> np.ndarray:
    """Actions (n, A) float32; VideoError if the file does not hold a table of numbers."""
    readers = {".npy": _from_npy, ".csv": _from_csv, ".parquet": _from_parquet}
    try:
        with fetched(path) as file:
            table = readers[path.suffix](file)
        rows = np.asarray(table, np.float32)
    except (VideoError, RunError):
        raise
    except Exception as error:  # readers of broken files raise whatever their parsers do
        raise VideoError(f"{path} cannot be read as a table of actions: {in_short(error)}") from error
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not rows.shape[1]:
        raise VideoError(f"{path} has the shape {rows.shape}; actions are (frames, numbers).")
    return rows


def aligned(actions: np.ndarray, frames: int, path: Place) -> np.ndarray:
    """Actions with a row for each of so many frames; VideoError if they do not fit or are no numbers."""
    if len(actions) not in (frames, frames - 1):
        raise VideoError(
            f"{path} has {len(actions)} actions for {frames} frames. There must be one a frame, or one less: "
            "the action of a frame leads to the next."
        )
    bad = np.flatnonzero(~np.isfinite(actions).all(axis=1))
    if len(bad):
        raise VideoError(f"{path} has a NaN or infinite action at frame {bad[0]} ({len(bad)} such rows in all).")
    missing = frames - len(actions)
    return np.concatenate([actions, np.zeros((missing, actions.shape[1]), np.float32)])


def _from_npy(path: Path) -> np.ndarray:
    return np.asarray(np.load(path, allow_pickle=False))


def _from_csv(path: Path) -> np.ndarray:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    if rows and not all(map(_is_number, rows[0])):  # names of the columns
        rows = rows[1:]
    return np.array([[float(cell) if cell.strip() else np.nan for cell in row] for row in rows])


def _from_parquet(path: Path) -> np.ndarray:
    parquet = pyarrow_parquet()
    table = parquet.read_table(path)
    return np.concatenate([numbers(table.column(name)) for name in table.column_names], axis=1)


def numbers(column: Any) -> np.ndarray:
    """A column of pyarrow, plain numbers or lists of them, as (rows, A)."""
    rows: list[Any] = column.to_pylist()
    table = np.array([np.nan if row is None else row for row in rows], np.float64)
    return table.reshape(len(rows), -1)


def pyarrow_parquet() -> Any:
    """The module pyarrow.parquet; VideoError if it is not installed."""
    try:
        return import_module("pyarrow.parquet")
    except ImportError as error:
        raise VideoError("Parquet files need pyarrow: pip install -c constraints.txt '.[datasets]'") from error


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True
