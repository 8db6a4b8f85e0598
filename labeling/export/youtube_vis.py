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

import numpy as np

from labeling.export.job import Job
from labeling.export.rle import compress_runs, resize_runs
from labeling.store import VideoLabels
from labeling.video import VIDEO_SUFFIXES

BLOCK = 256  # frames whose masks are in memory at a time
DIGITS = 3  # of box coordinates: a thousandth of a pixel is far below what labels resolve


def write(job: Job, out: Path) -> None:
    """Write all labels to the file `out`."""
    facts = job.provenance()
    info = {
        "description": f"tracked boxes by Spectrabox, {facts['labels']['made']}",
        "version": str(facts["labels"]["schema"]), "profile": facts["labels"]["profile"],
        "recipe": facts["labels"]["recipe"], "spectrabox": facts,
    }  # fmt: skip
    numbers = {labels.id: number for number, labels in enumerate(job.videos(), 1)}
    licences = [{"id": 1, "name": job.config.licence, "url": ""}] if job.config.licence else []
    with out.open("w", encoding="utf-8") as file:
        file.write(f'{{"info": {json.dumps(info)},\n"licenses": {json.dumps(licences)},\n"categories": ')
        file.write(json.dumps([{"id": k.number, "name": k.name, "kept": k.kept} for k in job.kinds.values()]))
        file.write(',\n"videos": [')
        for labels in job.videos():
            row = _video(labels, numbers[labels.id]) | {"split": job.split[labels.id]}
            file.write(",\n" * (row["id"] > 1) + json.dumps(row | ({"license": 1} if licences else {})))
        file.write('],\n"annotations": [')
        written = 0
        for labels in job.videos():
            written += _write_annotations(file, job, labels, numbers[labels.id], written)
            job.step(labels.source, labels.frames)
        file.write("]}\n")


def _video(labels: VideoLabels, number: int) -> dict[str, Any]:
    source = PurePosixPath(labels.source)
    bare = source.with_suffix("") if source.suffix.lower() in VIDEO_SUFFIXES else source
    height, width = labels.size
    return {
        "id": number, "name": bare.name, "file_name": labels.source, "width": width, "height": height,
        "length": labels.frames, "fps": labels.attributes.get("fps"),
        "file_names": [f"{bare}/{frame:05d}.jpg" for frame in range(labels.frames)],
    }  # fmt: skip


def _write_annotations(file: IO[str], job: Job, labels: VideoLabels, video: int, before: int) -> int:
    """Write one video's annotations, most prominent track first, after `before` others; return how many."""
    chosen = job.choose(labels)
    tracks = chosen.tracks
    height, width = labels.size
    with tempfile.TemporaryFile() as parked:
        masks = _park_masks(labels, parked) if labels.has_masks and len(tracks) else None
        for index in range(len(tracks)):
            boxes = tracks.boxes[:, index].astype(np.float64)
            boxes[:, 2:] -= boxes[:, :2]
            mask = int(chosen.index[index])
            areas = masks.areas[:, mask] if masks else np.prod(boxes[:, 2:], axis=1)
            annotation = {
                "id": before + index + 1, "video_id": video,
                "category_id": job.kinds[int(tracks.category[index])].number,
                "instance_id": int(tracks.instance[index]), "score": float(tracks.prominence[index]), "iscrowd": 0,
                "width": width, "height": height, "length": labels.frames,
                "bboxes": _or_null(boxes), "areas": _or_null(areas),
            }  # fmt: skip
            file.write(",\n" * (before + index > 0) + json.dumps(annotation)[:-1])
            if masks:
                file.write(', "segmentations": [')
                for count, (position, length) in enumerate(masks.spans[mask]):
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
