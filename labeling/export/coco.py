"""Labels as COCO JSON, frame by frame.

A folder: `annotations/instances_train.json` and `instances_val.json`, split by video, and with pictures
`train/<video>/000000.jpg`. A frame is an image, a box is an annotation `[x, y, w, h]` with area, score, `instance_id`
and, where masks are stored, a mask; images know their video and frame (`video_id`, `frame_id`, as CocoVID has them), so
that tracks are not lost. Written piece by piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import IO, Any

import numpy as np

from labeling.export.job import Chosen, Job
from labeling.export.pictures import remove_folder, write_pictures, write_sidecar
from labeling.export.rle import compress_runs, resize_runs
from labeling.store import VideoLabels

MASK_BLOCK = 256  # frames whose masks are in memory at a time
DIGITS = 6  # of pixels: float32 has no more


def write(job: Job, out: Path) -> None:
    """Write all labels into the folder `out`."""
    if job.pictures:
        for labels in job.videos():
            folder = out / job.split[labels.id] / job.names[labels.id]
            if not write_pictures(job, labels, folder):
                remove_folder(folder)
    (out / "annotations").mkdir()
    for split in ("train", "val"):
        _write_split(job, split, out / "annotations" / f"instances_{split}.json")
    write_sidecar(job, out)


def _write_split(job: Job, split: str, path: Path) -> None:
    numbers = {id: number for number, id in enumerate(job.ids, 1)}
    facts = job.provenance()
    licences = [{"id": 1, "name": job.config.licence, "url": ""}] if job.config.licence else []
    head = {
        "info": {"description": f"tracked boxes by Spectrabox, {facts['labels']['made']}", "split": split}
        | {name: facts[name] for name in ("made_by", "licence_of_videos", "labels")},
        "licenses": licences,
        "categories": [
            {"id": kind.number, "name": kind.name, "supercategory": "object", "kept": kind.kept}
            for kind in job.kinds.values()
        ],
        "videos": [
            {
                "id": numbers[labels.id], "name": job.names[labels.id], "file_name": labels.source,
                "fps": labels.attributes.get("fps"), "frames": labels.frames, "sha256": labels.attributes.get("sha256"),
            }
            for labels in _videos_of(job, split)
        ],
    }  # fmt: skip
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + ',\n"images": ')
        _write_list(file, chain.from_iterable(_images(job, labels, numbers) for labels in _videos_of(job, split)))
        file.write(',\n"annotations": ')
        ids = count(1)
        _write_list(
            file,
            (
                {"id": next(ids), **row}
                for labels in _videos_of(job, split)
                for row in _annotations(job, labels, numbers)
            ),
        )
        file.write("}\n")


def _videos_of(job: Job, split: str) -> Iterator[VideoLabels]:
    return (labels for labels in job.videos() if job.split[labels.id] == split)


def _write_list(file: IO[str], rows: Iterable[dict[str, Any]]) -> None:
    file.write("[")
    for place, row in enumerate(rows):
        file.write(",\n" * (place > 0) + json.dumps(row))
    file.write("]")


def _image_id(video: int, frame: int) -> int:
    """Unique, and the same whatever other videos there are before it of whatever length."""
    return video * 10_000_000 + frame


def _images(job: Job, labels: VideoLabels, numbers: dict[str, int]) -> Iterator[dict[str, Any]]:
    height, width = labels.size
    video, name = numbers[labels.id], job.names[labels.id]
    licence = {"license": 1} if job.config.licence else {}
    for frame in range(labels.frames):
        yield {
            "id": _image_id(video, frame), "file_name": f"{name}/{frame:06d}.jpg", "width": width, "height": height,
            "video_id": video, "frame_id": frame, **licence,
        }  # fmt: skip


def _annotations(job: Job, labels: VideoLabels, numbers: dict[str, int]) -> Iterator[dict[str, Any]]:
    video = numbers[labels.id]
    for first, chosen, masks in _with_masks(job, labels):
        tracks = chosen.tracks
        for frame, track, (x1, y1, x2, y2) in chosen.cells():
            box = [round(value, DIGITS) for value in (x1, y1, x2 - x1, y2 - y1)]
            row: dict[str, Any] = {
                "image_id": _image_id(video, first + frame), "video_id": video,
                "category_id": job.kinds[int(tracks.category[track])].number,
                "instance_id": int(tracks.instance[track]), "bbox": box, "area": round(box[2] * box[3], 3),
                "iscrowd": 0, "score": round(float(tracks.score[frame, track]), DIGITS),
            }  # fmt: skip
            if job.config.dropped:
                row["kept"] = bool(chosen.kept[track])
            if mask := masks.get((frame, int(chosen.index[track]))):
                text, row["area"] = mask
                row["segmentation"] = {"size": list(labels.size), "counts": text}
            yield row
        job.step(labels.source, 0 if job.pictures else len(tracks.time))


Masks = dict[tuple[int, int], tuple[str, int]]  # frame and track -> COCO's string and the area


def _with_masks(job: Job, labels: VideoLabels) -> Iterator[tuple[int, Chosen, Masks]]:
    """One stretch of frames after another: its first frame, its tracks, and its masks if there are any."""
    if not labels.has_masks:
        yield from ((first, chosen, {}) for first, chosen in job.blocks(labels))
        return
    for begin in range(0, labels.frames, MASK_BLOCK):
        part = labels[begin : begin + MASK_BLOCK]
        cells, runs = [], [np.zeros(0, np.uint32)]
        for frame, track, lengths in part.mask_runs():
            cells.append((frame, track))
            same = labels.mask_size == labels.size
            runs.append(lengths if same else resize_runs(lengths, labels.mask_size, labels.size))
        offsets = np.cumsum([0, *(len(run) for run in runs[1:])])
        strings = compress_runs(np.concatenate(runs), offsets)
        areas = [int(run[1::2].sum()) for run in runs[1:]]
        yield begin, job.choose(part), dict(zip(cells, zip(strings, areas, strict=True), strict=True))
