"""How does a vocabulary lie in a store?

As arrays of one group, which is replaced in a way that any kill survives: ids of categories are known from there alone.
Whether ids mean what they meant when somebody used them, as a reviewer does, is told by the vocabulary's lineage.
"""

from __future__ import annotations

import hashlib

import numpy as np
import zarr

from labeling.recipe import digest
from labeling.vocabulary import Vocabulary
from labeling.zarr_io import as_damage, complete_group, fresh_group, holds, load, remove_group, write_array

HOME = "vocabulary"
NEXT = "vocabulary.next"  # what was found anew, while it takes the place of the old
ARRAYS = ("prototypes", "radius", "size", "mean", "axes")


def read_vocabulary(root: zarr.Group, home: str = HOME) -> Vocabulary | None:
    """The vocabulary of a store; None if it has none, StoreError if it is damaged."""
    group = complete_group(root, home)
    if group is None:
        return None
    with as_damage(group):
        return Vocabulary(**{name: load(group, name) for name in ARRAYS}, note=str(group.attrs.get("note", "")))


def lineage(root: zarr.Group, home: str = HOME) -> str:
    """What tells the ids of a store from those of categories that began anew; a refit keeps both."""
    group = complete_group(root, home)
    if group is None:
        return ""
    return str(group.attrs.get("lineage", "")) or _own_lineage(load(group, "prototypes"), load(group, "radius"))


def _own_lineage(*arrays: np.ndarray) -> str:
    return digest(vocabulary=[hashlib.sha256(array.tobytes()).hexdigest() for array in arrays])


def write_vocabulary(root: zarr.Group, vocabulary: Vocabulary, recipe: str, ids_of: str = "") -> None:
    """Replace the store's vocabulary; the old one goes only when the new one is whole beside it.

    `ids_of` is the lineage of an earlier one whose ids it has.
    """
    facts = {"note": vocabulary.note, "recipe": recipe}
    if ids_of not in ("", _own_lineage(vocabulary.prototypes, vocabulary.radius)):
        facts["lineage"] = ids_of
    for home in [HOME] if complete_group(root, HOME) is None else [NEXT, HOME]:
        group = fresh_group(root, home)
        for name in ARRAYS:
            write_array(group, name, getattr(vocabulary, name))
        group.update_attributes({**facts, "complete": True})
    remove_group(root, NEXT)


def finish_vocabulary(root: zarr.Group) -> None:
    """Have in its place what a run that was killed had found anew."""
    if holds(root, NEXT):
        if (found := read_vocabulary(root, NEXT)) is not None:
            recipe, of_old = str(root[NEXT].attrs["recipe"]), lineage(root, NEXT)
            remove_group(root, HOME)
            write_vocabulary(root, found, recipe, of_old)
        remove_group(root, NEXT)
