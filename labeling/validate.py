"""What is wrong with a label store?

Takes the path of a store and returns sentences, each naming the group or array, what is wrong with it and what to do;
none if the store is sound. Arrays are read in blocks, so memory does not grow with the videos, and damage (missing
arrays, broken chunks, unreadable metadata) is named like everything else instead of ending the check.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from labeling import places
from labeling.folder import inside
from labeling.observations import ARRAYS, array_width
from labeling.palette import is_colour
from labeling.problems import MAKE_A_STORE, StoreError, VideoError
from labeling.review.log import ReviewError, read_log
from labeling.schema import refuse_older
from labeling.soundness import BLOCK, Place, check_cells, check_masks
from labeling.tracks import UNASSIGNED
from labeling.zarr_io import attributes

AGAIN = "Run spectrabox label again."
REFIT = "Run spectrabox label with --refit."

ROOT = {"profile": str, "recipe": str, "videos": str, "categories": list, "failures": dict, "removed": list}
CATEGORY = {"id": int, "name": str, "colour": str, "size": int, "kept": bool}
VIDEO = {
    "source": str, "sha256": str, "fps": (int, float), "frames": int, "height": int, "width": int, "recipe": str,
    "dropped": list, "cuts": list,
}  # fmt: skip
VOCABULARY = {"prototypes": ("K", "D"), "radius": ("K",), "size": ("K",), "mean": ("D",), "axes": ("C", "D")}


def validate(store: str | places.Place) -> list[str]:
    """Everything that is wrong with the store at a place, one sentence each; empty if it is valid."""
    path, problems = places.place(store), list[str]()
    try:
        root = places.open_group(path)
    except places.StorageError:
        raise
    except Exception as error:  # not there, no zarr, or metadata that is broken in some way
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return [f"{path} is not a label store ({reason}). {MAKE_A_STORE}"]
    try:
        refuse_older(path, attributes(root))
    except StoreError as error:
        return [str(error)]
    place = Place(str(path), root, problems)
    _check_attributes(place, {"removed": [], **root.attrs}, ROOT, "", AGAIN)  # the first versions did not mark any
    categories = _check_categories(place, root.attrs.get("categories"))
    _check_vocabulary(root, problems)
    _check_review(root, problems)
    for home in ("stages", "videos"):
        for id in places.folders_in(path / home):  # zarr's own listing ends at the first broken member
            found = _open(root, f"{home}/{id}", problems)
            if found is None:
                continue
            if not found.group.attrs.get("complete"):
                found.add("incomplete, because a run was interrupted", AGAIN)
            elif home == "stages":
                _check_stage(found)
            else:
                _check_video(found, categories)
    return problems


def _open(root: zarr.Group, name: str, problems: list[str]) -> Place | None:
    try:
        group = root[name]
    except places.StorageError:
        raise
    except Exception as error:  # broken metadata raises whatever its parser does
        problems.append(
            f"{name}: cannot be opened ({type(error).__name__}: {error}). Delete {name} and {AGAIN.lower()}"
        )
        return None
    return Place(name, group, problems) if isinstance(group, zarr.Group) else None


def _check_attributes(place: Place, found: Mapping[str, Any], kinds: dict[str, Any], of: str, remedy: str = "") -> bool:
    """Whether `found` has attributes of all `kinds`; `of` says of what, if not of the group itself."""
    sound = True
    for name, kind in kinds.items():
        value = found.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            what = "is missing" if value is None else f"has the value {str(value)[:60]!r}"
            place.add(f"{of}the attribute {name} {what}", remedy)
            sound = False
    return sound


def _check_categories(place: Place, table: Any) -> set[int]:
    rows = [row for row in table if isinstance(row, dict)] if isinstance(table, list) else []
    ids = [row["id"] for row in rows if _check_attributes(place, row, CATEGORY, "in the table of categories, ", AGAIN)]
    for row in rows:
        if isinstance(row.get("colour"), str) and not is_colour(row["colour"]):
            place.add(f"category {row.get('id')} has the colour {row['colour'][:60]!r}, which is none", AGAIN)
    if len(ids) != len(set(ids)):
        place.add("the table of categories lists an id twice", AGAIN)
    return {*ids, UNASSIGNED}


def _check_vocabulary(root: zarr.Group, problems: list[str]) -> None:
    place = _open(root, "vocabulary", problems) if Place("", root, problems).has("vocabulary") else None
    if place is None:
        return
    if not place.group.attrs.get("complete"):
        place.add("incomplete, because a run was interrupted", AGAIN)
        return
    sizes: dict[str, int] = {}
    for name, axes in VOCABULARY.items():
        array = place.array(name, shape=tuple(sizes.get(axis, axis) for axis in axes))
        if array is None or (values := place.read(array)) is None:
            continue
        sizes |= dict(zip(axes, values.shape, strict=True))
        if not np.isfinite(values).all():
            place.add(f"{name} holds values that are not numbers", REFIT)


def _check_review(root: zarr.Group, problems: list[str]) -> None:
    try:
        read_log(root)
    except ReviewError as error:
        problems.append(str(error))


def _check_stage(place: Place) -> None:
    """What the tracker saw: columns of one length, and every chunk readable."""
    lengths: dict[int, list[str]] = {}
    for name, (dtype, _) in ARRAYS.items():
        if (array := place.array(name, dtype, ("M", array_width(name)))) is not None:
            lengths.setdefault(array.shape[0], []).append(name)
            _read_through(place, array)
    for name in ("counts", "time", "embedding", "embedding_track", "overlap"):
        if (array := place.array(name)) is not None:
            _read_through(place, array)
    if len(lengths) > 1:
        words = "; ".join(f"{', '.join(names)}: {length}" for length, names in sorted(lengths.items()))
        place.add(f"columns differ in length ({words})")


def _read_through(place: Place, array: Any) -> None:
    for begin in range(0, array.shape[0], 16 * BLOCK):
        if place.read(array, begin, begin + 16 * BLOCK) is None:
            return


def _check_video(place: Place, categories: set[int]) -> None:
    facts: dict[str, Any] = dict(place.group.attrs)
    if not _check_attributes(place, {"cuts": [], **facts}, VIDEO, ""):  # a store of version 1 does not know cuts
        return
    try:
        inside(Path(), facts["source"])
    except VideoError:
        place.add(f"the attribute source leads out of the folder of the videos: {facts['source']!r}")
    kept = _check_tracks(place, facts, categories)
    dropped: np.ndarray | None = np.zeros(0, np.int32)
    if facts["dropped"] or place.has("dropped"):
        inner = place.inner("dropped")
        if inner is None:
            return
        dropped = _check_tracks(inner, facts, categories)
    listed = sorted(str(row.get("instance")) for row in facts["dropped"] if isinstance(row, dict))
    if dropped is not None and listed != sorted(map(str, dropped.tolist())):
        place.add("the attribute dropped and the array dropped/instance list different tracks")
    if kept is not None and dropped is not None:
        for number, times in zip(*np.unique(np.concatenate([kept, dropped]), return_counts=True), strict=True):
            if times > 1:
                place.add(f"instance {number} is there {times} times")


def _check_tracks(place: Place, facts: dict[str, Any], categories: set[int]) -> np.ndarray | None:
    """Check kept or dropped tracks; return the instance numbers if they can be read."""
    frames, size = facts["frames"], (facts["height"], facts["width"])
    boxes = place.array("boxes", "float32", (frames, "N", 4))
    count: int | str = boxes.shape[1] if boxes is not None else "N"
    arrays = {
        "boxes": boxes, "oriented": place.array("oriented", "float32", (frames, count, 5)),
        "mass": place.array("mass", "float32", (frames, count, 2)),
        "score": place.array("score", "float32", (frames, count)),
    }  # fmt: skip
    flat = {"time": ("float64", frames), "category": ("int32", count), "instance": ("int32", count)}
    flat["prominence"] = ("float32", count)
    values: dict[str, np.ndarray] = {}
    for name, (dtype, length) in flat.items():
        array = place.array(name, dtype, (length,))
        if array is not None and (rows := place.read(array)) is not None:
            values[name] = rows
    for kind in sorted(set(values.get("category", np.zeros(0)).tolist()) - categories):
        place.add(f"category {kind} is not in the store's table of categories", AGAIN)
    worth, time = values.get("prominence", np.zeros(0)), values.get("time", np.zeros(0))
    if not ((worth >= 0) & (worth <= 1)).all():
        place.add("prominence leaves 0 to 1")
    elif (np.diff(worth) > 0).any():
        place.add("tracks are not sorted by prominence, highest first")
    if not (np.isfinite(time).all() and (np.diff(time) >= 0).all()):
        place.add("time does not go forward")
    instance = values.get("instance")
    numbers = instance if instance is not None else np.zeros(0, np.int32)
    present = check_cells(place, arrays, numbers, size)
    if isinstance(count, int) and place.has("masks") and (masks := place.inner("masks")) is not None:
        check_masks(masks, numbers, (frames, count), present)
    return instance
