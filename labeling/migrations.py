"""How does an older store become one of today?

By steps, each from one version of the layout to the next, in place; labels stay as they are, bit for bit. A step can
be killed at any moment and done again, and the number that the store goes by is written after it: until then readers
refuse the store, and afterwards nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import zarr

from labeling.locks import locked
from labeling.observations import ARRAYS, COLUMNS
from labeling.places import Place, absolute, make_room
from labeling.problems import storing
from labeling.schema import SCHEMA, schema_of
from labeling.store import open_root
from labeling.zarr_io import as_damage, attributes, group_at, holds, load, missing_chunks, write_array

MARK = "migrating"  # on a group whose new arrays are whole, and whose old ones are on their way out


@dataclass(frozen=True)
class Migrated:
    """What became of a store."""

    store: Place
    before: int  # versions of its layout
    after: int


def migrate(store: str | Place) -> Migrated:
    """Bring a store up to date; go on where a migration that was killed stopped.

    Raises:
        StoreError: It is no store, of a newer version, or damaged.
        RunError: Somebody else is writing to it, or it cannot be written.
    """
    path = absolute(store)
    schema_of(path, attributes(open_root(path, "r")))  # before a lock is taken, for that makes the folder
    with locked(path), storing(path):
        make_room(path)
        root = open_root(path, "a")
        before = schema_of(path, attributes(root))
        bring_up_to_date(root, path)
    return Migrated(path, before, SCHEMA)


def bring_up_to_date(root: zarr.Group, store: Place) -> None:
    """Take the steps that a store lacks; whoever calls this holds the store."""
    for version in range(schema_of(store, attributes(root)), SCHEMA):
        with as_damage(root):
            STEPS[version](root)
        root.update_attributes({"schema": version + 1})


def _from_1_to_2(root: zarr.Group) -> None:
    """What the tracker saw, a column an array, becomes an array a type; chunks of zeros, once left out, are written.

    Many stores that say 1 have all of this already. Scene cuts were not known, and still are not: `prepare` finds them
    where they are missing.
    """
    for home in ("stages", "videos", "vocabulary"):
        if holds(root, home):
            _write_out(group_at(root, home))
    _join_columns(root)


def _write_out(group: zarr.Group) -> None:
    """Have every chunk on disk: one that is missing is damage, then."""
    for _, array in group.arrays():
        if missing_chunks(array):
            whole = array.with_config({"write_empty_chunks": True})
            for row in range(0, array.shape[0], array.chunks[0]):
                whole[row : row + array.chunks[0]] = array[row : row + array.chunks[0]]
    for _, inner in group.groups():
        _write_out(inner)


def _join_columns(root: zarr.Group) -> None:
    for id in sorted(group_at(root, "stages").group_keys()) if holds(root, "stages") else ():
        group = group_at(root, f"stages/{id}")
        if group.attrs.get(MARK) != 2 and group.attrs.get("complete") is True and holds(group, "frame"):
            for array, (kind, names) in ARRAYS.items():
                columns = [load(group, name).astype(kind) for name in names]
                rows = len(columns[0])
                write_array(group, array, np.concatenate([column.reshape(rows, -1) for column in columns], axis=1))
            pairs = np.concatenate([load(group, "overlap_pair").astype(float), load(group, "overlap")], axis=1)
            write_array(group, "overlap.next", pairs)
            group.update_attributes({MARK: 2})
        if group.attrs.get(MARK) == 2:
            if holds(group, "overlap.next"):
                write_array(group, "overlap", load(group, "overlap.next"))
            for name in (*COLUMNS, "overlap_pair", "overlap.next"):
                del group[name]
            del group.attrs[MARK]


STEPS: dict[int, Callable[[zarr.Group], None]] = {1: _from_1_to_2}
