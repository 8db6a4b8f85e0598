"""Labels as YouTube-VIS JSON.

One file for the whole store: videos, categories (ids from 1 on), and one annotation per track with a box `[x, y, w, h]`
or null, an area and, where masks are stored, a compressed COCO run-length string for every frame. It is written piece
by piece: masks come frame by frame from the store and are parked on disk until their track's turn.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import cv2
import numpy as np

from labeling.masks import Mask, decode_runs, encode_runs
from labeling.store import Store, VideoLabels
from labeling.tracks import UNASSIGNED
from labeling.video import VIDEO_SUFFIXES

BLOCK = 256  # frames whose masks are in memory at a time
DIGITS = 3  # of box coordinates: a thousandth of a pixel is far below what labels resolve


def write(store: Store, out: Path) -> None:
    """Write all labels of `store` to the file `out`."""
    videos = {id: number for number, id in enumerate(store.ids, 1)}
    kinds = {int(kind) for id in videos for kind in np.asarray(store.root[f"videos/{id}/category"])}
    names = {row.id: row.name for row in store.categories}
    names |= {kind: f"object-{kind + 1}" for kind in kinds - set(names)}
    ids = {kind: kind + 1 for kind in sorted(names)}
    if UNASSIGNED in kinds:
        ids[UNASSIGNED], names[UNASSIGNED] = max(ids.values()) + 1, "unassigned"
    info = {
        "description": "tracked boxes by Spectrabox, made without human labels",
        "version": str(store.root.attrs.get("schema")),
        "profile": store.root.attrs.get("profile"),
        "recipe": store.root.attrs.get("recipe"),
    }
    with out.open("w", encoding="utf-8") as file:
        file.write(f'{{"info": {json.dumps(info)},\n"licenses": [],\n"categories": ')
        file.write(json.dumps([{"id": ids[kind], "name": names[kind]} for kind in sorted(ids, key=lambda k: ids[k])]))
        file.write(',\n"videos": [')
        for id, number in videos.items():
            file.write(",\n" * (number > 1) + json.dumps(_video(store[id], number)))
        file.write('],\n"annotations": [')
        written = 0
        for id, number in videos.items():
            written += _write_annotations(file, store[id], number, ids, written)
        file.write("]}\n")


def compress_runs(runs: np.ndarray, offsets: np.ndarray) -> list[str]:
    """COCO's strings of many masks at once: mask i has the run lengths `runs[offsets[i]:offsets[i + 1]]`.

    From the fourth run on, a number is the difference to the run before the last; each number is cut into groups of
    five bits, lowest first, and a sixth bit says that more follow.
    """
    lengths = np.diff(offsets)
    number = runs.astype(np.int64)
    place = np.arange(len(number)) - np.repeat(offsets[:-1], lengths)
    later = np.flatnonzero(place > 2)
    number[later] -= runs[later - 2].astype(np.int64)
    groups = np.ones(len(number), np.int64)
    for count in range(1, 7):  # 35 bits hold every difference of two uint32
        limit = 1 << (5 * count - 1)
        groups += (number < -limit) | (number >= limit)
    ends = np.cumsum(groups)
    text = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for group in range(int(groups.max(initial=0))):
        has = groups > group
        more = (groups[has] > group + 1) * 32
        text[ends[has] - groups[has] + group] = ((number[has] >> (5 * group)) & 31) + more + 48
    cuts = np.concatenate([[0], ends])[offsets]
    whole = text.tobytes().decode("ascii")
    return [whole[begin:end] for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)]


def resize_runs(runs: np.ndarray, size: tuple[int, int], target: tuple[int, int]) -> np.ndarray:
    """Run lengths of a mask of `size` (height, width), brought to the size `target`."""
    mask = Mask.cut(decode_runs(runs, *size).astype(np.uint8) * 255)
    if mask is None or size == target:
        return runs
    vertical, horizontal = target[0] / size[0], target[1] / size[1]
    x1, y1, x2, y2 = mask.bounds
    left, top, right, bottom = max(0, x1 - 1), max(0, y1 - 1), min(size[1], x2 + 1), min(size[0], y2 + 1)
    crop = np.zeros((bottom - top, right - left), np.uint8)
    crop[y1 - top : y2 - top, x1 - left : x2 - left] = mask.coverage
    x, y = int(left * horizontal), int(top * vertical)
    width, height = int(np.ceil(right * horizontal)) - x, int(np.ceil(bottom * vertical)) - y
    back = np.array([
        [1 / horizontal, 0, (x + 0.5) / horizontal - 0.5 - left],
        [0, 1 / vertical, (y + 0.5) / vertical - 0.5 - top],
    ])  # fmt: skip
    # A border that repeats keeps an object that touches the frame's edge there; elsewhere the border is empty.
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    large = cv2.warpAffine(crop, back, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return encode_runs(Mask(x, y, large), *target)


def _video(labels: VideoLabels, number: int) -> dict[str, Any]:
    source = PurePosixPath(labels.source)
    bare = source.with_suffix("") if source.suffix.lower() in VIDEO_SUFFIXES else source
    height, width = labels.size
    return {
        "id": number, "name": bare.name, "file_name": labels.source, "width": width, "height": height,
        "length": labels.frames, "fps": labels.attributes.get("fps"),
        "file_names": [f"{bare}/{frame:05d}.jpg" for frame in range(labels.frames)],
    }  # fmt: skip


def _write_annotations(file: IO[str], labels: VideoLabels, video: int, ids: dict[int, int], before: int) -> int:
    """Write one video's annotations, most prominent track first, after `before` others; return how many."""
    tracks = labels.tracks
    height, width = labels.size
    with tempfile.TemporaryFile() as parked:
        masks = _park_masks(labels, parked) if labels.has_masks and len(tracks) else None
        for index in range(len(tracks)):
            boxes = tracks.boxes[:, index].astype(np.float64)
            boxes[:, 2:] -= boxes[:, :2]
            areas = masks.areas[:, index] if masks else np.prod(boxes[:, 2:], axis=1)
            annotation = {
                "id": before + index + 1, "video_id": video, "category_id": ids[int(tracks.category[index])],
                "instance_id": int(tracks.instance[index]), "score": float(tracks.prominence[index]), "iscrowd": 0,
                "width": width, "height": height, "length": labels.frames,
                "bboxes": _or_null(boxes), "areas": _or_null(areas),
            }  # fmt: skip
            file.write(",\n" * (before + index > 0) + json.dumps(annotation)[:-1])
            if masks:
                file.write(', "segmentations": [')
                for count, (position, length) in enumerate(masks.spans[index]):
                    parked.seek(position)
                    file.write(", " * (count > 0) + parked.read(length).decode("ascii"))
                file.write("]")
            file.write("}")
    return len(tracks)


def _or_null(rows: np.ndarray) -> list[Any]:
    """Numbers or rows of numbers as JSON takes them, None where there are none."""
    there = np.isfinite(rows if rows.ndim == 1 else rows[:, 0])
    return [row if seen else None for row, seen in zip(rows.round(DIGITS).tolist(), there.tolist(), strict=True)]


@dataclass(frozen=True)
class _Parked:
    """Where the JSON text of a video's masks lies in a file on disk."""

    spans: list[list[tuple[int, int]]]  # of each track: position and length of its pieces, in frame order
    areas: np.ndarray  # (T, N) float64, pixels, NaN where there is no mask


def _park_masks(labels: VideoLabels, parked: IO[bytes]) -> _Parked:
    """Write the masks of a video to `parked` as JSON text, a block of frames at a time."""
    size, target, count = labels.mask_size, labels.size, len(labels.tracks)
    result = _Parked([[] for _ in range(count)], np.full((labels.frames, count), np.nan))
    stored = labels.mask_runs()
    ahead = next(stored, None)
    for begin in range(0, labels.frames, BLOCK):
        end = min(begin + BLOCK, labels.frames)
        cells: list[tuple[int, int]] = []
        runs: list[np.ndarray] = []
        while ahead and ahead[0] < end:
            cells.append(ahead[:2])
            runs.append(ahead[2] if size == target else resize_runs(ahead[2], size, target))
            result.areas[cells[-1]] = runs[-1][1::2].sum()
            ahead = next(stored, None)
        offsets = np.cumsum([0, *(len(run) for run in runs)])
        strings = compress_runs(np.concatenate([np.zeros(0, np.uint32), *runs]), offsets)
        pieces = [["null"] * (end - begin) for _ in range(count)]
        for (frame, track), string in zip(cells, strings, strict=True):
            pieces[track][frame - begin] = json.dumps({"size": target, "counts": string})
        for track, piece in enumerate(pieces):
            text = ", ".join(piece).encode("ascii")
            result.spans[track].append((parked.tell(), len(text)))
            parked.write(text)
    return result
