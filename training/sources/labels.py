"""Which objects of a label store are targets, in which group and at which place?

With many kinds of things the target would grow without end: the most prominent kinds keep a group of their own, up to
a limit, the rest shares one. Each group has fixed places, the same in every episode. `Labels` makes these choices for a
whole store and hands out boxes, stretch by stretch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from labeling.slots import NO_ROOM, Places
from labeling.store import Store
from labeling.tracks import UNASSIGNED, Tracks
from training.dataset_format import EMPTY, DatasetCategory, DatasetError
from training.manifest import PrepareConfig
from training.sources.framing import Framing

OTHER = "other"  # the group of all that has none of its own
NO_KIND = "unassigned"  # tracks that fitted no category
MOST_NOTES = 5  # videos that are named because of a crowd

Stretch = tuple[int, int]  # first frame, and the one after the last


@dataclass(frozen=True)
class Kind:
    """A category of the store."""

    id: int
    name: str
    tracks: int
    weight: float  # frames in view times prominence, summed over its tracks


@dataclass(frozen=True)
class Grouping:
    """Which kinds share a group of the target."""

    categories: list[DatasetCategory]
    group_of: dict[int, int]  # kind -> group; kinds that are left out are not in it
    notes: list[str]


def chosen_groups(kinds: list[Kind], config: PrepareConfig) -> Grouping:
    """Groups of the kinds that are there: those asked for, or the weightiest up to the limit and one for the rest."""
    ranked = sorted(kinds, key=lambda kind: (-kind.weight, kind.id))
    names = {kind.name for kind in kinds}
    notes = []
    if config.categories:
        unknown = [name for name in config.categories if name not in names | {OTHER}]
        if unknown:
            there = ", ".join(kind.name for kind in ranked) or "none"
            raise DatasetError(f"There is no category {', '.join(unknown)}. The store has: {there}.")
        if len(set(config.categories)) > config.max_objects:
            raise DatasetError(
                f"{len(set(config.categories))} categories are chosen, but an episode keeps {config.max_objects} "
                "objects: choose fewer, or raise --max-objects."
            )
        own = [kind for name in dict.fromkeys(config.categories) for kind in kinds if kind.name == name]
        rest = [kind for kind in ranked if kind not in own]
        if OTHER not in config.categories:
            if rest:
                notes.append(f"Left out, for other categories were chosen: {', '.join(kind.name for kind in rest)}.")
            rest = []
    else:
        named = [kind for kind in ranked if kind.id != UNASSIGNED]
        most = min(config.max_categories, config.max_objects)  # each group has a place at least
        own = named if len(ranked) <= most else named[: most - 1]
        rest = [kind for kind in ranked if kind not in own]
        if len(rest) > 1:
            notes.append(f"{len(rest)} of {len(ranked)} categories share the group {OTHER}: {_listed(rest)}.")
    groups = [(kind.name, [kind]) for kind in own] + ([(OTHER, rest)] if rest else [])
    titles = _distinct([name for name, _ in groups])
    categories = [
        DatasetCategory(number, title, tuple(kind.name for kind in members), sum(kind.tracks for kind in members))
        for number, (title, (_, members)) in enumerate(zip(titles, groups, strict=True))
    ]
    group_of = {kind.id: number for number, (_, members) in enumerate(groups) for kind in members}
    return Grouping(categories, group_of, notes)


def shared_out(episodes: Sequence[Mapping[int, int]], most: int) -> dict[int, int]:
    """How many places each group has, `most` in all, by how many objects of it each episode has.

    As many as in the episode that has most of them. Where that is too much, each group gets one place before any gets
    a second, and then those places count that most episodes fill.
    """
    filled: Counter[tuple[int, int]] = Counter()  # a group's first, second, ... place -> episodes that fill it
    for counts in episodes:
        filled.update((group, number) for group, count in counts.items() for number in range(count))
    ranked = sorted(filled, key=lambda place: (place[1] > 0, -filled[place] if place[1] else 0, place))
    room = Counter(group for group, _ in ranked[:most])
    return {group: room[group] for group in sorted(room)}


def groups_of_names(names: list[str], episodes: int, config: PrepareConfig) -> tuple[Grouping, np.ndarray, np.ndarray]:
    """Groups of objects that every episode has, where each name is a kind.

    Returns:
        The groups, which of the objects are kept (n,), and the group of each of those (n,).
    """
    kinds = list(dict.fromkeys(names))
    grouping = chosen_groups([Kind(i, kind, names.count(kind), 1.0) for i, kind in enumerate(kinds)], config)
    groups = np.array([grouping.group_of.get(kinds.index(name), EMPTY) for name in names], np.int32)
    there = Counter(group for group in groups.tolist() if group != EMPTY)
    kept = np.flatnonzero(Places(shared_out([there], config.max_objects)).places(groups) != NO_ROOM)
    counts = Counter(groups[kept].tolist())
    notes = list(grouping.notes)
    if len(kept) < there.total():
        gone = ", ".join(
            f"{there[row.id] - counts[row.id]} of {row.name}"
            for row in grouping.categories
            if there[row.id] > counts[row.id]
        )
        notes.append(f"{len(kept)} of {there.total()} objects are kept (max_objects). Left out: {gone}.")
    categories = [replace(row, tracks=episodes * counts[row.id]) for row in grouping.categories]
    return replace(grouping, categories=categories, notes=notes), kept, groups[kept]


class Labels:
    """The targets in a label store."""

    def __init__(self, store: Store, episodes: Mapping[str, Sequence[Stretch]], config: PrepareConfig) -> None:
        """Look once through the labels of some videos, given by their ids with the stretches that become episodes."""
        self.store = store
        names = {row.id: row.name for row in store.categories} | {UNASSIGNED: NO_KIND}
        found: dict[int, list[float]] = {}
        shown: list[tuple[np.ndarray, list[np.ndarray]]] = []  # a video's kinds, and the tracks that each episode shows
        for id, stretches in episodes.items():
            tracks = store[id].tracks
            weights = tracks.present.sum(axis=0) * tracks.prominence
            for kind, weight in zip(tracks.category.tolist(), weights.tolist(), strict=True):
                found.setdefault(kind, []).append(weight)
            shown.append((tracks.category, [_seen(tracks, start, stop) for start, stop in stretches]))
        kinds = [
            Kind(kind, names.get(kind, f"object-{kind + 1}"), len(weights), sum(weights))
            for kind, weights in sorted(found.items())
        ]
        grouping = chosen_groups(kinds, config)
        self._group_of, self.notes = grouping.group_of, grouping.notes
        groups_in = [(self._groups(category), seen) for category, seen in shown]
        counts = [Counter(groups[there].tolist()) for groups, seen in groups_in for there in seen]
        for count in counts:
            count.pop(EMPTY, None)
        self._places = Places(shared_out(counts, config.max_objects))
        self.slots = len(self._places)
        kept = self._kept(groups_in)
        self.categories = [replace(row, tracks=kept[row.id]) for row in grouping.categories]
        self._crowded: dict[str, int] = {}  # video -> objects of an episode that there was no room for

    def stretch(
        self, tracks: Tracks, start: int, stop: int, framing: Framing, source: str
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Object columns, category (slots,) and instance (slots,) of an episode, EMPTY where it has no such object."""
        columns, groups, instance = self.objects(tracks, start, stop, framing)
        places = self._places.places(groups)
        fits = places != NO_ROOM
        if not fits.all():
            self._crowded[source] = max(self._crowded.get(source, 0), int((~fits).sum()))
        columns = {name: self._places.spread(values, places, np.nan) for name, values in columns.items()}
        tables = np.full((2, self.slots), EMPTY, np.int32)
        tables[:, places[fits]] = groups[fits], instance[fits]
        return columns, tables[0], tables[1]

    def objects(
        self, tracks: Tracks, start: int, stop: int, framing: Framing
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Object columns, category (n,) and instance (n,) of all targets in a stretch, the most prominent first."""
        groups = self._groups(tracks.category)
        seen = _seen(tracks, start, stop)
        seen = seen[groups[seen] != EMPTY]
        part, rows = tracks.select(seen), slice(start, stop)
        columns = {
            "boxes": framing.boxes(part.boxes[rows]),
            "oriented": framing.oriented(part.oriented[rows]),
            "mass": framing.points(part.mass[rows]),
        }
        return columns, groups[seen], part.instance

    def crowds(self) -> list[str]:
        """What to say about episodes that had more objects than places, once they were all handed out."""
        notes = [
            f"{source}: {count} of the least prominent objects of an episode are left out (max_objects)."
            for source, count in self._crowded.items()
        ]
        more = len(notes) - MOST_NOTES
        return [*notes[:MOST_NOTES], f"So it is with {more} more."] if more > 0 else notes

    def _groups(self, category: np.ndarray) -> np.ndarray:
        """The group of each track, (N,), EMPTY for those that are no targets."""
        return np.array([self._group_of.get(kind, EMPTY) for kind in category.tolist()], np.int32)

    def _kept(self, groups_in: list[tuple[np.ndarray, list[np.ndarray]]]) -> Counter[int]:
        """Tracks of each group that have a place in some episode."""
        kept: Counter[int] = Counter()
        for groups, seen in groups_in:
            placed = [there[self._places.places(groups[there]) != NO_ROOM] for there in seen]
            kept.update(groups[np.unique(np.concatenate(placed))].tolist() if placed else [])
        return kept


def _seen(tracks: Tracks, start: int, stop: int) -> np.ndarray:
    """The tracks that are in view somewhere in a stretch."""
    return np.flatnonzero(tracks.present[start:stop].any(axis=0))


def _distinct(names: list[str]) -> list[str]:
    """Names as they are, and where one comes again, with a number: categories of a store may be called alike."""
    found: list[str] = []
    for name in names:
        title, number = name, 1
        while title in found or (number > 1 and title in names):
            number += 1
            title = f"{name} {number}"
        found.append(title)
    return found


def _listed(kinds: list[Kind], most: int = 12) -> str:
    names = [kind.name for kind in kinds]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
