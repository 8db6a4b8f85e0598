"""Typed reading and writing of zarr groups: one place that knows how arrays are chunked and what is inside a group.

Files may be damaged, or made by someone who means harm: whatever zarr and its codecs raise then becomes a StoreError
that names the array, and an array that claims to be much larger than what there is of it is not read.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import zarr
from zarr.core.sync import sync

from labeling.problems import RunError, StoreError, VideoError, in_short

SMALL = 4096  # bytes: smaller arrays are a block on the disk, compressed or not
ROWS = 4096  # length of a chunk along the first axis: a short video has one chunk an array
LARGE = 256 << 20  # bytes: arrays beyond are read only if all of their chunks are there
LARGEST_CHUNK = 1 << 30  # bytes; ours have a few megabytes
BROKEN = (None, errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP)  # what broken stores make of file names
REMEDY = "`spectrabox validate` says what to do."


def load(group: zarr.Group, name: str) -> np.ndarray:
    """The whole array `name`."""
    return rows_of(array_at(group, name))


def rows_of(array: zarr.Array[Any], some: slice = slice(None)) -> np.ndarray:
    """Some rows of an array; StoreError if they cannot be read."""
    with as_damage(array):
        return np.asarray(array[some])


def array_at(group: zarr.Group, name: str) -> zarr.Array[Any]:
    """The array `name`, unread; StoreError if there is none."""
    with as_damage(group, name):
        found = group[name]
        if not isinstance(found, zarr.Array):
            raise TypeError("it is not an array")
        _refuse_claims(found)
    return found


def group_at(group: zarr.Group, name: str) -> zarr.Group:
    """The group `name`; StoreError if there is none."""
    with as_damage(group, name):
        found = group[name]
        if not isinstance(found, zarr.Group):
            raise TypeError("it is not a group")
    return found


def holds(group: zarr.Group, name: str) -> bool:
    """Whether there is something called `name` in a group; StoreError if that cannot be told."""
    with as_damage(group, name):
        return name in group


def complete_group(group: zarr.Group, name: str) -> zarr.Group | None:
    """The group `name` if it is there and was written to its end; what cannot be opened was not."""
    try:
        with as_damage(group, name):
            found = group.get(name)
    except StoreError:
        return None
    return found if isinstance(found, zarr.Group) and found.attrs.get("complete") is True else None


@contextmanager
def as_damage(holder: zarr.Group | zarr.Array[Any], name: str = "") -> Iterator[None]:
    """Raise StoreError, which names what is read, where broken files make zarr or its codecs fail."""
    try:
        yield
    except (RunError, StoreError, VideoError):
        raise
    except Exception as error:  # parsers and codecs raise whatever they like
        if isinstance(error, OSError) and error.errno not in BROKEN:
            raise  # the disk may be to blame, and the file be fine
        reason = "it is missing" if isinstance(error, KeyError) else in_short(error)
        where = "/".join(part for part in (holder.path, name) if part)
        raise StoreError(f"{_home(holder)}: {where or 'its root'} is damaged ({reason}). {REMEDY}") from error


def _home(holder: zarr.Group | zarr.Array[Any]) -> str:
    return str(holder.store).removeprefix("file://")


def _refuse_claims(array: zarr.Array[Any]) -> None:
    """A few bytes of metadata can claim terabytes; what is not there would be filled up in memory."""
    chunk = array.shards or array.chunks
    if int(np.prod(chunk, dtype=float)) * array.dtype.itemsize > LARGEST_CHUNK:
        raise ValueError(f"its chunks of {chunk} are too large")
    if array.nbytes > LARGE and missing_chunks(array):
        raise ValueError(f"it claims {array.nbytes / 1e9:.1f} GB that are not there")


def missing_chunks(array: zarr.Array[Any]) -> int:
    """How many chunks of an array are not there, counted by its files, of which each holds a chunk or a shard.

    zarr's own count takes time by the square of their number: many seconds for tens of thousands.
    """
    wanted = math.prod(
        -(-length // size) for length, size in zip(array.shape, array.shards or array.chunks, strict=True)
    )

    async def count() -> int:
        here = array.store_path
        files = here.store.list_prefix(f"{here.path}/" if here.path else "")
        return sum([1 async for file in files if not file.endswith("zarr.json")])

    return max(0, wanted - sync(count()))


def fresh_group(group: zarr.Group, name: str) -> zarr.Group:
    """An empty group in place of what was there."""
    _retire(group, name)
    return group.create_group(name, overwrite=True)


def remove_group(group: zarr.Group, name: str) -> None:
    """Remove a group, if it is there."""
    _retire(group, name)
    if name in group:
        del group[name]


def _retire(group: zarr.Group, name: str) -> None:
    """Files go one by one, and a run may be killed in between: what is on its way out must not count as complete."""
    if (old := complete_group(group, name)) is not None:
        old.update_attributes({"complete": False})


def attributes(group: zarr.Group) -> dict[str, Any]:
    """All attributes of a group."""
    return dict(group.attrs)


def write_array(group: zarr.Group, name: str, array: np.ndarray) -> None:
    """Write a whole array."""
    write_rows(group, name, array, 0, len(array))


def write_rows(group: zarr.Group, name: str, rows: np.ndarray, begin: int, count: int) -> None:
    """Write some rows of an array of `count`, which is made with its first ones."""
    if not begin:
        chunks = (max(1, min(ROWS, count)), *(max(1, n) for n in rows.shape[1:]))
        group.create_array(
            name, shape=(count, *rows.shape[1:]), dtype=rows.dtype, chunks=chunks,
            fill_value=np.nan if rows.dtype.kind == "f" else 0,
            compressors=None if rows[:1].nbytes * count < SMALL else "auto",
            overwrite=True,  # spares a look at the disk
        )  # fmt: skip
    # What is empty is written like all else: then a chunk that is missing was lost.
    array_at(group, name).with_config({"write_empty_chunks": True})[begin : begin + len(rows)] = rows


def update_attributes(group: zarr.Group, facts: dict[str, Any]) -> None:
    """Write attributes, if any of them is new: a run that changes nothing writes nothing."""
    known = dict(group.attrs)
    if any(known.get(name) != value for name, value in facts.items()):
        group.update_attributes(facts)
