"""Typed reading and writing of zarr groups: one place that knows how arrays are chunked and what is inside a group."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr

SMALL = 4096  # bytes: smaller arrays are a block on the disk, compressed or not
ROWS = 4096  # length of a chunk along the first axis: a short video has one chunk an array


def load(group: zarr.Group, name: str) -> np.ndarray:
    """The whole array `name`."""
    return np.asarray(array_at(group, name)[:])


def array_at(group: zarr.Group, name: str) -> zarr.Array[Any]:
    """The array `name`, unread."""
    found = group[name]
    if not isinstance(found, zarr.Array):
        raise TypeError(f"{group.path}/{name} is not an array")
    return found


def group_at(group: zarr.Group, name: str) -> zarr.Group:
    """The group `name`."""
    found = group[name]
    if not isinstance(found, zarr.Group):
        raise TypeError(f"{group.path}/{name} is not a group")
    return found


def complete_group(group: zarr.Group, name: str) -> zarr.Group | None:
    """The group `name` if it is there and was written to its end."""
    found = group.get(name)
    return found if isinstance(found, zarr.Group) and found.attrs.get("complete") else None


def attributes(group: zarr.Group) -> dict[str, Any]:
    """All attributes of a group."""
    return dict(group.attrs)


def write_array(group: zarr.Group, name: str, array: np.ndarray) -> None:
    """Write a whole array."""
    chunks = (max(1, min(ROWS, array.shape[0])), *(max(1, n) for n in array.shape[1:]))
    group.create_array(
        name, data=array, chunks=chunks, fill_value=np.nan if array.dtype.kind == "f" else 0,
        compressors=None if array.nbytes < SMALL else "auto",
        # Neither is needed here, and each spares a look at the disk or at the data.
        overwrite=True, config={"write_empty_chunks": True},
    )  # fmt: skip


def update_attributes(group: zarr.Group, facts: dict[str, Any]) -> None:
    """Write attributes, if any of them is new: a run that changes nothing writes nothing."""
    known = dict(group.attrs)
    if any(known.get(name) != value for name, value in facts.items()):
        group.update_attributes(facts)
