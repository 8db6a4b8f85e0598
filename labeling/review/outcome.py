"""What do edits make of the automatic labels?

`TrackTable` takes the tracks of one video as they were found and does edits to it, one after another; `CategoryTable`
does the same for the categories of a store. Nothing is copied: a reviewed track is a list of pieces, stretches of
automatic tracks, so an outcome is small whatever the length of a video, and the same edits give the same outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from labeling.problems import RunError
from labeling.review.edits import (
    AssignTracks,
    CategoryEdit,
    DropCategory,
    DropTracks,
    KeepCategory,
    KeepTracks,
    MergeCategories,
    MergeTracks,
    RenameCategory,
    SplitTrack,
    SwapTracks,
    TrackEdit,
)
from labeling.tracks import UNASSIGNED

DROPPED = "dropped in review"  # the reason that a track was left out


class EditError(RunError):
    """An edit cannot be done, or no longer fits; the message says why."""


@dataclass(frozen=True)
class Automatic:
    """The tracks of a video as they were found, those that were kept first; all arrays are (N,)."""

    frames: int
    instance: np.ndarray
    category: np.ndarray
    prominence: np.ndarray
    kept: np.ndarray


@dataclass(frozen=True)
class Piece:
    """A stretch of an automatic track."""

    source: int  # its instance
    start: int
    stop: int  # exclusive


@dataclass(frozen=True)
class Reviewed:
    """A track as it is after all edits."""

    instance: int
    category: int
    prominence: float
    kept: bool
    pieces: tuple[Piece, ...]
    touched: bool = False  # whether a reviewer decided that it is kept or dropped

    def before(self, frame: int) -> tuple[Piece, ...]:
        """Its pieces up to a frame."""
        return tuple(replace(p, stop=min(p.stop, frame)) for p in self.pieces if p.start < frame)

    def since(self, frame: int) -> tuple[Piece, ...]:
        """Its pieces from a frame on."""
        return tuple(replace(p, start=max(p.start, frame)) for p in self.pieces if p.stop > frame)


class TrackTable:
    """The tracks of one video, by instance."""

    def __init__(self, found: Automatic) -> None:
        self.frames = found.frames
        whole = zip(
            found.instance.tolist(), found.category.tolist(), found.prominence.tolist(), found.kept.tolist(),
            strict=True,
        )  # fmt: skip
        self.tracks = {row[0]: Reviewed(*row, (Piece(row[0], 0, found.frames),)) for row in whole}

    def do(self, edit: TrackEdit) -> None:
        """Do an edit; EditError, and nothing done, if it does not fit."""
        for number in edit.named:
            if number not in self.tracks:
                raise EditError(f"there is no track {number}")
        if len(set(edit.named)) < len(edit.named):
            raise EditError("a track is named twice")
        match edit:
            case AssignTracks():
                self._assign(edit.tracks, edit.category)
            case DropTracks() | KeepTracks():
                self._keep(edit.tracks, isinstance(edit, KeepTracks))
            case MergeTracks():
                self._merge(edit.tracks)
            case SplitTrack():
                self._split(edit.track, edit.frame, edit.new)
            case SwapTracks():
                self._swap(*edit.tracks, edit.frame)

    def move(self, kinds: frozenset[int], into: int) -> None:
        """Put all tracks of some categories into another."""
        self._assign([track.instance for track in self.tracks.values() if track.category in kinds], into)

    @property
    def next_instance(self) -> int:
        """A number that no track has, nor any automatic one that is part of another by now."""
        taken = [piece.source for track in self.tracks.values() for piece in track.pieces]
        return max((*self.tracks, *taken), default=-1) + 1

    def _assign(self, numbers: Iterable[int], category: int) -> None:
        for number in numbers:
            self.tracks[number] = replace(self.tracks[number], category=category)

    def _keep(self, numbers: tuple[int, ...], kept: bool) -> None:
        if all(self.tracks[number].kept == kept for number in numbers):
            raise EditError(f"{numbers[0]} is {'kept' if kept else 'dropped'} already")
        for number in numbers:
            self.tracks[number] = replace(self.tracks[number], kept=kept, touched=True)

    def _merge(self, numbers: tuple[int, ...]) -> None:
        parts = [self.tracks[number] for number in numbers]
        for number in numbers[1:]:
            del self.tracks[number]
        pieces = joined([piece for part in parts for piece in part.pieces])
        self.tracks[numbers[0]] = replace(parts[0], pieces=pieces, prominence=max(part.prominence for part in parts))

    def _split(self, number: int, frame: int, new: int) -> None:
        track = self.tracks[number]
        if new in self.tracks:
            raise EditError(f"there is a track {new} already")
        if not track.before(frame) or not track.since(frame):
            raise EditError(f"track {number} is not there both before frame {frame} and from it on")
        self.tracks[number] = replace(track, pieces=track.before(frame))
        self.tracks[new] = replace(track, instance=new, pieces=track.since(frame))

    def _swap(self, one: int, other: int, frame: int) -> None:
        if frame >= self.frames:
            raise EditError(f"there is no frame {frame}")
        first, second = self.tracks[one], self.tracks[other]
        ours = joined([*first.before(frame), *second.since(frame)])
        theirs = joined([*second.before(frame), *first.since(frame)])
        if not ours or not theirs:
            raise EditError("one of the two would be nowhere: merge them, or change their categories")
        self.tracks[one] = replace(first, pieces=ours)
        self.tracks[other] = replace(second, pieces=theirs)


def joined(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Pieces in order, with those that follow one another in one automatic track as one again."""
    result: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: (piece.source, piece.start)):
        if result and (last := result[-1]).source == piece.source and last.stop >= piece.start:
            result[-1] = replace(last, stop=max(last.stop, piece.stop))
        else:
            result.append(piece)
    return tuple(sorted(result, key=lambda piece: (piece.start, piece.source)))


class CategoryTable:
    """What categories are called, which were dropped, and which are part of another by now."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = dict(names)
        self.dropped: set[int] = set()

    def do(self, edit: CategoryEdit) -> None:
        """Do an edit; EditError, and nothing done, if it does not fit."""
        for kind in edit.named:
            self.refuse_unknown(kind)
        match edit:
            case RenameCategory():
                same = next((kind for kind, name in self.names.items() if name == edit.name), edit.category)
                if same != edit.category:
                    raise EditError(f"there is a category {edit.name} already: merge the two instead")
                self.names[edit.category] = edit.name
            case DropCategory():
                if edit.category in self.dropped:
                    raise EditError(f"{self.name_of(edit.category)} is dropped already")
                self.dropped.add(edit.category)
            case KeepCategory():
                if edit.category not in self.dropped:
                    raise EditError(f"{self.name_of(edit.category)} is kept already")
                self.dropped.discard(edit.category)
            case MergeCategories():
                if edit.into in edit.categories:
                    raise EditError("a category cannot be merged into itself")
                for kind in edit.categories:
                    self.names.pop(kind, None)
                    self.dropped.discard(kind)

    def refuse_unknown(self, kind: int) -> None:
        """EditError unless there is such a category, or it is that of tracks that fit none."""
        if kind != UNASSIGNED and kind not in self.names:
            raise EditError(f"there is no category {kind}")

    def name_of(self, kind: int) -> str:
        """What a category is called, or was."""
        return self.names.get(kind) or ("unassigned" if kind == UNASSIGNED else f"object-{kind + 1}")
