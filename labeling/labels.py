"""What are a video's labels, once its categories are known?

Joins observations, categories, re-acquired identities and verdicts into Tracks and writes them, masks and all, as one
video of the store. Needs no frame: everything comes from what the tracker saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import zarr

from labeling import geometry
from labeling.filters import Verdict
from labeling.masks import Mask, decode_runs, united
from labeling.observations import Observations
from labeling.problems import StoreError
from labeling.store import write_tracks
from labeling.tracks import UNASSIGNED, Tracks
from labeling.vocabulary import unit
from labeling.zarr_io import write_array

BLOCK = 256  # frames whose masks are in memory at a time
RUNS = 1 << 18  # run lengths in a chunk


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
    scale: float, store_masks: bool,
) -> None:  # fmt: skip
    """Write kept and dropped tracks into a video's group.

    Args:
        group: The video's group, empty.
        seen: What the tracker saw.
        verdicts: What becomes of each instance, in the order in which it is stored.
        category: The category of each of the tracker's tracks.
        size: Height and width of the masks, the working size.
        scale: From working pixels to those of the original video.
        store_masks: Whether masks are written, too.
    """
    kept = [verdict for verdict in verdicts if not verdict.reason]
    dropped = [verdict for verdict in verdicts if verdict.reason]
    homes = [(kept, group)] + ([(dropped, group.create_group("dropped"))] if dropped else [])
    for chosen, home in homes:
        tracks = _compose(seen, chosen, category)
        for frame, index, runs in _mask_runs(seen, chosen, size, united_only=True):
            union = Mask.cut(decode_runs(runs, *size).astype(np.uint8) * 255)
            if union is not None:
                tracks.oriented[frame, index] = geometry.oriented_box(union) * [scale, scale, scale, scale, 1]
        write_tracks(home, tracks)
        if store_masks:
            _write_masks(home.create_group("masks", attributes={"size": list(size)}), seen, chosen, size)


def _compose(seen: Observations, verdicts: Sequence[Verdict], category: dict[int, int]) -> Tracks:
    frames, count, columns = len(seen.time), len(verdicts), seen.columns
    boxes = np.full((frames, count, 4), np.nan, np.float32)
    oriented = np.full((frames, count, 5), np.nan, np.float32)
    mass = np.full((frames, count, 2), np.nan, np.float32)
    score = np.full((frames, count), np.nan, np.float32)
    weight = np.zeros((frames, count), np.float32)
    for index, verdict in enumerate(verdicts):
        for member in verdict.members:
            rows = seen.rows(member)
            at = columns["frame"][rows]
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
        seen.time, boxes, oriented, mass, score,
        np.asarray([majority(seen, v.members, category) for v in verdicts], np.int32).reshape(count),
        np.asarray([v.instance for v in verdicts], np.int32).reshape(count),
        np.asarray([v.prominence for v in verdicts], np.float32).reshape(count),
    )  # fmt: skip


def _write_masks(group: zarr.Group, seen: Observations, verdicts: Sequence[Verdict], size: tuple[int, int]) -> None:
    lengths = np.zeros((len(seen.time), len(verdicts)), np.int64)
    counts: zarr.Array[Any] | None = None
    pending: list[np.ndarray] = [np.zeros(0, np.uint32)]
    for frame, index, runs in _mask_runs(seen, verdicts, size):
        lengths[frame, index] = len(runs)
        pending.append(runs)
        if len(pending) >= BLOCK * 16:
            counts = _append(group, counts, pending)
    _append(group, counts, pending)
    write_array(group, "offsets", np.concatenate([[0], np.cumsum(lengths.ravel())]).astype(np.int64))


def _append(group: zarr.Group, counts: zarr.Array[Any] | None, pending: list[np.ndarray]) -> zarr.Array[Any]:
    """Move what is pending to the end of `counts`, which is made if it is not there yet."""
    block = np.concatenate(pending)
    pending[1:] = []
    if counts is None:
        return group.create_array("counts", data=block, chunks=(RUNS,))
    counts.append(block)
    return counts


def _mask_runs(
    seen: Observations, verdicts: Sequence[Verdict], size: tuple[int, int], united_only: bool = False
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Frame, index of the verdict and run lengths of its mask; members that share a frame are united."""
    if united_only:
        verdicts = [verdict if len(verdict.members) > 1 else replace(verdict, members=()) for verdict in verdicts]
    owner = {member: index for index, verdict in enumerate(verdicts) for member in verdict.members}
    frame, track = seen.columns["frame"], seen.columns["track"]
    for begin in range(0, len(seen.time) if owner else 0, BLOCK):
        first, last = np.searchsorted(frame, [begin, begin + BLOCK])
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
