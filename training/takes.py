"""What is a stretch of frames with all that is known of them, and can it be right?

A `Take` is what sources hand to the writer of a dataset; `checked` makes the columns of it that are written, or says
what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from training.dataset_format import MAY_NOT_APPLY, OBJECT_COLUMNS, DatasetError

OUTSIDE = 0.01  # of the frame that a box may stand out: half a pixel of a small video. It is cut off.


@dataclass(frozen=True)
class Take:
    """A stretch of frames that belong together: no scene cut, no reset."""

    source: str  # file or simulator, as the user knows it
    start: int  # its first frame there
    pictures: Iterable[np.ndarray]  # blocks (n, H, W, 3) uint8, in the size of the dataset
    columns: dict[str, np.ndarray]  # name -> (T, ...); objects (T, n, ...) with NaN where absent
    category: np.ndarray  # (n,)
    instance: np.ndarray  # (n,)


@dataclass(frozen=True)
class Layout:
    """What all takes of a dataset have in common."""

    size: tuple[int, int]  # height, width
    actions: int  # numbers in an action
    objects: int  # slots for objects, at most; those that no take uses are cut off in the end
    extra: dict[str, int] = field(default_factory=dict)  # further columns, and numbers a frame or an object has


def checked(take: Take, layout: Layout) -> dict[str, np.ndarray]:
    """The columns of a take as they are written: padded, 0 where absent; DatasetError if they cannot be right."""
    boxes = np.asarray(take.columns["boxes"], np.float32)
    length, count = boxes.shape[:2]
    if not length:
        raise DatasetError(f"{take.source} has an empty episode at frame {take.start}.")
    if count > layout.objects:
        raise DatasetError(f"{take.source} has {count} objects, the dataset room for {layout.objects}.")
    present = np.asarray(np.isfinite(boxes).all(axis=-1))
    _refuse_boxes_outside(take, boxes, present)
    low, high = boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2
    low, high = low.clip(0, 1), high.clip(0, 1)
    columns: dict[str, np.ndarray] = {
        "boxes": np.concatenate([(low + high) / 2, high - low], axis=-1),
        "present": present,
    }
    for name, rows in take.columns.items():
        if len(rows) != length:
            raise DatasetError(f"{take.source} has {len(rows)} rows of {name} for {length} frames.")
        if name == "boxes":
            continue
        _refuse_nonsense(take, name, rows, present)
        columns[name] = np.asarray(rows, np.float32)
    for name in ("present", *OBJECT_COLUMNS):
        if name in columns:
            columns[name] = _slotted(columns[name], present, layout.objects)
    return columns


def _refuse_nonsense(take: Take, name: str, rows: np.ndarray, present: np.ndarray) -> None:
    """DatasetError where numbers of a column cannot be right; what stands for absent objects does not count."""
    ours = name in OBJECT_COLUMNS
    if ours and rows.shape[1:] != (present.shape[1], OBJECT_COLUMNS[name]):
        raise DatasetError(
            f"{take.source}: {name} has the shape {rows.shape}, {OBJECT_COLUMNS[name]} numbers for each of "
            f"{present.shape[1]} objects are needed."
        )
    counts = present[..., None] if ours else np.True_
    bad = np.isinf(rows) if name in MAY_NOT_APPLY else ~np.isfinite(rows)
    found = [(bad & counts, "that are NaN or infinite")]
    if name == "depth":
        found.append(((rows <= 0) & counts, "of 0 or less: distances from the camera are needed"))
        falls = np.diff(rows, axis=-1, prepend=-np.inf) < 0
        found.append((falls & counts, "that are not percentiles 5 25 50 75 95: they must not fall"))
    for wrong, words in found:
        if wrong.any():
            frame = take.start + int(np.argwhere(wrong)[0, 0])
            raise DatasetError(f"{take.source} has {name} {words}, first at frame {frame}. Repair or remove them.")


def _refuse_boxes_outside(take: Take, boxes: np.ndarray, present: np.ndarray) -> None:
    edges = np.concatenate([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], axis=-1)
    outside = ((edges < -OUTSIDE) | (edges > 1 + OUTSIDE)).any(axis=-1) | (boxes[..., 2:] < 0).any(axis=-1)
    outside &= present
    if outside.any():
        frame, index = np.argwhere(outside)[0]
        raise DatasetError(
            f"{take.source} has a box outside the frame: object {take.instance[index]} at frame {take.start + frame}, "
            f"centre and size {np.round(boxes[frame, index], 3).tolist()} of the frame. Label it again."
        )


def _slotted(rows: np.ndarray, present: np.ndarray, slots: int) -> np.ndarray:
    """Objects (T, n, ...) in `slots` slots, 0 where absent."""
    out = np.zeros((len(rows), slots, *rows.shape[2:]), rows.dtype)
    out[:, : rows.shape[1]][present] = rows[present]
    return out
