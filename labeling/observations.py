"""What did the tracker see, before anyone asked what kind of thing it is?

Class-agnostic tracks of one video as flat columns, a row per track and frame, in frame order, kept in the store under
`stages/`. They are written while the video streams by, so memory does not grow with its length, and are all that
categories, re-acquisition and filters need: those can be redone without decoding a frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import zarr

from labeling import geometry
from labeling.masks import encode_runs, intersection
from labeling.trackers import Observation
from labeling.zarr_io import ROWS, array_at, as_damage, load, rows_of, write_array

RUNS = 1 << 18  # run lengths in a chunk
HELD = 512  # rows that are held in memory before they are written
EMBEDDINGS_PER_TRACK = 16  # enough to average out a bad view

COLUMNS: dict[str, tuple[tuple[int, ...], str]] = {
    "frame": ((), "int32"),
    "track": ((), "int32"),
    "box": ((4,), "float32"),
    "oriented": ((5,), "float32"),
    "mass": ((2,), "float32"),
    "area": ((), "float32"),
    "score": ((), "float32"),
    "motion": ((), "float32"),
    "runs": ((), "int64"),  # how many run lengths the row's mask has
}


# Columns of one kind stand side by side in one array: every array costs a video some milliseconds and two files.
ARRAYS = {
    "whole": ("int64", ("frame", "track", "runs")),
    "real": ("float32", ("box", "oriented", "mass", "area", "score", "motion")),
}


@dataclass(frozen=True)
class Overlap:
    """How two tracks lie on one another, over the frames that both are on."""

    frames: int
    share: float  # mean over these frames of shared area over the smaller one's area


class ObservationWriter:
    """Writes one video's observations into a zarr group, in bounded memory."""

    def __init__(self, group: zarr.Group, scale: geometry.Scale, height: int, width: int) -> None:
        self._group, self._scale, self._size = group, scale, (height, width)
        self._started = False
        self._rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._counts: list[np.ndarray] = []
        self._frame: list[Observation] = []
        self._overlaps: dict[tuple[int, int], tuple[int, float]] = {}
        self._embeddings: dict[int, EvenSample] = {}

    def add(self, seen: Observation) -> None:
        """Take the next observation; frames come in order."""
        if self._frame and self._frame[0].frame != seen.frame:
            self._end_frame()
        self._frame.append(seen)
        if seen.embedding is not None:
            self._embeddings.setdefault(seen.track, EvenSample(EMBEDDINGS_PER_TRACK)).add(seen.embedding)

    def finish(self, time: np.ndarray) -> None:
        """Write what is still held, the frame times (T,), overlaps and embeddings."""
        self._end_frame()
        self._flush()
        order = sorted(self._embeddings)
        vectors = [vector for track in order for vector in self._embeddings[track].kept]
        owners = [track for track in order for _ in self._embeddings[track].kept]
        pairs = sorted(self._overlaps)
        once: dict[str, np.ndarray] = {
            "time": np.asarray(time, np.float64),
            "embedding": np.asarray(vectors, np.float32).reshape(len(vectors), -1 if vectors else 0),
            "embedding_track": np.asarray(owners, np.int32),
            "overlap": np.asarray([pair + self._overlaps[pair] for pair in pairs], np.float64).reshape(-1, 4),
        }
        for name, data in once.items():
            write_array(self._group, name, data)

    def _end_frame(self) -> None:
        self._frame.sort(key=lambda seen: seen.track)
        for first, second in combinations(self._frame, 2):
            shared = intersection(first.mask, second.mask)
            if shared > 0:
                frames, total = self._overlaps.get((first.track, second.track), (0, 0.0))
                share = shared / max(1e-6, min(first.mask.area, second.mask.area))
                self._overlaps[first.track, second.track] = frames + 1, total + share
        for seen in self._frame:
            self._append(seen)
        self._frame.clear()
        if len(self._rows["frame"]) >= HELD:
            self._flush()

    def _append(self, seen: Observation) -> None:
        across, down = self._scale
        scale = np.array([across, down], np.float32)
        oriented = geometry.scaled(geometry.oriented_box(seen.mask), self._scale)
        counts = encode_runs(seen.mask, *self._size)
        self._counts.append(counts)
        values = {
            "frame": seen.frame, "track": seen.track, "box": geometry.box(seen.mask) * np.tile(scale, 2),
            "oriented": oriented, "mass": geometry.centre_of_mass(seen.mask) * scale,
            "area": seen.mask.area * across * down, "score": seen.score, "motion": seen.motion * across,
            "runs": len(counts),
        }  # fmt: skip
        for name, value in values.items():
            self._rows[name].append(value)

    def _flush(self) -> None:
        if not self._rows["frame"] and self._started:
            return
        counts = np.concatenate([np.zeros(0, np.uint32), *self._counts])
        blocks = {"counts": counts} | {name: self._block(*parts) for name, parts in ARRAYS.items()}
        for name, block in blocks.items():
            if self._started:
                array_at(self._group, name).append(block)
            else:
                chunk = RUNS if name == "counts" else ROWS
                self._group.create_array(name, data=block, chunks=(chunk, *block.shape[1:]))
        self._started = True
        self._counts.clear()
        for column in self._rows.values():
            column.clear()

    def _block(self, kind: str, names: tuple[str, ...]) -> np.ndarray:
        """The rows held in memory, columns of one kind side by side, (rows, width)."""
        parts = [np.asarray(self._rows[name], kind).reshape(len(self._rows[name]), _width(name)) for name in names]
        return np.concatenate(parts, 1)


class EvenSample:
    """Keeps at most `size` items of a stream of unknown length, evenly spread over it."""

    def __init__(self, size: int) -> None:
        self.kept: list[np.ndarray] = []
        self._size, self._step, self._seen = size, 1, 0

    def add(self, item: np.ndarray) -> None:
        """Take the next item; every second one kept so far goes when the sample is full."""
        if self._seen % self._step == 0:
            if len(self.kept) == self._size:
                self.kept = self.kept[::2]
                self._step *= 2
            if self._seen % self._step == 0:
                self.kept.append(item)
        self._seen += 1


@dataclass(frozen=True)
class Observations:
    """One video's observations, read back; the masks stay on disk until asked for."""

    columns: dict[str, np.ndarray]
    time: np.ndarray  # (T,)
    embedding: np.ndarray  # (E, D)
    embedding_track: np.ndarray  # (E,)
    overlaps: dict[tuple[int, int], Overlap]
    run_offset: np.ndarray  # (M + 1,) where each row's mask begins in counts
    counts: zarr.Array[Any]  # (R,) uint32

    @classmethod
    def read(cls, group: zarr.Group) -> Observations:
        """Read a finished group; StoreError if it is damaged."""
        with as_damage(group):
            found = cls._read(group)
            found._refuse_nonsense()
        return found

    @classmethod
    def _read(cls, group: zarr.Group) -> Observations:
        columns: dict[str, np.ndarray] = {}
        for array, (_, names) in ARRAYS.items():
            ends = np.cumsum([_width(name) for name in names])
            for name, part in zip(names, np.split(load(group, array), ends[:-1], axis=1), strict=True):
                shape, kind = COLUMNS[name]
                columns[name] = np.ascontiguousarray(part.reshape(len(part), *shape), dtype=kind)
        overlaps = {
            (int(first), int(second)): Overlap(int(frames), float(total / frames))
            for first, second, frames, total in load(group, "overlap")
        }
        return cls(
            columns, load(group, "time"), load(group, "embedding"),
            load(group, "embedding_track"), overlaps,
            np.concatenate([[0], np.cumsum(columns["runs"])]), array_at(group, "counts"),
        )  # fmt: skip

    def _refuse_nonsense(self) -> None:
        """ValueError if columns do not fit one another, or lead beyond the video or the masks."""
        frame, runs = self.columns["frame"], self.columns["runs"]
        if len({len(column) for column in self.columns.values()}) > 1:
            raise ValueError("columns differ in length")
        if (np.diff(frame) < 0).any() or (len(frame) and not 0 <= frame[0] <= frame[-1] < len(self.time)):
            raise ValueError("rows are not in the order of the frames")
        if (runs < 0).any() or self.run_offset[-1] != self.counts.shape[0]:
            raise ValueError("rows and masks do not fit one another")
        if len(self.embedding) != len(self.embedding_track) or (np.diff(self.embedding_track) < 0).any():
            raise ValueError("embeddings are not in the order of the tracks")
        for values in (self.time, self.embedding, *(self.columns[name] for name in ARRAYS["real"][1])):
            if not np.isfinite(values).all():
                raise ValueError("it holds values that are not numbers")
        if not (self.columns["box"][:, 2:] > self.columns["box"][:, :2]).all():  # as if a chunk is missing: zeros
            raise ValueError("it holds boxes without a size")

    def mask_counts(self, first: int, last: int) -> np.ndarray:
        """The run lengths of the masks of some rows, one after another."""
        return rows_of(self.counts, slice(self.run_offset[first], self.run_offset[last]))

    @cached_property
    def tracks(self) -> np.ndarray:
        """The track numbers, sorted."""
        return np.unique(self.columns["track"])

    def rows(self, *tracks: int) -> np.ndarray:
        """The rows of one or more tracks, in frame order."""
        found = [self._rows[track] for track in tracks]
        return found[0] if len(found) == 1 else np.sort(np.concatenate(found))

    def looks(self, track: int) -> np.ndarray:
        """The sampled embeddings of one track, (n, D)."""
        begin, end = np.searchsorted(self.embedding_track, [track, track + 1])
        return self.embedding[begin:end]

    @cached_property
    def _rows(self) -> dict[int, np.ndarray]:
        order = np.argsort(self.columns["track"], kind="stable")
        places = np.searchsorted(self.columns["track"][order], self.tracks)
        return dict(zip(self.tracks.tolist(), np.split(order, places[1:]), strict=True))


def array_width(array: str) -> int:
    """How many numbers a row has in one of ARRAYS."""
    return sum(_width(name) for name in ARRAYS[array][1])


def _width(name: str) -> int:
    return int(np.prod(COLUMNS[name][0], dtype=int))
