"""Which edits of the log fit the labels that are there now?

`Review` goes through a store's log once and knows what categories are called and which tracks of each video come out.
An edit counts only for the labels it was made for: for the same recipe, or, after other settings, for tracks that are
where they were. What does not fit any more is listed with its reason and stays in the log.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import zarr

from labeling.facts import category_rows
from labeling.recipe import digest
from labeling.review.edits import (
    AssignTracks,
    CategoryEdit,
    CheckVideo,
    Edit,
    MergeCategories,
    UncheckVideo,
    VideoEdit,
    in_words,
)
from labeling.review.log import Entry, Log
from labeling.review.outcome import Automatic, CategoryTable, EditError, TrackTable
from labeling.stored_vocabulary import lineage
from labeling.zarr_io import array_at, group_at, load

PER_TRACK = ("instance", "category", "prominence")


@dataclass(frozen=True)
class Misfit:
    """An edit that no longer fits the labels."""

    entry: Entry
    edit: Edit
    why: str
    words: str

    @property
    def what(self) -> str:
        """The edit, its author and time."""
        where = "" if isinstance(self.edit, CategoryEdit) else f"{self.edit.video}: "
        who = f" by {self.entry.by}" if self.entry.by else ""
        return f"{where}{self.words} ({self.entry.at:%Y-%m-%d %H:%M}{who})"

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


@dataclass(frozen=True)
class Outcome:
    """What the edits made of one video."""

    table: TrackTable
    checked: Entry | None  # who said so
    misfits: list[Misfit]


class Review:
    """The edits of a store, done to its labels."""

    def __init__(self, root: zarr.Group, log: Log) -> None:
        self._root, self.log = root, log
        self._outcomes: dict[str, Outcome] = {}
        self._changes: dict[str, str] = {}
        self.misfits_of_categories: list[Misfit] = []
        self.categories = CategoryTable({row["id"]: row["name"] for row in category_rows(root)})
        self._fitting: list[tuple[Entry, Edit]] = []  # edits of videos, which may not fit yet, and of categories
        for entry in log.done:
            assert entry.edit is not None
            if isinstance(entry.edit, CategoryEdit) and (why := self._refusal(entry, entry.edit)):
                words = in_words(entry.edit, self.categories.name_of)
                self.misfits_of_categories.append(Misfit(entry, entry.edit, why, words))
            else:
                self._fitting.append((entry, entry.edit))
        self._videos = {edit.video for _, edit in self._fitting if not isinstance(edit, CategoryEdit)}
        self._for_all = bool(self.categories.dropped) or any(
            isinstance(edit, MergeCategories) for _, edit in self._fitting
        )

    def _refusal(self, entry: Entry, edit: CategoryEdit) -> str:
        if entry.vocabulary != self.vocabulary:
            return "the categories were found anew since"
        try:
            self.categories.do(edit)
        except EditError as error:
            return str(error)
        return ""

    @cached_property
    def vocabulary(self) -> str:
        """What tells these categories from those of another fit."""
        names = [row["name"] for row in category_rows(self._root)]
        return lineage(self._root) or digest(names=names)

    def concerns(self, video: str) -> bool:
        """Whether any edit may change the tracks of a video."""
        return self._for_all or video in self._videos

    def outcome(self, video: str) -> Outcome:
        """What the edits make of a video that is in the store."""
        if video not in self._outcomes:
            self._outcomes[video] = self._outcome(video)
        return self._outcomes[video]

    def _outcome(self, video: str) -> Outcome:
        group = group_at(self._root, f"videos/{video}")
        recipe, table = str(group.attrs["recipe"]), TrackTable(automatic(group))
        marks = Marks(group)
        outcome = Outcome(table, None, [])
        for entry, edit in self._fitting:
            if isinstance(edit, MergeCategories):
                table.move(frozenset(edit.categories), edit.into)
            elif not isinstance(edit, CategoryEdit) and edit.video == video:
                try:
                    outcome = self._done(outcome, entry, edit, recipe, marks)
                except EditError as error:
                    words = in_words(edit, self.categories.name_of)
                    outcome.misfits.append(Misfit(entry, edit, str(error), words))
        return outcome

    def _done(self, outcome: Outcome, entry: Entry, edit: VideoEdit, recipe: str, marks: Marks) -> Outcome:
        if isinstance(edit, CheckVideo | UncheckVideo):
            if entry.labels != recipe:
                raise EditError("it was labeled anew since")
            return Outcome(outcome.table, entry if isinstance(edit, CheckVideo) else None, outcome.misfits)
        if entry.labels != recipe and (other := marks.others(entry.marks)):
            raise EditError(f"it was labeled anew since, and track {other[0]} is another one now")
        if isinstance(edit, AssignTracks) and entry.vocabulary != self.vocabulary:
            raise EditError("the categories were found anew since")
        outcome.table.do(edit)
        return outcome

    def changes(self, video: str) -> str:
        """A hash of how the tracks of a video differ from the automatic ones; empty if they do not."""
        if video not in self._changes:
            self._changes[video] = self._differences(video) if self.concerns(video) else ""
        return self._changes[video]

    def _differences(self, video: str) -> str:
        table = self.outcome(video).table
        found = TrackTable(automatic(group_at(self._root, f"videos/{video}"))).tracks
        dropped = sorted({track.category for track in table.tracks.values()} & self.categories.dropped)
        if found == table.tracks and not dropped:
            return ""
        rows = [
            [track.instance, track.category, track.kept, [[p.source, p.start, p.stop] for p in track.pieces]]
            for track in table.tracks.values()
        ]
        return digest(tracks=rows, dropped=dropped)

    def misfits(self, videos: Iterable[str]) -> list[Misfit]:
        """All edits that do not fit a store that has these videos, in the order in which they were made."""
        there = set(videos)
        found = list(self.misfits_of_categories)
        for video in sorted(self._videos & there):
            found += self.outcome(video).misfits
        for entry, edit in self._fitting:
            if not isinstance(edit, CategoryEdit) and edit.video not in there:
                words = in_words(edit, self.categories.name_of)
                found.append(Misfit(entry, edit, "the store has no labels of this video any more", words))
        return sorted(found, key=lambda misfit: misfit.entry.at)

    def checked(self, video: str) -> Entry | None:
        """The entry by which a video was marked as checked."""
        return self.outcome(video).checked if video in self._videos else None

    def sizes(self, found: Mapping[int, int], videos: Iterable[str], dropped: bool = False) -> Counter[int]:
        """Tracks of each category after all edits, also of dropped ones if asked; `found` are the automatic labels'."""
        sizes, into = Counter(found), self.into
        for kind, target in into.items():
            sizes[target] += sizes.pop(kind, 0)
        for video in self._videos.intersection(videos):
            before = automatic(group_at(self._root, f"videos/{video}"))
            sizes.subtract(into.get(kind, kind) for kind in before.category[before.kept].tolist())
            sizes.update(track.category for track in self.outcome(video).table.tracks.values() if track.kept)
        return Counter({kind: n for kind, n in sizes.items() if dropped or kind not in self.categories.dropped})

    @cached_property
    def into(self) -> dict[int, int]:
        """Categories that are part of another by now, and which that is."""
        into: dict[int, int] = {}
        for _, edit in self._fitting:
            if isinstance(edit, MergeCategories):
                gone = set(edit.categories)
                into = {kind: edit.into if target in gone else target for kind, target in into.items()}
                into |= dict.fromkeys(edit.categories, edit.into)
        return into


def automatic(group: zarr.Group) -> Automatic:
    """The tracks in a video's group as they were found."""
    homes = [group, *([group_at(group, "dropped")] if "dropped" in group else [])]
    columns = {name: [load(home, name) for home in homes] for name in PER_TRACK}
    kept = [np.full(len(part), home is group) for part, home in zip(columns["instance"], homes, strict=True)]
    instance, category, prominence = (np.concatenate(columns[name]) for name in PER_TRACK)
    frames = group.attrs["frames"]
    assert isinstance(frames, int)
    return Automatic(frames, instance, category, prominence, np.concatenate(kept))


class Marks:
    """What tells the automatic tracks of a video from others with the same number: a hash of where they are."""

    def __init__(self, group: zarr.Group) -> None:
        self._group = group

    @cached_property
    def _columns(self) -> dict[int, tuple[zarr.Group, int]]:
        homes = [self._group, *([group_at(self._group, "dropped")] if "dropped" in self._group else [])]
        return {
            instance: (home, column)
            for home in homes
            for column, instance in enumerate(load(home, "instance").tolist())
        }

    def of(self, instance: int) -> str:
        """The mark of a track; empty if there is none with this number."""
        if instance not in self._columns:
            return ""
        home, column = self._columns[instance]
        return hashlib.sha256(np.asarray(array_at(home, "boxes")[:, column]).tobytes()).hexdigest()[:16]

    def others(self, marks: dict[int, str]) -> list[int]:
        """Those of some tracks that no longer are what they were."""
        return [instance for instance, mark in marks.items() if self.of(instance) != mark]
