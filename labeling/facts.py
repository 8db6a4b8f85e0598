"""Can what a store says be true?

A store may be damaged, or come from someone who means harm. What it says about a video and about categories is checked
here when it is read, once, so that nobody else has to wonder; StoreError names the entry that cannot be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import zarr

from labeling.tracks import Tracks
from labeling.zarr_io import as_damage, attributes

Texts = TypeVar("Texts", str, list[str], dict[str, str])

LONGEST_SIDE = 1 << 16  # pixels
LONGEST_TEXT = 1 << 12  # signs: more than a path may have
FARTHEST = 1e7  # pixels from the frame; a box beyond is no box


def whole(least: int, most: int = 1 << 40) -> Callable[[Any], bool]:
    """Whether something is a whole number in a range."""
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def text(value: Any) -> bool:
    """Whether something is text that can be written: JSON knows halves of signs, files do not."""
    return isinstance(value, str) and len(value) <= LONGEST_TEXT and value == value.encode(errors="ignore").decode()


def number(value: Any) -> bool:
    """Whether something is a number that is neither infinite nor beyond use."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9 and math.isfinite(value)


def _each(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _reason(row: Any) -> bool:
    return isinstance(row, dict) and whole(0)(row.get("instance")) and text(row.get("reason"))


VIDEO: Mapping[str, Callable[[Any], bool]] = {
    "source": text, "sha256": text, "recipe": text, "frames": whole(0), "height": whole(1, LONGEST_SIDE),
    "width": whole(1, LONGEST_SIDE), "fps": number, "dropped": _each(_reason),
}  # fmt: skip
STAGE: Mapping[str, Callable[[Any], bool]] = {
    **{name: check for name, check in VIDEO.items() if name != "dropped"},
    "scale": lambda value: number(value) and value > 0,
    "mask_size": lambda value: _each(whole(1, LONGEST_SIDE))(value) and len(value) == 2,
}
CATEGORY: Mapping[str, Callable[[Any], bool]] = {
    "id": whole(0, 1 << 31), "name": text, "colour": text, "size": whole(0), "kept": lambda value: type(value) is bool,
}  # fmt: skip


def video_facts(group: zarr.Group) -> dict[str, Any]:
    """What a store says about one video, if that can be true."""
    return _facts(group, VIDEO)


def stage_facts(group: zarr.Group) -> dict[str, Any]:
    """What a store says about one tracked video, if that can be true."""
    return _facts(group, STAGE)


def mask_size(masks: zarr.Group) -> tuple[int, int]:
    """Height and width of stored masks, if there can be such masks."""
    size: Any = attributes(masks).get("size")
    with as_damage(masks):
        if not _each(whole(1, LONGEST_SIDE))(size) or len(size) != 2:
            raise ValueError(f"the attribute size is {str(size)[:40]!r}")
    return size[0], size[1]


def category_rows(root: zarr.Group) -> list[dict[str, Any]]:
    """The store's table of categories, if that can be true."""
    with as_damage(root):
        rows = attributes(root).get("categories", [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("the attribute categories is not a table")
        for row in rows:
            _refuse(row, CATEGORY)
        return [{name: row[name] for name in CATEGORY} for row in rows]


def weight_rows(root: zarr.Group) -> list[dict[str, Any]]:
    """The weights that labels were made with, if that can be true."""
    with as_damage(root):
        rows = attributes(root).get("weights", [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"the attribute weights is {str(rows)[:40]!r}")
        return rows


def texts(root: zarr.Group, name: str, default: Texts) -> Texts:
    """A root attribute of the kind of `default`: text, a list of texts, or texts by name."""
    value: Any = attributes(root).get(name, default)
    with as_damage(root):
        parts = value if isinstance(value, list) else [*value, *value.values()] if isinstance(value, dict) else [value]
        if type(value) is not type(default) or not all(map(text, parts)):
            raise ValueError(f"the attribute {name} is {str(value)[:40]!r}")
    return value


def refuse_nonsense(tracks: Tracks) -> None:
    """ValueError if arrays hold what no video can show; NaN stands for absence and is fine."""
    kinds = {name: "i" if name in ("category", "instance") else "f" for name in tracks.arrays()}
    for name, array in tracks.arrays().items():
        if array.dtype.kind != kinds[name]:
            raise ValueError(f"{name} has the type {array.dtype}")
        if name in ("time", "prominence") and not np.isfinite(array).all():
            raise ValueError(f"{name} holds values that are not numbers")
        if kinds[name] == "f" and array.size and float(np.nanmax(np.abs(array), initial=0)) > FARTHEST:
            raise ValueError(f"{name} holds values out of range")
    if (np.isfinite(tracks.boxes).any(axis=2) != np.isfinite(tracks.boxes).all(axis=2)).any():
        raise ValueError("boxes holds halves of boxes")


def _facts(group: zarr.Group, wanted: Mapping[str, Callable[[Any], bool]]) -> dict[str, Any]:
    known = attributes(group)
    with as_damage(group):
        _refuse(known, wanted)
        if "cuts" in known and not _each(whole(1, known["frames"]))(known["cuts"]):  # version 1 did not know them
            raise ValueError("the attribute cuts is not a list of frames")
    return known


def _refuse(known: Mapping[str, Any], wanted: Mapping[str, Callable[[Any], bool]]) -> None:
    for name, check in wanted.items():
        if not check(known.get(name)):
            what = f"is {str(known[name])[:40]!r}" if name in known else "is missing"
            raise ValueError(f"the attribute {name} {what}")
