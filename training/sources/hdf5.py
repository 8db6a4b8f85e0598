"""Datasets of stable-worldmodel and LeWM: one HDF5 file of flat columns with `ep_len` and `ep_offset`.

Takes `pixels` (rows, H, W, 3) or (rows, 3, H, W), `action` (rows, A) and `state` or `proprio` (rows, S) if there. Boxes
may stand in a column `boxes` (rows, N, 4), x1 y1 x2 y2 in pixels with NaN where an object is absent; its attribute
`category` may name the kind of each. Without them a dataset trains plain LeWM. With boxes, further columns of objects
are taken over if there, named as in the dataset: `oriented` (rows, N, 5), `mass` and `velocity` (rows, N, 2) in pixels,
`depth` (rows, N, 5), `pose` (rows, N, 6) and `pose_velocity` (rows, N, 3). The action of an episode's last row may be
NaN: it leads nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from labeling.recipe import digest
from training.dataset_format import FROM_FILES, OBJECT_COLUMNS, DatasetError
from training.manifest import PrepareConfig
from training.sources import Report, longest_episode, pieces
from training.sources.framing import Framing
from training.sources.hdf5_facts import episodes, refuse_other_shapes, refuse_overlap
from training.sources.labels import groups_of_names
from training.sources.reading import BLOCK
from training.takes import Layout, Take

VERSION = 2
STATES = ("state", "proprio")


class Hdf5:
    """The episodes of an HDF5 file as takes."""

    def __init__(self, path: Path, config: PrepareConfig) -> None:
        self._path, self._config = path, config
        self.name, self.origin = path.stem, str(path.resolve())
        with _opened(path) as file:
            self._length, self._offset = episodes(file, path)
            self._pixels = _picture_column(file, path, config.camera)
            self._rows, height, width = _shape(file[self._pixels], path)
            self._state = next((name for name in STATES if name in file and getattr(file[name], "ndim", 0) == 2), "")
            others = ["action"] if "action" in file and config.use_actions else []
            refuse_other_shapes(file, path, self._rows, [*others, *([self._state] if self._state else [])])
            refuse_overlap(self._offset, self._length, self._rows, path)
            actions = int(np.prod(file["action"].shape[1:])) if others else 0
            self._has_boxes = "boxes" in file
            objects = int(file["boxes"].shape[1]) if self._has_boxes else 0
            extra = {"state": int(file[self._state].shape[1])} if self._state else {}
            self._known = [name for name in FROM_FILES if name in file and name != "boxes"] if objects else []
            extra |= {name: OBJECT_COLUMNS[name] for name in self._known}
            names = _names(file, objects)
        self._framing = Framing(height, width, config.size, config.letterbox)
        grouping, self._kept, self._category = groups_of_names(names, len(self._length), config)
        self.categories = grouping.categories
        self.notes = list(grouping.notes)
        self.layout = Layout((config.size, config.size), actions, len(self._kept), extra)
        self.frames = int(self._length.sum())
        self._longest = longest_episode(config.episode_frames, len(self._length), self.frames)
        status = path.stat()
        self.recipe = digest(
            kind="hdf5", version=VERSION, settings=config.model_dump(mode="json"), file=str(path.resolve()),
            size=status.st_size, changed=status.st_mtime_ns,
        )  # fmt: skip
        if not objects:
            self.notes.append("The file has no boxes: only plain LeWM can be trained on it.")

    def takes(self, report: Report) -> Iterator[Take]:
        """One take an episode."""
        with _opened(self._path) as file:
            for number, (offset, length) in enumerate(zip(self._offset.tolist(), self._length.tolist(), strict=True)):
                source = f"{self._path.name} episode {number}"
                if length < 1:
                    report(source, f"{source} is empty.")
                elif offset < 0 or offset + length > self._rows:
                    report(source, f"{source} should end at row {offset + length}, the file has {self._rows} rows.")
                else:
                    for start, stop in pieces(offset, offset + length, self._longest):
                        try:
                            take = self._take(file, source, start, stop, start - offset, stop == offset + length)
                        except OSError as error:
                            report(source, f"{self._path} cannot be read from row {start} on: {error}")
                            break
                        yield take

    def _take(self, file: Any, source: str, start: int, stop: int, first: int, last: bool) -> Take:
        rows = slice(start, stop)
        actions = np.zeros((stop - start, self.layout.actions), np.float32)
        if self.layout.actions:
            actions[:] = file["action"][rows].reshape(stop - start, -1)
            if last and np.isnan(actions[-1]).all():
                actions[-1] = 0
        corners = np.asarray(file["boxes"][rows]) if self._has_boxes else np.zeros((stop - start, 0, 4))
        columns = {"actions": actions, "boxes": self._framing.boxes(corners[:, self._kept])}
        for name in self._known:
            columns[name] = self._framing.column(name, np.asarray(file[name][rows], np.float64)[:, self._kept])
        if self._state:
            columns["state"] = np.asarray(file[self._state][rows], np.float32)
        pictures = self._pictures(file[self._pixels], start, stop)
        return Take(source, first, pictures, columns, self._category, self._kept)

    def _pictures(self, pixels: Any, start: int, stop: int) -> Iterator[np.ndarray]:
        for low in range(start, stop, BLOCK):
            try:
                images = np.asarray(pixels[low : min(low + BLOCK, stop)])
            except OSError as error:
                hint = "If it is compressed with Blosc or LZ4: pip install hdf5plugin"
                raise DatasetError(f"{self._path} cannot be read from row {low} on: {error}. {hint}") from error
            images = images if images.shape[-1] == 3 else images.transpose(0, 2, 3, 1)
            if images.shape[1:3] != self.layout.size:
                images = np.stack([self._framing.picture(np.ascontiguousarray(image)) for image in images])
            yield np.ascontiguousarray(images)


def _opened(path: Path) -> Any:
    """The file, open for reading; DatasetError if that is not possible."""
    try:
        h5py = import_module("h5py")
    except ImportError as error:
        raise DatasetError("HDF5 files need h5py: pip install -c constraints.txt '.[datasets]'") from error
    with suppress(ImportError):  # many such files are compressed with Blosc or LZ4; others need nothing
        import_module("hdf5plugin")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise DatasetError(f"{path} cannot be opened as HDF5: {error}") from error


def _picture_column(file: Any, path: Path, asked: str) -> str:
    found = [name for name, column in file.items() if getattr(column, "ndim", 0) == 4 and column.dtype == np.uint8]
    if asked or "pixels" in found:
        found = [name for name in found if name == (asked or "pixels")]
    if len(found) != 1:
        there = ", ".join(sorted(file)) or "nothing"
        raise DatasetError(f"{path}: choose the column of pictures with --camera NAME. The file has: {there}.")
    return found[0]


def _names(file: Any, objects: int) -> list[str]:
    """The kind of each object: as an export of labels says it, else each is one of its own."""
    told = file["boxes"].attrs.get("category", ()) if objects else ()
    known = [name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in told]
    return known if len(known) == objects else [f"object-{number + 1}" for number in range(objects)]


def _shape(pixels: Any, path: Path) -> tuple[int, int, int]:
    """Rows, height and width of a column of pictures."""
    rows, *rest = pixels.shape
    if rest[2] == 3:
        return rows, rest[0], rest[1]
    if rest[0] == 3:
        return rows, rest[1], rest[2]
    raise DatasetError(f"{path}: pictures have the shape {tuple(rest)}; three colours are needed.")
