"""Edits made as the page makes them, without a page."""

from __future__ import annotations

import numpy as np
import zarr

from labeling.review.desk import Desk
from labeling.review.edits import EDIT
from labeling.store import Store
from labeling.tracks import Tracks


def edit(store: Store, *edits: dict, author: str = "") -> Desk:
    """Do edits to a store, one after another."""
    desk = Desk(store.path, author=author)
    for one in edits:
        desk.edit(EDIT.validate_python(one), desk.version)
    return desk


def same(one: Tracks, other: Tracks) -> None:
    """Bit for bit."""
    for name, array in one.arrays().items():
        assert array.dtype == getattr(other, name).dtype
        np.testing.assert_array_equal(array, getattr(other, name))


def everything(root: zarr.Group) -> dict[str, bytes]:
    """All arrays and attributes of a store but for the log, to be compared."""
    found = {"": repr(dict(root.attrs)).encode()}
    for path, member in root.members(max_depth=None):
        if not path.startswith("review"):
            found[path] = repr(dict(member.attrs)).encode()
            if isinstance(member, zarr.Array):
                found[path] += np.asarray(member[...]).tobytes()
    return found
