"""How do takes become a dataset on disk?

`DatasetWriter` checks one take after another (frames, actions, boxes), appends it to the flat columns in chunks, and at
the end chooses the split, computes the statistics of the training episodes and puts the dataset in its place: it is
there and complete, or not there at all. A take that is refused leaves nothing behind; the others go on. What a process
that was stopped or killed has written is not lost: the next one goes on from there (`training.dataset_draft`).
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import zarr

from labeling.zarr_io import write_array
from training import dataset_draft
from training.dataset_columns import Column
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

SAVE_EVERY = 20.0  # seconds: so much is done again after a kill, at most
SAVING_SHARE = 20  # the journal is written so seldom that it takes a twentieth of the time at most
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

    def __init__(self, path: str | Path, layout: Layout, recipe: str = "") -> None:
        """With a `recipe`, what an earlier process left of the same dataset is gone on with."""
        self.path, self.layout = Path(path), layout
        refuse_to_replace(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._draft, self._journal = dataset_draft.begin(self.path, recipe)
        there = self._journal.rows
        self._root = zarr.open_group(str(self._draft), mode="r+" if there else "w", zarr_format=3)
        self._columns = {
            name: Column(self._root, name, shape, kind, there) for name, (shape, kind) in self._shapes().items()
        }
        self._saved, self._saving, self._closed = time.monotonic(), 0.0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None or not self._goes_on():
            shutil.rmtree(self._draft, ignore_errors=True)

    @property
    def rows(self) -> int:
        """Frames written so far."""
        return self._journal.rows

    @property
    def episodes(self) -> int:
        """Takes written so far."""
        return len(self._journal.episodes)

    @property
    def looked_at(self) -> int:
        """Takes that were given so far, also to an earlier process; the next one is the one after these."""
        return self._journal.looked_at

    @property
    def problems(self) -> dict[str, str]:
        """File -> why it, or a part of it, was left out."""
        return self._journal.problems

    def add(self, take: Take) -> None:
        """Append a take; DatasetError, and nothing is changed, if something about it is wrong."""
        try:
            digest = self._append(take)
        except BaseException:
            for column in self._columns.values():
                column.cut_back(self.rows)
            raise
        source = self._journal.sources.setdefault(take.source, len(self._journal.sources))
        self._journal.episodes.append(
            dataset_draft.Episode(
                offset=self.rows, length=self._columns["frames"].rows - self.rows, source=source, start=take.start,
                category=take.category.tolist(), instance=take.instance.tolist(), digest=digest,
            )
        )  # fmt: skip
        # A journal names all episodes so far: writing it takes longer, the more there are.
        if time.monotonic() - self._saved > max(SAVE_EVERY, SAVING_SHARE * self._saving):
            self._save()

    def leave_out(self, take: Take, reason: str) -> None:
        """Remember why a take was refused."""
        self.problems.setdefault(take.source, reason)
        self._journal.refused += 1

    def finish(self, name: str, categories: Sequence[DatasetCategory], split: Split, **facts: Any) -> Dataset:
        """Write tables and statistics and put the dataset in its place; `facts` join its attributes."""
        episodes = self._journal.episodes
        if not episodes:
            raise DatasetError(f"{self.path}: there is not one usable episode, so no dataset is made.")
        self._save()
        self._closed = True
        for column in self._columns.values():
            column.finish()
        used = max(len(one.category) for one in episodes)
        for object_column in ("present", *OBJECT_COLUMNS):
            if object_column in self._columns:
                array = self._columns[object_column].array
                array.resize((self.rows, used, *array.shape[2:]))
        table = np.array([[one.offset, one.length, one.source, one.start] for one in episodes], np.int64)
        held_out = split.choose(len(table))
        for index, fact in enumerate(("offset", "length", "source", "start")):
            write_array(self._root, f"episode_{fact}", np.ascontiguousarray(table[:, index]))
        write_array(self._root, "episode_split", held_out.astype(np.uint8))
        write_array(self._root, "category", _padded([one.category for one in episodes], used))
        write_array(self._root, "instance", _padded([one.instance for one in episodes], used))
        listed = category_table(categories)
        content = hashlib.sha256(b"".join(bytes.fromhex(one.digest) for one in episodes))
        content.update(repr([listed, held_out.tolist(), self.layout]).encode())
        self._root.update_attributes({
            "schema": SCHEMA, "kind": KIND, "name": name, "sources": list(self._journal.sources), "categories": listed,
            "statistics": statistics(self._root, table[~held_out, 0], table[~held_out, 1]), **facts,
        })  # fmt: skip
        self._root.update_attributes({"fingerprint": content.hexdigest(), "complete": True})
        dataset_draft.settle(self._draft, self.path)
        return open_dataset(self.path)

    def _goes_on(self) -> bool:
        """Keep the draft for the next process; whether there is anything to keep."""
        if not (self._journal.recipe and self._journal.episodes):
            return False
        if not self._closed:
            with suppress(OSError):  # a full disk: what was saved last will do
                self._save()
        return self._draft.exists()

    def _save(self) -> None:
        began = time.monotonic()
        for column in self._columns.values():
            column.flush()
        self._journal.save(self._draft)
        self._saved = time.monotonic()
        self._saving = self._saved - began

    def _shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        count = self.layout.objects
        shapes: dict[str, tuple[tuple[int, ...], str]] = {
            "frames": ((*self.layout.size, 3), "u1"), "actions": ((self.layout.actions,), "f4"),
            "boxes": ((count, 4), "f4"), "present": ((count,), "?"),
        }  # fmt: skip
        for name, numbers in self.layout.extra.items():
            shapes[name] = ((count, OBJECT_COLUMNS[name]) if name in OBJECT_COLUMNS else (numbers,), "f4")
        return shapes

    def _append(self, take: Take) -> str:
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
        return digest.hexdigest()


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


def _padded(rows: Sequence[Sequence[int]], slots: int) -> np.ndarray:
    table = np.full((len(rows), slots), EMPTY, np.int32)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table
