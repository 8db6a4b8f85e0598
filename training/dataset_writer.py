"""How do takes become a dataset on disk?

`DatasetWriter` checks one take after another (frames, actions, boxes), appends it to the flat columns in chunks, and at
the end chooses the split, computes the statistics of the training episodes and puts the dataset in its place: it is
there and complete, or not there at all. A take that is refused leaves nothing behind; the others go on.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import zarr

from labeling.zarr_io import ROWS, write_array
from training.dataset_format import (
    EMPTY,
    KIND,
    MAY_NOT_APPLY,
    OBJECT_COLUMNS,
    SCHEMA,
    Dataset,
    DatasetCategory,
    DatasetError,
    category_table,
    open_dataset,
)
from training.dataset_statistics import statistics
from training.manifest import Split

CHUNK_BYTES = 4 << 20  # of frames: enough to be read at the disk's speed, little enough to mix many of them
OUTSIDE = 0.01  # of the frame that a box may stand out: half a pixel of a small video. It is cut off.


@dataclass(frozen=True)
class Take:
    """A stretch of frames that belong together: no scene cut, no reset."""

    source: str  # file or simulator, as the user knows it
    start: int  # its first frame there
    pictures: Iterable[np.ndarray]  # blocks (n, H, W, 3) uint8, in the size of the dataset
    columns: dict[str, np.ndarray]  # name -> (T, ...); objects (T, n, ...) with NaN where absent
    category: np.ndarray  # (n,)
    instance: np.ndarray  # (n,)


@dataclass(frozen=True)
class Layout:
    """What all takes of a dataset have in common."""

    size: tuple[int, int]  # height, width
    actions: int  # numbers in an action
    objects: int  # slots for objects, at most; those that no take uses are cut off in the end
    extra: dict[str, int] = field(default_factory=dict)  # further columns, and numbers a frame or an object has


class DatasetWriter:
    """Writes one dataset; use it in a `with` block and call `finish` at its end."""

    def __init__(self, path: str | Path, layout: Layout) -> None:
        self.path, self.layout = Path(path), layout
        refuse_to_replace(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_overs(self.path)
        self._draft = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        self._root = zarr.create_group(str(self._draft), zarr_format=3, overwrite=True)
        self._columns = {name: _Column(self._root, name, shape, kind) for name, (shape, kind) in self._shapes().items()}
        self._episodes: list[tuple[int, int, int, int]] = []  # offset, length, source, start
        self._category: list[np.ndarray] = []
        self._instance: list[np.ndarray] = []
        self._sources: dict[str, int] = {}
        self._digest = hashlib.sha256()
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        shutil.rmtree(self._draft, ignore_errors=True)

    @property
    def episodes(self) -> int:
        """Takes written so far."""
        return len(self._episodes)

    def add(self, take: Take) -> None:
        """Append a take; DatasetError, and nothing is changed, if something about it is wrong."""
        try:
            digest = self._append(take)
        except BaseException:
            for column in self._columns.values():
                column.cut_back(self.rows)
            raise
        length = self._columns["frames"].rows - self.rows
        source = self._sources.setdefault(take.source, len(self._sources))
        self._episodes.append((self.rows, length, source, take.start))
        self._category.append(take.category)
        self._instance.append(take.instance)
        self._digest.update(digest)
        self.rows += length

    def finish(self, name: str, categories: Sequence[DatasetCategory], split: Split, **facts: Any) -> Dataset:
        """Write tables and statistics and put the dataset in its place; `facts` join its attributes."""
        if not self._episodes:
            raise DatasetError(f"{self.path}: there is not one usable episode, so no dataset is made.")
        for column in self._columns.values():
            column.finish()
        used = max(len(kinds) for kinds in self._category)
        for object_column in ("present", *OBJECT_COLUMNS):
            if object_column in self._columns:
                array = self._columns[object_column].array
                array.resize((self.rows, used, *array.shape[2:]))
        table = np.array(self._episodes, np.int64)
        held_out = split.choose(len(table))
        for index, fact in enumerate(("offset", "length", "source", "start")):
            write_array(self._root, f"episode_{fact}", np.ascontiguousarray(table[:, index]))
        write_array(self._root, "episode_split", held_out.astype(np.uint8))
        write_array(self._root, "category", _padded(self._category, used))
        write_array(self._root, "instance", _padded(self._instance, used))
        listed = category_table(categories)
        self._digest.update(repr([listed, held_out.tolist(), self.layout]).encode())
        self._root.update_attributes({
            "schema": SCHEMA, "kind": KIND, "name": name, "sources": list(self._sources), "categories": listed,
            "statistics": statistics(self._root, table[~held_out, 0], table[~held_out, 1]), **facts,
        })  # fmt: skip
        self._root.update_attributes({"fingerprint": self._digest.hexdigest(), "complete": True})
        self._settle()
        return open_dataset(self.path)

    def _shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        count = self.layout.objects
        shapes: dict[str, tuple[tuple[int, ...], str]] = {
            "frames": ((*self.layout.size, 3), "u1"), "actions": ((self.layout.actions,), "f4"),
            "boxes": ((count, 4), "f4"), "present": ((count,), "?"),
        }  # fmt: skip
        for name, numbers in self.layout.extra.items():
            shapes[name] = ((count, OBJECT_COLUMNS[name]) if name in OBJECT_COLUMNS else (numbers,), "f4")
        return shapes

    def _append(self, take: Take) -> bytes:
        digest = hashlib.sha256(f"{take.source}\0{take.start}".encode())
        columns = checked(take, self.layout)
        for name, rows in columns.items():
            digest.update(rows.tobytes())
            self._columns[name].append(rows)
        for table in (take.category, take.instance):
            digest.update(np.asarray(table, np.int32).tobytes())
        frames = self._columns["frames"]
        for block in take.pictures:
            if block.shape[1:] != (*self.layout.size, 3) or block.dtype != np.uint8:
                raise DatasetError(f"{take.source}: frames are {block.shape[1:]} {block.dtype}, not as the others.")
            digest.update(np.ascontiguousarray(block).data)
            frames.append(block)
        length, expected = frames.rows - self.rows, len(columns["actions"])
        if length != expected:
            raise DatasetError(f"{take.source} has {length} frames from frame {take.start} on, its labels {expected}.")
        return digest.digest()

    def _settle(self) -> None:
        """Put the finished draft in its place; an older dataset there makes way."""
        old = self.path.with_name(f".{self.path.name}.{os.getpid()}.old")
        if self.path.exists():
            os.replace(self.path, old)
        os.replace(self._draft, self.path)
        shutil.rmtree(old, ignore_errors=True)


class _Column:
    """A flat array that grows; whole chunks go to disk."""

    def __init__(self, root: zarr.Group, name: str, shape: tuple[int, ...], kind: str) -> None:
        row_bytes = max(1, int(np.prod(shape)) * np.dtype(kind).itemsize)
        # A power of two, which the lengths of episodes are often multiples of.
        rows = 1 << int(np.clip(np.log2(CHUNK_BYTES / row_bytes), 0, 10)) if name == "frames" else ROWS
        chunks = (rows, *(max(1, length) for length in shape))
        # Looking whether a chunk is all 0 would take four times as long as writing it.
        self.array = root.create_array(
            name, shape=(0, *shape), dtype=kind, chunks=chunks, fill_value=0, config={"write_empty_chunks": True}
        )
        self._buffer = np.zeros((rows, *shape), kind)
        self._written = 0  # rows on disk, a multiple of the chunk
        self._waiting = 0

    @property
    def rows(self) -> int:
        return self._written + self._waiting

    def append(self, rows: np.ndarray) -> None:
        while len(rows):
            fits = min(len(rows), len(self._buffer) - self._waiting)
            self._buffer[self._waiting : self._waiting + fits] = rows[:fits]
            self._waiting += fits
            rows = rows[fits:]
            if self._waiting == len(self._buffer):
                self._write()
                self._written, self._waiting = self.rows, 0

    def cut_back(self, rows: int) -> None:
        """Forget all that comes after the first `rows` rows."""
        if rows < self._written:
            whole = rows // len(self._buffer) * len(self._buffer)
            self._buffer[: rows - whole] = self.array[whole:rows]
            self._written = whole
        self._waiting = rows - self._written

    def finish(self) -> None:
        self._write()
        self.array.resize((self.rows, *self.array.shape[1:]))

    def _write(self) -> None:
        if self.array.shape[0] < self.rows:
            self.array.resize((self.rows, *self.array.shape[1:]))
        if self._waiting and self.array.size:
            self.array[self._written : self.rows] = self._buffer[: self._waiting]


def checked(take: Take, layout: Layout) -> dict[str, np.ndarray]:
    """The columns of a take as they are written: padded, 0 where absent; DatasetError if they cannot be right."""
    boxes = np.asarray(take.columns["boxes"], np.float32)
    length, count = boxes.shape[:2]
    if not length:
        raise DatasetError(f"{take.source} has an empty episode at frame {take.start}.")
    if count > layout.objects:
        raise DatasetError(f"{take.source} has {count} objects, the dataset room for {layout.objects}.")
    present = np.asarray(np.isfinite(boxes).all(axis=-1))
    _refuse_boxes_outside(take, boxes, present)
    low, high = boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2
    low, high = low.clip(0, 1), high.clip(0, 1)
    columns: dict[str, np.ndarray] = {
        "boxes": np.concatenate([(low + high) / 2, high - low], axis=-1),
        "present": present,
    }
    for name, rows in take.columns.items():
        if len(rows) != length:
            raise DatasetError(f"{take.source} has {len(rows)} rows of {name} for {length} frames.")
        if name == "boxes":
            continue
        _refuse_nonsense(take, name, rows, present)
        columns[name] = np.asarray(rows, np.float32)
    for name in ("present", *OBJECT_COLUMNS):
        if name in columns:
            columns[name] = _slotted(columns[name], present, layout.objects)
    return columns


def refuse_to_replace(path: Path) -> None:
    """DatasetError if something stands at `path` that is no dataset: it might be dear to somebody."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    try:
        open_dataset(path)
    except DatasetError as error:
        raise DatasetError(f"{path} exists and is no dataset. Choose another --out or remove it.") from error


def _refuse_nonsense(take: Take, name: str, rows: np.ndarray, present: np.ndarray) -> None:
    """DatasetError where numbers of a column cannot be right; what stands for absent objects does not count."""
    ours = name in OBJECT_COLUMNS
    if ours and rows.shape[1:] != (present.shape[1], OBJECT_COLUMNS[name]):
        raise DatasetError(
            f"{take.source}: {name} has the shape {rows.shape}, {OBJECT_COLUMNS[name]} numbers for each of "
            f"{present.shape[1]} objects are needed."
        )
    counts = present[..., None] if ours else np.True_
    bad = np.isinf(rows) if name in MAY_NOT_APPLY else ~np.isfinite(rows)
    found = [(bad & counts, "that are NaN or infinite")]
    if name == "depth":
        found.append(((rows <= 0) & counts, "of 0 or less: distances from the camera are needed"))
        falls = np.diff(rows, axis=-1, prepend=-np.inf) < 0
        found.append((falls & counts, "that are not percentiles 5 25 50 75 95: they must not fall"))
    for wrong, words in found:
        if wrong.any():
            frame = take.start + int(np.argwhere(wrong)[0, 0])
            raise DatasetError(f"{take.source} has {name} {words}, first at frame {frame}. Repair or remove them.")


def _refuse_boxes_outside(take: Take, boxes: np.ndarray, present: np.ndarray) -> None:
    edges = np.concatenate([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], axis=-1)
    outside = ((edges < -OUTSIDE) | (edges > 1 + OUTSIDE)).any(axis=-1) | (boxes[..., 2:] < 0).any(axis=-1)
    outside &= present
    if outside.any():
        frame, index = np.argwhere(outside)[0]
        raise DatasetError(
            f"{take.source} has a box outside the frame: object {take.instance[index]} at frame {take.start + frame}, "
            f"centre and size {np.round(boxes[frame, index], 3).tolist()} of the frame. Label it again."
        )


def _slotted(rows: np.ndarray, present: np.ndarray, slots: int) -> np.ndarray:
    """Objects (T, n, ...) in `slots` slots, 0 where absent."""
    out = np.zeros((len(rows), slots, *rows.shape[2:]), rows.dtype)
    out[:, : rows.shape[1]][present] = rows[present]
    return out


def _padded(rows: Sequence[np.ndarray], slots: int) -> np.ndarray:
    table = np.full((len(rows), slots), EMPTY, np.int32)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table


def _remove_left_overs(path: Path) -> None:
    """Remove drafts of runs that were killed."""
    for kind in ("part", "old"):
        for draft in path.parent.glob(f".{escape(path.name)}.*.{kind}"):
            owner = draft.suffixes[-2].removeprefix(".")
            if not (owner.isdigit() and _runs(int(owner))):
                shutil.rmtree(draft, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's
        return True
    return process != os.getpid()
