"""Where do the labels live?

A Zarr v3 store that plain zarr reads: `videos/<id>` holds the tracks of one video, `vocabulary` the categories,
`stages/<id>` what the tracker saw (see `observations.py`). A group counts only once its `complete` attribute is set,
which is written last: a killed run leaves nothing half-visible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import zarr
from zarr.errors import GroupNotFoundError

from labeling.masks import decode_runs
from labeling.palette import colour_of, is_colour
from labeling.tracks import Tracks
from labeling.vocabulary import Vocabulary
from labeling.zarr_io import array_at, attributes, complete_group, group_at, load, write_array

SCHEMA = 1


class StoreError(Exception):
    """A store cannot be used; the message says which and what to do."""


@dataclass(frozen=True)
class Category:
    """A kind of thing, as listed in the store."""

    id: int
    name: str
    colour: str  # like #e6194b, the same in report and overlay
    size: int  # tracks in the store
    kept: bool

    def __post_init__(self) -> None:
        if not is_colour(self.colour):
            raise StoreError(f"category {self.id} has the colour {self.colour!r}; colours are like {colour_of(0)}.")


class VideoLabels:
    """The labels of one video, read when asked for."""

    def __init__(self, id: str, group: zarr.Group) -> None:
        self.id, self._group = id, group
        self.attributes = attributes(group)

    @property
    def source(self) -> str:
        """Path of the video below the folder that was labeled."""
        return str(self.attributes["source"])

    @property
    def frames(self) -> int:
        """How many frames the video has."""
        return int(self.attributes["frames"])

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the original video in pixels."""
        return int(self.attributes["height"]), int(self.attributes["width"])

    @cached_property
    def tracks(self) -> Tracks:
        """The kept tracks, most prominent first."""
        return read_tracks(self._group)

    @cached_property
    def dropped(self) -> Tracks:
        """The dropped tracks; `reasons` says why."""
        if "dropped" in self._group:
            return read_tracks(group_at(self._group, "dropped"))
        return self.tracks.select(np.zeros(0, int))

    @property
    def reasons(self) -> list[dict[str, Any]]:
        """One entry per dropped track: instance, reason, detail."""
        return list(self.attributes["dropped"])

    @property
    def boxes(self) -> np.ndarray:
        """Boxes of the kept tracks, (T, N, 4)."""
        return self.tracks.boxes

    @property
    def has_masks(self) -> bool:
        """Whether masks were stored."""
        return "masks" in self._group

    def mask_runs(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Frame, track index and run lengths of every stored mask, in order; reads in blocks."""
        masks = group_at(self._group, "masks")
        offsets, counts = load(masks, "offsets"), array_at(masks, "counts")
        count = len(self.tracks)
        step = max(1, 256 * max(1, count))
        for begin in range(0, len(offsets) - 1, step):
            end = min(begin + step, len(offsets) - 1)
            block = np.asarray(counts[offsets[begin] : offsets[end]])
            for cell in range(begin, end):
                runs = block[offsets[cell] - offsets[begin] : offsets[cell + 1] - offsets[begin]]
                if len(runs):
                    yield cell // count, cell % count, runs

    @property
    def mask_size(self) -> tuple[int, int]:
        """Height and width of the stored masks: the working size, at most that of the video."""
        height, width = attributes(group_at(self._group, "masks"))["size"]
        return int(height), int(width)

    def mask(self, frame: int, track: int) -> np.ndarray:
        """The mask of one track on one frame, (height, width) bool at `mask_size`; all False where absent."""
        masks = group_at(self._group, "masks")
        cell = frame * len(self.tracks) + track
        begin, end = (int(v) for v in np.asarray(array_at(masks, "offsets")[cell : cell + 2]))
        if begin == end:
            return np.zeros(self.mask_size, bool)
        return decode_runs(np.asarray(array_at(masks, "counts")[begin:end]), *self.mask_size)


class Store:
    """A label store: iterate over video ids, index by id, source path, or stem if only one video has it."""

    def __init__(self, path: str | Path, mode: Literal["r", "a"] = "r") -> None:
        self.path = Path(path)
        try:
            self.root = zarr.open_group(str(path), mode=mode, zarr_format=3)
        except (FileNotFoundError, GroupNotFoundError) as error:
            raise StoreError(
                f"{path} is not a label store. Make one with: spectrabox label FOLDER --out {path}"
            ) from error
        schema = self.root.attrs.get("schema")
        if mode == "r" and schema != SCHEMA:
            raise StoreError(f"{path} has schema {schema}, this version reads {SCHEMA}. Label the folder anew.")

    @cached_property
    def ids(self) -> list[str]:
        """Ids of the completely labeled videos, sorted."""
        videos = self.root.get("videos")
        if not isinstance(videos, zarr.Group):
            return []
        return sorted(name for name, group in videos.groups() if group.attrs.get("complete"))

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, key: str) -> VideoLabels:
        if key in self.ids:
            return self._labels(key)
        videos = [self._labels(id) for id in self.ids]
        for match in (lambda v: v.source == key, lambda v: PurePosixPath(v.source).stem == key):
            found = [video for video in videos if match(video)]
            if len(found) == 1:
                return found[0]
            if found:
                raise KeyError(f"{key!r} is the name of {len(found)} videos: {', '.join(v.id for v in found)}")
        raise KeyError(f"no video {key!r} in {self.path}")

    def _labels(self, id: str) -> VideoLabels:
        return VideoLabels(id, group_at(self.root, f"videos/{id}"))

    @property
    def videos_folder(self) -> Path:
        """The folder that was labeled."""
        return Path(str(self.root.attrs["videos"]))

    @property
    def categories(self) -> list[Category]:
        """The kinds of things found, by id."""
        return [Category(**row) for row in attributes(self.root).get("categories", [])]

    @property
    def failures(self) -> dict[str, str]:
        """Source path and reason of every video that could not be labeled."""
        return dict(attributes(self.root).get("failures", {}))

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The fitted vocabulary, or None before the first fit."""
        group = complete_group(self.root, "vocabulary")
        if group is None:
            return None
        arrays = {name: load(group, name) for name in ("prototypes", "radius", "size", "mean", "axes")}
        return Vocabulary(**arrays, note=str(group.attrs["note"]))


def open_store(path: str | Path) -> Store:
    """Open a label store for reading."""
    return Store(path)


def read_tracks(group: zarr.Group) -> Tracks:
    """The tracks in a group that `write_tracks` wrote."""
    names = ("time", "boxes", "oriented", "mass", "score", "category", "instance", "prominence")
    return Tracks(**{name: load(group, name) for name in names})


def write_tracks(group: zarr.Group, tracks: Tracks) -> None:
    """Write tracks as arrays of a group."""
    for name, array in tracks.arrays().items():
        write_array(group, name, array)


def write_vocabulary(root: zarr.Group, vocabulary: Vocabulary, recipe: str) -> None:
    """Replace the store's vocabulary."""
    group = root.create_group("vocabulary", overwrite=True)
    for name in ("prototypes", "radius", "size", "mean", "axes"):
        write_array(group, name, getattr(vocabulary, name))
    group.update_attributes({"note": vocabulary.note, "recipe": recipe, "complete": True})
