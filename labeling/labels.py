"""What are a video's labels, once its categories are known?

Joins observations, categories, re-acquired identities and verdicts into Tracks and writes them, masks and all, as one
video of the store. Needs no frame: everything comes from what the tracker saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import zarr

from labeling import geometry
from labeling.filters import Verdict
from labeling.masks import Mask, decode_runs, united
from labeling.observations import Observations
from labeling.problems import StoreError
from labeling.store import write_stretch
from labeling.tracks import UNASSIGNED, Tracks
from labeling.vocabulary import unit
from labeling.zarr_io import ROWS, SMALL

BLOCK = 256  # frames whose masks are in memory at a time
RUNS = OFFSETS = 1 << 18  # run lengths, and where they begin, in a chunk


def track_categories(seen: Observations, category_of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The category of each track, (N,) int32 over `seen.tracks`: that of its mean embedding."""
    category = np.full(len(seen.tracks), UNASSIGNED, np.int32)
    means = {
        index: mean for index, track in enumerate(seen.tracks) if (mean := mean_embedding(seen, int(track))) is not None
    }
    if means:
        category[list(means)] = category_of(np.stack(list(means.values())))
    return category


def mean_embedding(seen: Observations, track: int) -> np.ndarray | None:
    """The mean of a track's sampled embeddings, (D,), unit length; None if it was never seen clearly."""
    looks = seen.looks(track)
    return unit(looks.mean(0, keepdims=True))[0] if len(looks) else None


def majority(seen: Observations, members: Sequence[int], category: dict[int, int]) -> int:
    """The category that most of an instance's rows have; unassigned rows do not vote."""
    votes: dict[int, int] = {}
    for member in members:
        if category[member] != UNASSIGNED:
            votes[category[member]] = votes.get(category[member], 0) + len(seen.rows(member))
    return max(votes, key=lambda kind: (votes[kind], -kind)) if votes else UNASSIGNED


def write_labels(
    group: zarr.Group, seen: Observations, verdicts: Sequence[Verdict], category: dict[int, int], size: tuple[int, int],
    scale: geometry.Scale, store_masks: bool, watch: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    """Write kept and dropped tracks into a video's group, a stretch of frames at a time.

    Args:
        group: The video's group, empty.
        seen: What the tracker saw.
        verdicts: What becomes of each instance, in the order in which it is stored.
        category: The category of each of the tracker's tracks.
        size: Height and width of the masks, the working size.
        scale: From working pixels to those of the original video.
        store_masks: Whether masks are written, too.
        watch: Called after every stretch.
    """
    kept = [verdict for verdict in verdicts if not verdict.reason]
    dropped = [verdict for verdict in verdicts if verdict.reason]
    homes = [(kept, group)] + ([(dropped, group.create_group("dropped"))] if dropped else [])
    for chosen, home in homes:
        masks = MaskWriter(home, size, len(seen.time) * len(chosen)) if store_masks else None
        kinds = np.asarray([majority(seen, v.members, category) for v in chosen], np.int32).reshape(len(chosen))
        for begin in range(0, max(1, len(seen.time)), ROWS):
            stretch = range(begin, min(begin + ROWS, len(seen.time)))
            tracks = _compose(seen, chosen, kinds, stretch)
            for frame, index, runs in _mask_runs(seen, chosen, size, stretch, united_only=True):
                union = Mask.cut(decode_runs(runs, *size).astype(np.uint8) * 255)
                if union is not None:
                    tracks.oriented[frame - begin, index] = geometry.scaled(geometry.oriented_box(union), scale)
            write_stretch(home, tracks, begin, len(seen.time))
            if masks:
                masks.write(_mask_runs(seen, chosen, size, stretch), begin, tracks.score.shape)
            if watch:
                watch()
        if masks:
            masks.close()


def _compose(seen: Observations, verdicts: Sequence[Verdict], category: np.ndarray, stretch: range) -> Tracks:
    """The tracks of a stretch of frames."""
    frames, count, columns = len(stretch), len(verdicts), seen.columns
    boxes = np.full((frames, count, 4), np.nan, np.float32)
    oriented = np.full((frames, count, 5), np.nan, np.float32)
    mass = np.full((frames, count, 2), np.nan, np.float32)
    score = np.full((frames, count), np.nan, np.float32)
    weight = np.zeros((frames, count), np.float32)
    for index, verdict in enumerate(verdicts):
        for member in verdict.members:
            rows = seen.rows(member)
            first, last = np.searchsorted(columns["frame"][rows], [stretch.start, stretch.stop])
            rows = rows[first:last]
            at = columns["frame"][rows] - stretch.start
            area, before = columns["area"][rows], weight[at, index]
            larger = area > before
            oriented[at[larger], index] = columns["oriented"][rows[larger]]
            share = (area / np.maximum(area + before, 1e-6))[:, None]
            mass[at, index] = (
                np.where(before[:, None] > 0, mass[at, index] * (1 - share), 0) + columns["mass"][rows] * share
            )
            box = columns["box"][rows]
            boxes[at, index, :2] = np.fmin(boxes[at, index, :2], box[:, :2])
            boxes[at, index, 2:] = np.fmax(boxes[at, index, 2:], box[:, 2:])
            score[at, index] = np.fmax(score[at, index], columns["score"][rows])
            weight[at, index] += area
    return Tracks(
        seen.time[stretch.start : stretch.stop], boxes, oriented, mass, score, category,
        np.asarray([v.instance for v in verdicts], np.int32).reshape(count),
        np.asarray([v.prominence for v in verdicts], np.float32).reshape(count),
    )  # fmt: skip


class MaskWriter:
    """Writes the masks of a video, run lengths of one cell (frame, track) after another."""

    def __init__(self, home: zarr.Group, size: tuple[int, int], cells: int) -> None:
        self._group = home.create_group("masks", attributes={"size": list(size)})
        self._counts: zarr.Array[Any] | None = None
        self._pending: list[np.ndarray] = [np.zeros(0, np.uint32)]
        self._offsets = self._group.create_array(
            "offsets", shape=(cells + 1,), dtype=np.int64, chunks=(max(1, min(OFFSETS, cells + 1)),), fill_value=0,
            compressors=None if 8 * cells < SMALL else "auto", config={"write_empty_chunks": True},
        )  # fmt: skip
        self._offsets[:1] = 0
        self._end = 0

    def write(self, found: Iterable[tuple[int, int, np.ndarray]], begin: int, shape: tuple[int, ...]) -> None:
        """Frame, track and run lengths of a stretch of `shape` (frames, tracks) that begins with frame `begin`."""
        lengths = np.zeros(shape, np.int64)
        for frame, index, runs in found:
            lengths[frame - begin, index] = len(runs)
            self._pending.append(runs)
            if len(self._pending) >= BLOCK * 16:
                self._flush()
        ends = self._end + np.cumsum(lengths.ravel())
        first = begin * shape[1] + 1
        self._offsets[first : first + len(ends)] = ends
        self._end = int(ends[-1]) if len(ends) else self._end

    def close(self) -> None:
        """Write what is left."""
        self._flush()

    def _flush(self) -> None:
        block = np.concatenate(self._pending)
        self._pending[1:] = []
        if self._counts is None:
            self._counts = self._group.create_array("counts", data=block, chunks=(RUNS,))
        else:
            self._counts.append(block)


def _mask_runs(
    seen: Observations, verdicts: Sequence[Verdict], size: tuple[int, int], stretch: range, united_only: bool = False
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Frame, index of the verdict and run lengths of its mask; members that share a frame are united."""
    if united_only:
        verdicts = [verdict if len(verdict.members) > 1 else replace(verdict, members=()) for verdict in verdicts]
    owner = {member: index for index, verdict in enumerate(verdicts) for member in verdict.members}
    frame, track = seen.columns["frame"], seen.columns["track"]
    for begin in stretch[::BLOCK] if owner else ():
        first, last = np.searchsorted(frame, [begin, min(begin + BLOCK, stretch.stop)])
        block = seen.mask_counts(first, last)
        count = np.count_nonzero(seen.columns["runs"][first:last])
        if block.sum(dtype=np.int64) != count * size[0] * size[1]:
            raise StoreError(f"masks from frame {begin} on are damaged: they do not cover the frame.")
        cells: dict[tuple[int, int], list[np.ndarray]] = {}
        for row in range(first, last):
            if int(track[row]) in owner:
                start, stop = seen.run_offset[row : row + 2] - seen.run_offset[first]
                cells.setdefault((int(frame[row]), owner[int(track[row])]), []).append(block[start:stop])
        for cell in sorted(cells):
            masks = cells[cell]
            if len(masks) > 1:
                yield *cell, united(masks, *size)
            elif not united_only:
                yield *cell, masks[0]
