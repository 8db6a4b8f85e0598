"""What does a whole store hold, in figures?

One look at each labeled video, from which the tables of the store and the summary of a run are made: a store may have a
million of them, and every further look would be paid a million times.
"""

from __future__ import annotations

from dataclasses import dataclass

import zarr

from labeling.facts import video_facts
from labeling.store import Store
from labeling.zarr_io import as_damage, group_at, load


@dataclass(frozen=True)
class Labeled:
    """The labels of one video, in figures."""

    source: str  # path below the folder that was labeled
    frames: int
    kinds: tuple[int, ...]  # the category of each kept track
    dropped: int
    recipe: str = ""  # of all that decides them

    @property
    def tracks(self) -> int:
        """How many tracks are kept."""
        return len(self.kinds)

    @property
    def categories(self) -> int:
        """Of how many kinds they are."""
        return len(set(self.kinds))


def tally(store: Store) -> dict[str, Labeled]:
    """The figures of all labeled videos by their ids, which are sorted; StoreError if one is damaged."""
    with as_damage(store.root, "videos"):
        groups = sorted(group_at(store.root, "videos").groups())
    return {id: _figures(group) for id, group in groups if group.attrs.get("complete") is True}


def _figures(group: zarr.Group) -> Labeled:
    facts = video_facts(group)
    with as_damage(group, "category"):
        kinds = tuple(int(kind) for kind in load(group, "category"))
    return Labeled(facts["source"], facts["frames"], kinds, len(facts["dropped"]), str(group.attrs.get("recipe", "")))
