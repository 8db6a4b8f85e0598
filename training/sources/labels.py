"""Which objects of a label store are targets, and in which group?

With many kinds of things the target would grow without end: the most prominent kinds keep a group of their own, up to
a limit, the rest shares one. `Labels` makes that choice for a whole store and hands out boxes, stretch by stretch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeling.store import Store
from labeling.tracks import UNASSIGNED, Tracks
from training.dataset_format import DatasetCategory, DatasetError
from training.manifest import PrepareConfig
from training.sources.framing import Framing

OTHER = "other"  # the group of all that has none of its own
NO_KIND = "unassigned"  # tracks that fitted no category


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
        own = [kind for name in dict.fromkeys(config.categories) for kind in kinds if kind.name == name]
        rest = [kind for kind in ranked if kind not in own]
        if OTHER not in config.categories:
            if rest:
                notes.append(f"Left out, for other categories were chosen: {', '.join(kind.name for kind in rest)}.")
            rest = []
    else:
        named = [kind for kind in ranked if kind.id != UNASSIGNED]
        own = named if len(ranked) <= config.max_categories else named[: config.max_categories - 1]
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


def groups_of_names(names: list[str], episodes: int, config: PrepareConfig) -> tuple[Grouping, np.ndarray, np.ndarray]:
    """Groups of objects that every episode has, where each name is a kind.

    Returns:
        The groups, which of the objects are kept (n,), and the group of each of those (n,).
    """
    kinds = list(dict.fromkeys(names))
    counts = [episodes * names.count(kind) for kind in kinds]
    grouping = chosen_groups([Kind(i, kind, counts[i], 1.0) for i, kind in enumerate(kinds)], config)
    group_of = [grouping.group_of.get(kinds.index(name), -1) for name in names]
    kept = np.array([index for index, group in enumerate(group_of) if group >= 0], int)[: config.max_objects]
    return grouping, kept, np.array([group_of[index] for index in kept], np.int32)


class Labels:
    """The targets in a label store."""

    def __init__(self, store: Store, ids: list[str], config: PrepareConfig) -> None:
        """Look through the labels of the videos `ids` once."""
        self.store, self._most = store, config.max_objects
        names = {row.id: row.name for row in store.categories} | {UNASSIGNED: NO_KIND}
        found: dict[int, list[float]] = {}
        kinds_in: list[list[int]] = []
        for id in ids:
            tracks = store[id].tracks
            weights = tracks.present.sum(axis=0) * tracks.prominence
            kinds_in.append(tracks.category.tolist())
            for kind, weight in zip(kinds_in[-1], weights.tolist(), strict=True):
                found.setdefault(kind, []).append(weight)
        kinds = [
            Kind(kind, names.get(kind, f"object-{kind + 1}"), len(weights), sum(weights))
            for kind, weights in sorted(found.items())
        ]
        self.grouping = chosen_groups(kinds, config)
        counts = [sum(kind in self.grouping.group_of for kind in video) for video in kinds_in]
        self.slots = min(self._most, max(counts, default=0))  # objects of an episode, at most
        self.crowded: dict[str, int] = {}  # video -> objects of an episode that there was no room for

    def stretch(
        self, tracks: Tracks, start: int, stop: int, framing: Framing, source: str
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Object columns, category (n,) and instance (n,) of frames `start` to `stop`, the most prominent first."""
        wanted = np.array([kind in self.grouping.group_of for kind in tracks.category.tolist()], bool)
        seen = np.flatnonzero(wanted & tracks.present[start:stop].any(axis=0))
        if len(seen) > self._most:
            self.crowded[source] = max(self.crowded.get(source, 0), len(seen) - self._most)
        part = tracks.select(seen[: self._most])
        rows = slice(start, stop)
        columns = {
            "boxes": framing.boxes(part.boxes[rows]),
            "oriented": framing.oriented(part.oriented[rows]),
            "mass": framing.points(part.mass[rows]),
        }
        groups = [self.grouping.group_of[kind] for kind in part.category.tolist()]
        return columns, np.array(groups, np.int32), part.instance


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
