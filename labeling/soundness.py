"""Are the arrays of a group sound?

The tools of `validate.py`: `Place` reads from one group of a store and collects what is wrong there, in sentences;
`check_cells` and `check_masks` look at the values of one video's tracks, a block of frames at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import zarr

from labeling.places import StorageError
from labeling.problems import in_short
from labeling.zarr_io import missing_chunks

BLOCK = 4096  # frames (or rows) that are looked at together
MASK_BLOCK = 512  # frames whose masks are looked at together
ROUNDING = 1e-3  # float32 coordinates of large frames are no better than this


class Place:
    """A group of the store, and the list that its problems go to."""

    def __init__(self, name: str, group: zarr.Group, problems: list[str]) -> None:
        self.name, self.group, self.problems = name, group, problems
        self.remedy = f"Delete {'/'.join(name.split('/')[:2])} and run spectrabox label again."

    def add(self, problem: str, remedy: str = "") -> None:
        """Note a problem of this group."""
        self.problems.append(f"{self.name}: {problem}. {remedy or self.remedy}")

    def has(self, name: str) -> bool:
        """Whether there is something called `name`, be it readable or not."""
        try:
            return name in self.group
        except (KeyError, TypeError, ValueError):  # there is, but its metadata is broken: whoever opens it gets to know
            return True

    def member(self, name: str) -> Any:
        """The group or array called `name`; None, with a note, if it is missing or cannot be opened."""
        try:
            found = self.group.get(name)
        except StorageError:
            raise
        except Exception as error:  # broken metadata raises whatever its parser does
            self.add(f"{name} cannot be opened ({in_short(error)})")
            return None
        if found is None:
            self.add(f"{name} is missing")
        return found

    def inner(self, name: str) -> Place | None:
        """The group called `name` as a place; None, with a note, if there is none."""
        found = self.member(name)
        if isinstance(found, zarr.Group):
            return Place(f"{self.name}/{name}", found, self.problems)
        if found is not None:
            self.add(f"{name} is not a group")
        return None

    def array(self, name: str, dtype: str = "", shape: tuple[int | str, ...] = ()) -> Any:
        """The array called `name`; None, with a note, unless it has this type and shape (letters fit any size)."""
        found = self.member(name)
        if found is None:
            return None
        if not isinstance(found, zarr.Array):
            self.add(f"{name} is not an array")
        elif shape and not _fits(found.shape, shape):
            self.add(f"{name} has shape {found.shape}, expected ({', '.join(map(str, shape))})")
        elif dtype and str(found.dtype) != dtype:
            self.add(f"{name} has type {found.dtype}, expected {dtype}")
        elif missing := self._missing_chunks(found):
            self.add(f"{name} lacks {missing}")
        else:
            return found
        return None

    def _missing_chunks(self, array: Any) -> str:
        """How many chunks are missing; zarr would read them as if there were nothing, and say nothing."""
        if not all(array.chunks):
            return "chunks of any size"
        missing = missing_chunks(array)
        return f"{missing} of {array.nchunks} chunks" if missing else ""

    def read(self, array: Any, begin: int = 0, end: int | None = None) -> np.ndarray | None:
        """Rows `begin` to `end` of an array; None, with a note, if they cannot be read."""
        try:
            return np.asarray(array[begin:end])
        except StorageError:
            raise
        except Exception as error:  # codecs raise what they like for broken bytes
            self.add(f"{array.basename} cannot be read ({in_short(error)})")
            return None


class Cells:
    """Counts faulty cells (frame, track) by fault, and knows the first of each."""

    def __init__(self, instance: np.ndarray) -> None:
        self._instance = instance
        self._faults: dict[str, tuple[int, str]] = {}

    def mark(self, fault: str, bad: np.ndarray, begin: int) -> None:
        """Take note of `bad` (frames, N) bool, whose first row is the frame `begin`."""
        if bad.any():
            frame, track = np.argwhere(bad)[0]
            who = self._instance[track] if track < len(self._instance) else f"at index {track}"
            count, first = self._faults.get(fault, (0, f"frame {begin + frame}, instance {who}"))
            self._faults[fault] = count + int(bad.sum()), first

    def tell(self, place: Place) -> None:
        """Note one problem per fault."""
        for fault, (count, first) in self._faults.items():
            place.add(f"{fault} ({'' if count == 1 else f'{count} times, first at '}{first})")


def check_cells(place: Place, arrays: dict[str, Any], instance: np.ndarray, size: tuple[int, int]) -> np.ndarray | None:
    """Check the values of boxes, oriented, mass and score for frames of `size` (height, width).

    Returns:
        Where there are boxes, (T, N) bool, or None if that cannot be read.
    """
    cells, present = Cells(instance), []
    readable = {name: array for name, array in arrays.items() if array is not None}
    for begin in range(0, max((array.shape[0] for array in readable.values()), default=0), BLOCK):
        block: dict[str, np.ndarray] = {}
        for name in list(readable):
            values = place.read(readable[name], begin, begin + BLOCK)
            if values is None:
                del readable[name]
            else:
                block[name] = values
        for fault, bad in _faults(block, size):
            cells.mark(fault, bad, begin)
        if "boxes" in block:
            present.append(~np.isnan(block["boxes"]).all(2))
    cells.tell(place)
    if "boxes" not in readable or not present:
        return None
    seen = np.concatenate(present)
    for number in instance[~seen.any(0)] if seen.shape[1] == len(instance) else ():
        place.add(f"instance {number} is on no frame")
    return seen


def _faults(block: dict[str, np.ndarray], size: tuple[int, int]) -> Iterator[tuple[str, np.ndarray]]:
    """Faults and where they are, (frames, N) bool; comparisons with NaN are never true."""
    height, width = size
    if "boxes" in block:
        there = ~np.isnan(block["boxes"]).all(2)
        for name, values in block.items():
            finite, parts = np.isfinite(values), tuple(range(2, values.ndim))
            yield f"{name} is not a number where there is a box", there & ~finite.all(axis=parts)
            yield f"{name} has values where there is no box", ~there & finite.any(axis=parts)
        x1, y1, x2, y2 = np.moveaxis(block["boxes"].astype(np.float64), 2, 0)
        yield "boxes: x2 is not beyond x1", x2 <= x1
        yield "boxes: y2 is not beyond y1", y2 <= y1
        slack = 1 + 1e-3 * max(size)  # large videos are labeled at a smaller size, whose edge is rounded
        outside = (x1 < -slack) | (y1 < -slack) | (x2 > width + slack) | (y2 > height + slack)
        yield f"boxes: a box leaves the frame of {width} x {height}", outside
    if "oriented" in block:
        w, h, theta = np.moveaxis(block["oriented"][..., 2:].astype(np.float64), 2, 0)
        yield "oriented: h is larger than w", h > w + ROUNDING * np.maximum(1, w)
        yield "oriented: w or h is negative", (w < 0) | (h < 0)
        yield "oriented: theta leaves [-pi/2, pi/2)", np.abs(theta) > np.pi / 2 + 1e-6
    if "score" in block:
        yield "score leaves 0 to 1", (block["score"] < 0) | (block["score"] > 1)


def check_masks(place: Place, instance: np.ndarray, shape: tuple[int, int], present: np.ndarray | None) -> None:
    """Check that offsets lead through counts and that runs fill the frame; `shape` is frames and tracks."""
    frames, count = shape
    counts, offsets = place.array("counts", "uint32", ("R",)), place.array("offsets", "int64", (frames * count + 1,))
    size = place.group.attrs.get("size")
    if not (isinstance(size, list) and len(size) == 2 and all(isinstance(n, int) and n > 0 for n in size)):
        place.add(f"the attribute size is {size!r}, expected [height, width]")
        return
    if counts is None or offsets is None:
        return
    cells, last, full = Cells(instance), 0, int(size[0]) * int(size[1])
    for begin in range(0, frames if count else 0, MASK_BLOCK):
        end = min(begin + MASK_BLOCK, frames)
        block = place.read(offsets, begin * count, end * count + 1)
        if block is None:
            return
        if block[0] != last or (np.diff(block) < 0).any() or block[-1] > counts.shape[0]:
            place.add(f"offsets goes backwards or beyond counts near frame {begin}")
            return
        last = int(block[-1])
        runs = place.read(counts, int(block[0]), last)
        if runs is None:
            return
        filled = np.diff(block).reshape(-1, count) > 0
        ends = np.concatenate([[0], np.cumsum(runs, dtype=np.int64)])[block - block[0]]
        wrong = filled & (np.diff(ends).reshape(-1, count) != full)
        cells.mark(f"counts: run lengths do not add up to {size[0]} x {size[1]}", wrong, begin)
        if present is not None:
            cells.mark("masks and boxes disagree on whether the object is there", filled != present[begin:end], begin)
    if last != counts.shape[0]:
        place.add(f"offsets ends at {last}, but counts has {counts.shape[0]} entries")
    cells.tell(place)


def _fits(found: tuple[int, ...], wanted: tuple[int | str, ...]) -> bool:
    return len(found) == len(wanted) and all(isinstance(w, str) or n == w for n, w in zip(found, wanted, strict=True))
