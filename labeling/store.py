"""Where do the labels live?

A Zarr v3 store that plain zarr reads: `videos/<id>` holds the tracks of one video, `vocabulary` the categories,
`stages/<id>` what the tracker saw (see `observations.py`). A group counts only once its `complete` attribute is set,
which is written last: a killed run leaves nothing half-visible. What people changed lies beside it in `review`, and
whoever opens the store for reading gets the reviewed labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import zarr
from zarr.errors import GroupNotFoundError

from labeling.facts import category_rows, mask_size, refuse_nonsense, texts, video_facts
from labeling.masks import decode_runs
from labeling.palette import colour_of, is_colour
from labeling.places import Place, open_group, place
from labeling.problems import MAKE_A_STORE, RunError, in_short
from labeling.problems import StoreError as StoreError
from labeling.recipe import digest
from labeling.review.log import read_log
from labeling.review.review import Review
from labeling.review.view import ReviewedVideo
from labeling.schema import SCHEMA as SCHEMA
from labeling.schema import refuse_older
from labeling.stored_vocabulary import read_vocabulary
from labeling.tracks import Tracks
from labeling.vocabulary import Vocabulary
from labeling.zarr_io import (
    REMEDY,
    array_at,
    as_damage,
    attributes,
    group_at,
    holds,
    load,
    rows_of,
    write_array,
    write_rows,
)

if TYPE_CHECKING:
    import pandas

BY_FRAME = ("time", "boxes", "oriented", "mass", "score")  # arrays of tracks with a row a frame
UNASSIGNED_NAME = "unassigned"  # of tracks that fit no category


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
    """The labels of one video, read when asked for; `labels[10:20]` are those of ten of its frames."""

    def __init__(
        self, id: str, group: zarr.Group, names: Mapping[int, str] | None = None, review: Review | None = None,
        removed: bool = False,
    ) -> None:  # fmt: skip
        self.id, self._group, self._names, self._review = id, group, names or {}, review
        self.removed = removed  # whether the video was no longer there when a run last looked
        self.attributes = video_facts(group)
        self._reviewed: ReviewedVideo | None = None  # None: the automatic labels hold
        if review and (changes := review.changes(id)):
            self.attributes["recipe"] = digest(labels=self.attributes["recipe"], review=changes)
            self._reviewed = ReviewedVideo(id, group, review)
        self._within = range(int(self.attributes["frames"]))

    def __getitem__(self, frames: slice) -> VideoLabels:
        if not isinstance(frames, slice) or frames.step not in (None, 1):
            raise TypeError("frames are chosen as in labels[10:20]")
        part = copy(self)
        part._within = self._within[frames]
        for read in ("tracks", "dropped"):
            part.__dict__.pop(read, None)
        return part

    @property
    def source(self) -> str:
        """Path of the video below the folder that was labeled."""
        return str(self.attributes["source"])

    @property
    def frames(self) -> int:
        """How many frames there are."""
        return len(self._within)

    @property
    def first(self) -> int:
        """Which frame of the video is the first here: 0, unless these are the labels of a part of it."""
        return self._within.start

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the original video in pixels."""
        return int(self.attributes["height"]), int(self.attributes["width"])

    @cached_property
    def tracks(self) -> Tracks:
        """The kept tracks, most prominent first."""
        if self._reviewed:
            with as_damage(self._group):
                return self._reviewed.tracks(self._reviewed.kept, self._within)
        return read_tracks(self._group, self._within)

    @cached_property
    def dropped(self) -> Tracks:
        """The dropped tracks; `reasons` says why."""
        if self._reviewed:
            with as_damage(self._group):
                return self._reviewed.tracks(self._reviewed.dropped, self._within)
        if holds(self._group, "dropped"):
            return read_tracks(group_at(self._group, "dropped"), self._within)
        return self.tracks.select(np.zeros(0, int))

    @property
    def reasons(self) -> list[dict[str, Any]]:
        """One entry per dropped track: instance, reason, detail."""
        return self._reviewed.reasons() if self._reviewed else list(self.attributes["dropped"])

    @property
    def checked(self) -> str:
        """When a reviewer marked the video as checked, and who; empty if nobody did."""
        entry = self._review.checked(self.id) if self._review else None
        return f"{entry.at:%Y-%m-%d %H:%M} UTC{f' by {entry.by}' if entry.by else ''}" if entry else ""

    @property
    def boxes(self) -> np.ndarray:
        """Boxes of the kept tracks, (T, N, 4)."""
        return self.tracks.boxes

    def name_of(self, category: int) -> str:
        """What a category is called."""
        return self._names.get(category) or (UNASSIGNED_NAME if category < 0 else f"object-{category + 1}")

    def to_pandas(self) -> pandas.DataFrame:
        """A row for every box of a kept track; needs pandas."""
        from labeling.table import data_frame

        return data_frame([self])

    @property
    def has_masks(self) -> bool:
        """Whether masks were stored."""
        return holds(self._group, "masks")

    def mask_runs(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Frame, track index and run lengths of every stored mask, in order; reads in blocks."""
        with as_damage(self._group, "masks"):
            yield from self._reviewed.mask_runs(self._within) if self._reviewed else self._stored_runs()

    def _stored_runs(self) -> Iterator[tuple[int, int, np.ndarray]]:
        masks = group_at(self._group, "masks")
        counts = array_at(masks, "counts")
        count = len(self.tracks)
        cells = slice(self._within.start * count, self._within.stop * count + 1)
        offsets = rows_of(array_at(masks, "offsets"), cells)
        step = max(1, 256 * max(1, count))
        for begin in range(0, len(offsets) - 1, step):
            end = min(begin + step, len(offsets) - 1)
            block = rows_of(counts, slice(offsets[begin], offsets[end]))
            for cell in range(begin, end):
                runs = block[offsets[cell] - offsets[begin] : offsets[cell + 1] - offsets[begin]]
                if len(runs):
                    yield cell // count, cell % count, runs

    @property
    def mask_size(self) -> tuple[int, int]:
        """Height and width of the stored masks: the working size, at most that of the video."""
        return mask_size(group_at(self._group, "masks"))

    def mask(self, frame: int, track: int) -> np.ndarray:
        """The mask of one track on one frame, (height, width) bool at `mask_size`; all False where absent."""
        at, wanted = self._within[frame], range(len(self.tracks))[track]
        if self._reviewed:
            with as_damage(self._group, "masks"):
                found = self._reviewed.mask_runs(range(at, at + 1))
                runs = next((runs for _, index, runs in found if index == wanted), None)
            return np.zeros(self.mask_size, bool) if runs is None else decode_runs(runs, *self.mask_size)
        masks = group_at(self._group, "masks")
        cell = at * len(self.tracks) + wanted
        with as_damage(masks):
            begin, end = rows_of(array_at(masks, "offsets"), slice(cell, cell + 2)).tolist()
            if begin == end:
                return np.zeros(self.mask_size, bool)
            return decode_runs(rows_of(array_at(masks, "counts"), slice(begin, end)), *self.mask_size)


class Store:
    """A label store: iterate over video ids, index by id, source path, or stem if only one video has it."""

    def __init__(self, path: str | Place, mode: Literal["r", "a"] = "r", reviewed: bool = True) -> None:
        """Open the store at `path`; what writes to it, and whoever says `reviewed=False`, gets the automatic labels."""
        self.path, self._is_reviewed = place(path), reviewed and mode == "r"
        self.root = open_root(self.path, mode)
        if mode == "r":
            refuse_older(self.path, attributes(self.root))

    @cached_property
    def ids(self) -> list[str]:
        """Ids of the completely labeled videos, sorted."""
        with as_damage(self.root, "videos"):
            videos = self.root.get("videos")
            if not isinstance(videos, zarr.Group):
                return []
            return sorted(name for name, group in videos.groups() if group.attrs.get("complete") is True)

    @cached_property
    def _known(self) -> frozenset[str]:
        """The same, to look one up: whoever asks for each of a million videos must not search a million names."""
        return frozenset(self.ids)

    @cached_property
    def review(self) -> Review | None:
        """What people changed, as of now; None if nothing, or if the automatic labels were asked for."""
        log = read_log(self.root) if self._is_reviewed else None
        return Review(self.root, log) if log and log.done else None

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}, {len(self)} video{'' if len(self) == 1 else 's'})"

    def __getitem__(self, key: str) -> VideoLabels:
        if key in self._known:
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
        group = group_at(self.root, f"videos/{id}")
        return VideoLabels(id, group, self.names, self.review, group.attrs.get("source") in self._removed)

    def __contains__(self, key: str) -> bool:
        try:
            self[key]
        except KeyError:
            return False
        return True

    def values(self) -> Iterator[VideoLabels]:
        """The labels of each video, one after another."""
        return map(self._labels, self.ids)

    def items(self) -> Iterator[tuple[str, VideoLabels]]:
        """Id and labels of each video."""
        return ((id, self._labels(id)) for id in self.ids)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for every box of a kept track, of all videos; needs pandas."""
        from labeling.table import data_frame

        return data_frame(self.values())

    @property
    def videos_folder(self) -> Place:
        """The folder that was labeled."""
        return place(texts(self.root, "videos", ""))

    @property
    def categories(self) -> list[Category]:
        """The kinds of things found, by id; those that a reviewer merged into others are no more."""
        rows = [Category(**row) for row in category_rows(self.root)]
        if (review := self.review) is None:
            return rows
        sizes = review.sizes({row.id: row.size for row in rows}, self.ids)
        names, dropped = review.categories.names, review.categories.dropped
        return [
            Category(row.id, names[row.id], row.colour, sizes[row.id], sizes[row.id] > 0 and row.id not in dropped)
            for row in rows
            if row.id in names
        ]

    @property
    def names(self) -> dict[int, str]:
        """What each category is called, by its id."""
        if self.review:
            return dict(self.review.categories.names)
        return {row["id"]: row["name"] for row in category_rows(self.root)}

    @property
    def failures(self) -> dict[str, str]:
        """Source path and reason of every video that could not be labeled."""
        return dict(texts(self.root, "failures", {}))

    @property
    def removed(self) -> list[str]:
        """Source paths of the videos that have labels and were no longer there when a run last looked."""
        return list(texts(self.root, "removed", []))

    @cached_property
    def _removed(self) -> frozenset[str]:
        return frozenset(self.removed)

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The fitted vocabulary, or None before the first fit."""
        return read_vocabulary(self.root)


def open_store(path: str | Place, reviewed: bool = True) -> Store:
    """Open a label store, on a disk or at a URL such as s3://bucket/labels.zarr, for reading.

    What people changed with `spectrabox review` holds; `reviewed=False` gives the labels as they were found.
    """
    return Store(path, reviewed=reviewed)


def open_root(path: Place, mode: Literal["r", "a"]) -> zarr.Group:
    """The root of what may be a store of any version; StoreError if there is none that can be read."""
    try:
        return open_group(path, mode)
    except (FileNotFoundError, NotADirectoryError, GroupNotFoundError) as error:
        raise StoreError(f"{path} is not a label store. {MAKE_A_STORE}") from error
    except (RunError, PermissionError):
        raise
    except Exception as error:  # broken metadata raises whatever its parser does
        raise StoreError(f"{path} is damaged ({in_short(error)}). {REMEDY}") from error


def read_tracks(group: zarr.Group, frames: range | None = None) -> Tracks:
    """The tracks in a group that `write_tracks` wrote, on all frames or on some."""
    rows = slice(None) if frames is None else slice(frames.start, frames.stop)
    with as_damage(group):
        by_frame = {name: rows_of(array_at(group, name), rows) for name in BY_FRAME}
        tracks = Tracks(**by_frame, **{name: load(group, name) for name in ("category", "instance", "prominence")})
        refuse_nonsense(tracks)
        if frames is not None and len(tracks.time) != len(frames):
            raise ValueError(f"it has {len(tracks.time)} of {len(frames)} frames")
    return tracks


def write_tracks(group: zarr.Group, tracks: Tracks) -> None:
    """Write tracks as arrays of a group."""
    write_stretch(group, tracks, 0, len(tracks.time))


def write_stretch(group: zarr.Group, tracks: Tracks, begin: int, frames: int) -> None:
    """Write the tracks of a stretch of a video of so many `frames`; the first one begins with frame 0."""
    for name, array in tracks.arrays().items():
        if name in BY_FRAME:
            write_rows(group, name, array, begin, frames)
        elif not begin:
            write_array(group, name, array)
