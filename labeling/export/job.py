"""What does every format need to know about an export?

A `Job` holds the store, where the videos are and what was asked for. It hands out the videos that can be exported, the
tracks of a stretch of frames, the frames themselves, the split by video and where all of it comes from; a video that
cannot be read is noted with its reason and the rest goes on.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from labeling.folder import inside
from labeling.places import Place, fetched
from labeling.provenance import how_made
from labeling.store import UNASSIGNED_NAME, Store, VideoLabels
from labeling.table import blocks
from labeling.tracks import UNASSIGNED, Tracks
from labeling.video import VIDEO_SUFFIXES, Frame, Video, VideoError

WHOLE = 1 << 20  # longest side: frames come as they are
LABELS = ("schema", "created_by", "profile", "recipe", "imported_from", "backends", "weights")
SIDECAR = "spectrabox.json"  # where it comes from, in every folder that an export writes

Progress = Callable[[str, int, int], None]  # video, frames done, frames in all


class ExportConfig(BaseModel, frozen=True, extra="forbid"):
    """What can be chosen about an export."""

    pictures: bool | None = Field(None, description="Write the frames as pictures; None: as the format is mostly used.")
    dropped: bool = Field(False, description="Also tracks and categories that were dropped, marked as such.")
    validation: float = Field(0.1, ge=0, lt=1, description="Share of the videos that is held out.")
    seed: int = Field(0, ge=0, description="Decides which.")
    licence: str = Field("", description="Of the videos; it goes along.")
    size: int | None = Field(None, ge=8, le=4096, description="Stretch frames to a square of this size (swm-hdf5).")


@dataclass(frozen=True)
class Kind:
    """A category as other formats number it: from 1 on, tracks without one last."""

    id: int  # in the store
    number: int
    name: str
    kept: bool


@dataclass(frozen=True)
class Chosen:
    """The tracks of a stretch of frames that are exported."""

    tracks: Tracks
    kept: np.ndarray  # (N,) bool: not dropped
    index: np.ndarray  # (N,) int: place among the kept tracks of the store, -1 for dropped ones

    def cells(self) -> Iterator[tuple[int, int, list[float]]]:
        """Frame, track and edges of every box, frame by frame."""
        frames, tracks = np.nonzero(self.tracks.present)
        edges = self.tracks.boxes[frames, tracks].astype(np.float64)
        yield from zip(frames.tolist(), tracks.tolist(), edges.tolist(), strict=True)


@dataclass
class Job:
    """One export."""

    store: Store
    format: str
    config: ExportConfig
    folder: Place  # of the videos
    pictures: bool = False
    progress: Progress | None = None
    problems: dict[str, str] = field(default_factory=dict)  # video -> why it is left out
    notes: list[str] = field(default_factory=list)
    _done: int = 0

    @cached_property
    def ids(self) -> list[str]:
        """Videos whose labels can be read, in a fixed order."""
        return [id for id in self.store.ids if self._is_sound(id)]

    def videos(self) -> Iterator[VideoLabels]:
        """The labels of each video that has not failed; opened anew, so that none is held for good."""
        return (labels for labels in map(self.store.__getitem__, self.ids) if labels.source not in self.problems)

    @cached_property
    def names(self) -> dict[str, str]:
        """A name for each video: its id without the suffix, where that is still its own."""
        bare = {id: id[: -len(end)] if (end := _suffix(id)) and id != end else id for id in self.store.ids}
        taken = Counter(bare.values())
        return {id: name if taken[name] == 1 else id for id, name in bare.items()}

    @cached_property
    def split(self) -> dict[str, str]:
        """`train` or `val` for each video; as far as can be, the same are held out whatever others come or go."""
        ranked = sorted(self.ids, key=lambda id: hashlib.sha256(f"{self.config.seed}/{id}".encode()).hexdigest())
        count = round(self.config.validation * len(ranked))
        if self.config.validation > 0 and len(ranked) > 1:
            count = min(max(1, count), len(ranked) - 1)
        return {id: "val" if place < count else "train" for place, id in enumerate(ranked)}

    @cached_property
    def kinds(self) -> dict[int, Kind]:
        """The categories by their id in the store."""
        found = {int(kind) for id in self.store.ids for kind in self._categories(id)}
        table = {row.id: (row.name, row.kept) for row in self.store.categories}
        table |= {kind: (f"object-{kind + 1}", True) for kind in found - set(table) if kind >= 0}
        kinds = {id: Kind(id, id + 1, *table[id]) for id in sorted(table)}
        if UNASSIGNED in found:
            last = max((kind.number for kind in kinds.values()), default=0)
            kinds[UNASSIGNED] = Kind(UNASSIGNED, last + 1, UNASSIGNED_NAME, True)
        return kinds

    def choose(self, labels: VideoLabels) -> Chosen:
        """The tracks to export: the kept ones of kept categories, or all of them with a mark."""
        tracks = labels.tracks
        kept = self._keeps(tracks.category)
        index = np.arange(len(tracks))
        if not self.config.dropped:
            return Chosen(tracks.select(kept), kept[kept], index[kept])
        others = labels.dropped
        none = np.zeros(len(others), bool)
        return Chosen(_together(tracks, others), np.append(kept, none), np.append(index, none.astype(int) - 1))

    def blocks(self, labels: VideoLabels) -> Iterator[tuple[int, Chosen]]:
        """First frame and tracks of one stretch of a video after another."""
        return ((part.first, self.choose(part)) for part in blocks(labels))

    def frames(self, labels: VideoLabels) -> Iterator[Frame]:
        """All frames of a video in their own size; VideoError if it is not the video that was labeled."""
        with fetched(inside(self.folder, labels.source)) as path:
            if not path.exists():
                raise VideoError(f"{path} is not there. Say where the videos are with --videos.")
            video = Video(path, WHOLE)
            if video.sha256() != labels.attributes["sha256"]:
                raise VideoError(f"{path} is not the video that was labeled: it has changed since. Label it again.")
            count = 0
            for frame in video.frames():
                if count == labels.frames:
                    break
                count += 1
                self.step(labels.source, 1)
                yield frame
            if count < labels.frames:
                raise VideoError(f"{path} has {count} frames, its labels have {labels.frames}. Label it again.")

    def step(self, source: str, frames: int) -> None:
        """So many frames more are done."""
        self._done += frames
        if self.progress:
            self.progress(source, self._done, self.total)

    @cached_property
    def total(self) -> int:
        """Frames in all."""
        return sum(labels.frames for labels in self.videos())

    def provenance(self) -> dict[str, Any]:
        """Where the labels come from, and what goes along with them: categories, splits, licences, videos left out."""
        known, review = dict(self.store.root.attrs), self.store.review
        return {
            "made_by": f"spectrabox {version('spectrabox')}", "format": self.format,
            "licence_of_videos": self.config.licence or None,
            "labels": {name: known.get(name) for name in LABELS}
            | {"made": how_made(self.store), "edits": len(review.log.done) if review else 0},
            "categories": [vars(kind) for kind in self.kinds.values()],
            "videos": [self._facts(labels) for labels in self.videos()],
            "left_out": self.problems,
        }  # fmt: skip

    def _facts(self, labels: VideoLabels) -> dict[str, Any]:
        facts = {name: labels.attributes.get(name) for name in ("source", "sha256", "fps", "frames", "height", "width")}
        place = {"id": labels.id, "name": self.names[labels.id]}
        return place | facts | {"split": self.split[labels.id], "checked": labels.checked or None}

    def _is_sound(self, id: str) -> bool:
        """Whether all labels of a video can be read; looked at once, so that no format has to undo half a video."""
        labels = self.store[id]
        try:
            for part in blocks(labels):
                self.choose(part)
        except Exception as error:  # codecs raise what they like for broken bytes
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:120]
            self.problems[labels.source] = (
                f"The labels of {labels.source} cannot be read ({reason}). See spectrabox validate {self.store.path}."
            )
            return False
        return True

    def _categories(self, id: str) -> np.ndarray:
        try:
            return self.choose(self.store[id][:0]).tracks.category
        except Exception:  # `ids` says what is wrong with this video
            return np.zeros(0, int)

    def _keeps(self, category: np.ndarray) -> np.ndarray:
        return np.array([kind not in self._unwanted for kind in category.tolist()], bool)

    @cached_property
    def _unwanted(self) -> frozenset[int]:
        return frozenset(row.id for row in self.store.categories if not row.kept)


def _suffix(id: str) -> str:
    suffix = PurePosixPath(id).suffix
    return suffix if suffix.lower() in VIDEO_SUFFIXES else ""


def _together(one: Tracks, other: Tracks) -> Tracks:
    by_frame = {
        name: np.concatenate([getattr(one, name), getattr(other, name)], axis=1)
        for name in ("boxes", "oriented", "mass", "score")
    }
    flat = {
        name: np.concatenate([getattr(one, name), getattr(other, name)])
        for name in ("category", "instance", "prominence")
    }
    return Tracks(time=one.time, **by_frame, **flat)
