"""How do takes become a dataset on disk?

`DatasetWriter` checks one take after another (frames, actions, boxes), appends it to the flat columns in chunks, and at
the end chooses the split, computes the statistics of the training episodes and puts the dataset in its place: it is
there and complete, or not there at all. A take that is refused leaves nothing behind; the others go on. What a process
that was stopped or killed has written is not lost: the next one goes on from there (`training.dataset_draft`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import zarr
from numpy.typing import ArrayLike
from zarr.errors import GroupNotFoundError

from labeling.problems import StoreError, VideoError
from labeling.zarr_io import write_array
from training import dataset_draft
from training.dataset_columns import Column, Rows
from training.dataset_format import (
    EMPTY,
    KIND,
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
from training.takes import Layout, Take, checked

SAVE_EVERY = 20.0  # seconds: a kill costs that, and the take that was being written
SAVING_SHARE = 20  # the journal is written so seldom that it takes a twentieth of the time at most


class DatasetWriter:
    """Writes one dataset; use it in a `with` block and call `finish` at its end."""

    def __init__(
        self, path: str | Path, layout: Layout, recipe: str = "", origin: str = "", replace: bool = False,
        hear: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        """Go on with what an earlier process left of the dataset, or begin it.

        Args:
            path: Where the dataset goes.
            layout: What its takes have in common.
            recipe: What decides it; without, nothing is gone on with.
            origin: What it is made of, for the user.
            replace: What was begun of another origin makes way; otherwise it is refused.
            hear: Is told how many rows that are there were checked.
        """
        self.path, self.layout = Path(path), layout
        refuse_to_replace(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._draft = dataset_draft.Draft(self.path, recipe, origin, replace)
        self._saved, self._saving, self._closed = time.monotonic(), 0.0, False
        self._given = 0  # takes in this process
        self.rows = self._draft.journal.rows  # frames of all episodes so far
        try:
            self._open(hear or (lambda rows: None))
        except BaseException:
            self._draft.close(keep=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        keep = error is not None and bool(self._draft.journal.recipe and self.rows)
        try:
            if keep and not self._closed:
                with suppress(OSError):  # a full disk: what was saved last will do
                    self._save()
        finally:
            self._draft.close(keep)

    @property
    def known(self) -> list[dataset_draft.Looked]:
        """What came of the takes that were given so far, also to an earlier process."""
        return self._draft.journal.looked

    def pass_over(self) -> list[dataset_draft.Looked]:
        """Take for given what is known; for sources that say that their takes are always the same."""
        self._given = len(self.known)
        return self.known

    def give(self, take: Take) -> str:
        """Append a take, unless it is there; why it is refused, if it is."""
        if self._given < len(self.known):
            known = self.known[self._given]
            if (known.source, known.start) == (take.source, take.start):
                self._given += 1
                return known.reason
            self._forget(self._given)  # another file can be read today than yesterday
        try:
            self.add(take)
        except (DatasetError, VideoError) as error:
            self._look(dataset_draft.Looked(source=take.source, start=take.start, reason=str(error)))
            return str(error)
        return ""

    def add(self, take: Take) -> None:
        """Append a take; DatasetError, and nothing is changed, if something about it is wrong."""
        try:
            digest = self._append(take)
        except BaseException:
            self._cut_back()
            raise
        self._look(
            dataset_draft.Looked(
                source=take.source, start=take.start, offset=self.rows,
                length=self._columns["frames"].rows - self.rows, category=take.category.tolist(),
                instance=take.instance.tolist(), digest=digest,
            )
        )  # fmt: skip

    def finish(self, name: str, categories: Sequence[DatasetCategory], split: Split, **facts: Any) -> Dataset:
        """Write tables and statistics and put the dataset in its place; `facts` join its attributes."""
        self._forget(self._given)  # what an earlier process was given, and is not there any more
        episodes = self._draft.journal.episodes
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
        sources = list(dict.fromkeys(one.source for one in episodes))
        number = {source: index for index, source in enumerate(sources)}
        table = np.array([[one.offset, one.length, number[one.source], one.start] for one in episodes], np.int64)
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
            "schema": SCHEMA, "kind": KIND, "name": name, "sources": sources, "categories": listed,
            "statistics": statistics(self._root, table[~held_out, 0], table[~held_out, 1]), **facts,
        })  # fmt: skip
        self._root.update_attributes({"fingerprint": content.hexdigest(), "complete": True})
        self._draft.settle()
        return open_dataset(self.path)

    def _open(self, hear: Callable[[int], None]) -> None:
        """The columns as the journal says, or new ones; takes that are not on disk as it says are forgotten."""
        if self.known:
            try:
                self._root = zarr.open_group(str(self._draft.folder), mode="r+", zarr_format=3)
                self._columns = self._opened(new=False)
                self._forget(self._sound(hear))
            except (GroupNotFoundError, StoreError, TypeError, ValueError, KeyError):  # what broken metadata lead to
                self._draft.empty()
        if not self.known:
            self.rows = 0
            self._draft.empty()
            self._root = zarr.create_group(str(self._draft.folder), zarr_format=3)
            self._columns = self._opened(new=True)

    def _opened(self, new: bool) -> dict[str, Column]:
        return {name: Column(self._root, name, shape, kind, new) for name, (shape, kind) in self._shapes().items()}

    def _sound(self, hear: Callable[[int], None]) -> int:
        """How many of the takes that are known lie on disk as they were given."""
        rows = {name: Rows(column.array) for name, column in self._columns.items()}
        for number, one in enumerate(self.known):
            low, high = one.offset, one.offset + one.length
            if not one.reason:
                try:
                    columns = {name: rows[name].blocks(low, high) for name in self._draft.journal.columns}
                    found = _digest(one.source, one.start, columns, one.category, one.instance)
                    for block in rows["frames"].blocks(low, high):
                        found.update(np.ascontiguousarray(block).data)
                except (KeyError, StoreError):
                    return number
                if found.hexdigest() != one.digest:
                    return number
                hear(high)
        return len(self.known)

    def _look(self, one: dataset_draft.Looked) -> None:
        """Remember what came of a take."""
        self.known.append(one)
        self.rows += one.length
        self._given = len(self.known)
        # A journal names all takes so far: writing it takes longer, the more there are.
        if time.monotonic() - self._saved > max(SAVE_EVERY, SAVING_SHARE * self._saving):
            self._save()

    def _forget(self, number: int) -> None:
        """Be where only the first `number` takes had been given."""
        del self.known[number:]
        self.rows = self._draft.journal.rows
        self._cut_back()

    def _cut_back(self) -> None:
        for column in self._columns.values():
            column.cut_back(self.rows)

    def _save(self) -> None:
        began = time.monotonic()
        for column in self._columns.values():
            column.flush()
        self._draft.save()
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
        columns = checked(take, self.layout)
        self._draft.journal.columns = list(columns)
        parts = {name: [rows] for name, rows in columns.items()}
        digest = _digest(take.source, take.start, parts, take.category, take.instance)
        for name, rows in columns.items():
            self._columns[name].append(rows)
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


def _digest(
    source: str, start: int, columns: Mapping[str, Sequence[np.ndarray]], category: ArrayLike, instance: ArrayLike
) -> hashlib._Hash:
    """Of a take, before its frames."""
    digest = hashlib.sha256(f"{source}\0{start}".encode())
    for parts in columns.values():
        for rows in parts:
            digest.update(np.ascontiguousarray(rows).data)
    for table in (category, instance):
        digest.update(np.asarray(table, np.int32).tobytes())
    return digest


def refuse_to_replace(path: Path) -> None:
    """DatasetError if something stands at `path` that is no dataset: it might be dear to somebody."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    try:
        open_dataset(path)
    except DatasetError as error:
        raise DatasetError(f"{path} exists and is no dataset. Choose another --out or remove it.") from error


def _padded(rows: Sequence[Sequence[int]], slots: int) -> np.ndarray:
    table = np.full((len(rows), slots), EMPTY, np.int32)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table
