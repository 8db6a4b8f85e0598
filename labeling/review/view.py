"""What are the arrays of a reviewed track?

Puts the tracks of a video together from pieces of the automatic ones, for any stretch of frames and bit for bit where
nothing was merged; masks alike. Where two pieces share a frame they are one object there: the box around both.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import zarr

from labeling.geometry import upright
from labeling.masks import united
from labeling.review.outcome import DROPPED, Reviewed
from labeling.review.review import Review, automatic
from labeling.tracks import Tracks
from labeling.zarr_io import array_at, attributes, group_at

BY_FRAME = {"boxes": (4,), "oriented": (5,), "mass": (2,), "score": ()}
BLOCK = 256  # frames whose masks are in memory at a time


class ReviewedVideo:
    """The tracks of one video as they are after all edits."""

    def __init__(self, id: str, group: zarr.Group, review: Review) -> None:
        self._group, self._review = group, review
        table, dropped = review.outcome(id).table, review.categories.dropped
        # Sorting is stable: tracks that matter alike stay in the order in which they were found.
        ranked = sorted(table.tracks.values(), key=lambda track: -track.prominence)
        self.kept = [track for track in ranked if track.kept and track.category not in dropped]
        self.dropped = [track for track in ranked if not (track.kept and track.category not in dropped)]

    @cached_property
    def _home(self) -> dict[int, tuple[str, int]]:
        """Automatic instance -> in which group and which column its arrays are."""
        found = automatic(self._group)
        split = int(found.kept.sum())
        return {
            number: ("", place) if place < split else ("dropped", place - split)
            for place, number in enumerate(found.instance.tolist())
        }

    def tracks(self, chosen: list[Reviewed], within: range) -> Tracks:
        """Some of the tracks on some frames."""
        rows, count = slice(within.start, within.stop), len(chosen)
        homes = {self._home[piece.source][0] for track in chosen for piece in track.pieces}
        stored = {home: {name: np.asarray(array_at(self._at(home), name)[rows]) for name in BY_FRAME} for home in homes}
        arrays = {name: np.full((len(within), count, *shape), np.nan, np.float32) for name, shape in BY_FRAME.items()}
        for index, track in enumerate(chosen):
            for piece in track.pieces:
                home, column = self._home[piece.source]
                begin = max(piece.start, within.start) - within.start
                end = min(piece.stop, within.stop) - within.start
                if begin < end:
                    part = {name: stored[home][name][begin:end, column] for name in BY_FRAME}
                    _lay({name: array[begin:end, index] for name, array in arrays.items()}, part)
        return Tracks(
            np.asarray(array_at(self._group, "time")[rows]), arrays["boxes"], arrays["oriented"], arrays["mass"],
            arrays["score"], np.array([track.category for track in chosen], np.int32).reshape(count),
            np.array([track.instance for track in chosen], np.int32).reshape(count),
            np.array([track.prominence for track in chosen], np.float32).reshape(count),
        )  # fmt: skip

    def reasons(self) -> list[dict[str, Any]]:
        """Why tracks are dropped: what the filters said, or that a reviewer did it."""
        by_filter = {int(row["instance"]): row for row in attributes(self._group)["dropped"]}
        name_of, gone = self._review.categories.name_of, self._review.categories.dropped
        ours = [track for track in self.dropped if track.kept or track.touched or track.instance not in by_filter]
        frames = self.tracks(ours, range(array_at(self._group, "time").shape[0])).present.sum(axis=0).tolist()
        by_reviewer = {
            track.instance: {
                "instance": track.instance, "reason": DROPPED, "frames": count,
                "detail": f"with all of {name_of(track.category)}" if track.kept and track.category in gone else "",
            }
            for track, count in zip(ours, frames, strict=True)
        }  # fmt: skip
        return [by_reviewer.get(track.instance) or by_filter[track.instance] for track in self.dropped]

    def mask_runs(self, within: range) -> Iterator[tuple[int, int, np.ndarray]]:
        """Frame, index among the kept tracks and run lengths of every mask, in order; reads in blocks."""
        for begin in range(within.start, within.stop, BLOCK):
            block = range(begin, min(begin + BLOCK, within.stop))
            cells: dict[tuple[int, int], list[np.ndarray]] = {}
            masks = {home: _MaskBlock(self._at(home), block) for home in ("", "dropped") if home in self._mask_homes}
            for index, track in enumerate(self.kept):
                for piece in track.pieces:
                    home, column = self._home[piece.source]
                    for frame in range(max(piece.start, block.start), min(piece.stop, block.stop)):
                        if home in masks and len(runs := masks[home].runs(frame, column)):
                            cells.setdefault((frame - within.start, index), []).append(runs)
            for cell in sorted(cells):
                yield *cell, united(cells[cell], *self.mask_size) if len(cells[cell]) > 1 else cells[cell][0]

    @cached_property
    def _mask_homes(self) -> set[str]:
        homes = {self._home[piece.source][0] for track in self.kept for piece in track.pieces}
        return {home for home in homes if "masks" in self._at(home)}

    @property
    def mask_size(self) -> tuple[int, int]:
        """Height and width of the masks."""
        height, width = attributes(group_at(self._group, "masks"))["size"]
        return int(height), int(width)

    def _at(self, home: str) -> zarr.Group:
        return group_at(self._group, home) if home else self._group


class _MaskBlock:
    """The masks of one group on some frames."""

    def __init__(self, group: zarr.Group, frames: range) -> None:
        masks = group_at(group, "masks")
        self._count, self._first = array_at(group, "instance").shape[0], frames.start
        cells = slice(frames.start * self._count, frames.stop * self._count + 1)
        self._offsets = np.asarray(array_at(masks, "offsets")[cells])
        self._counts = np.asarray(array_at(masks, "counts")[self._offsets[0] : self._offsets[-1]])

    def runs(self, frame: int, column: int) -> np.ndarray:
        cell = (frame - self._first) * self._count + column
        begin, end = self._offsets[cell : cell + 2] - self._offsets[0]
        return self._counts[begin:end]


def _lay(onto: dict[str, np.ndarray], part: dict[str, np.ndarray]) -> None:
    """Put a piece, arrays (t, ...), onto what other pieces left there."""
    new, old = np.isfinite(part["boxes"][:, 0]), np.isfinite(onto["boxes"][:, 0])
    free, both = new & ~old, new & old
    for name, array in onto.items():
        array[free] = part[name][free]
    if not both.any():
        return
    mine, theirs = part["boxes"][both], onto["boxes"][both]
    area, before = (np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (mine, theirs))
    share = (area / np.maximum(area + before, 1e-6))[:, None]
    onto["mass"][both] = part["mass"][both] * share + onto["mass"][both] * (1 - share)
    onto["score"][both] = np.maximum(part["score"][both], onto["score"][both])
    onto["boxes"][both] = np.concatenate(
        [np.minimum(mine[:, :2], theirs[:, :2]), np.maximum(mine[:, 2:], theirs[:, 2:])], axis=1
    )
    onto["oriented"][both] = upright(onto["boxes"][both])
