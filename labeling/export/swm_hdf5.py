"""Labels, frames and actions as stable-worldmodel has them: one HDF5 file of flat columns.

An episode per video: `pixels` (rows, H, W, 3), `action` (rows, A) if there are any beside the videos, `ep_len` and
`ep_offset`; `boxes` (rows, N, 4) x1 y1 x2 y2 in pixels of the frames as they are here, NaN where an object is absent;
`oriented`, `mass`, `score`, `instance` (-1: none) and `time`, named as in the store. They are columns of the file, not
of a group in it, with a row for each frame: the reader of stable-worldmodel takes every member for such a column. What
the places 0 to N - 1 stand for, the split, the licence and where it all comes from is in the attributes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from labeling.export.frames import fitting, joined
from labeling.export.job import Job
from labeling.export.packages import needed
from labeling.export.slots import Slots
from labeling.store import VideoLabels
from labeling.video import VideoError


def write(job: Job, out: Path) -> None:
    """Write all labels to the file `out`."""
    h5py = needed("h5py", job.format)
    common = fitting(job, one_size=job.config.size is None)
    slots = Slots(job)
    height, width = (job.config.size, job.config.size) if job.config.size else common.size or (1, 1)
    columns: dict[str, tuple[tuple[int, ...], type]] = {
        "pixels": ((height, width, 3), np.uint8), "action": ((common.actions,), np.float32),
        "boxes": ((len(slots), 4), np.float32), "oriented": ((len(slots), 5), np.float32),
        "mass": ((len(slots), 2), np.float32), "score": ((len(slots),), np.float32),
        "instance": ((len(slots),), np.int32), "time": ((), np.float64),
    }  # fmt: skip
    if not common.actions:
        del columns["action"]
    if any(labels.size[0] * width != labels.size[1] * height for labels in job.videos()):
        del columns["oriented"]
        job.notes.append("Frames are stretched, which makes no rectangle of a turned one: oriented boxes are left out.")
    with h5py.File(out, "w", libver="latest") as file:  # its attributes may be as long as need be
        for name, (shape, dtype) in columns.items():
            _add_column(file, name, shape, dtype)
        lengths: list[int] = []
        for labels in job.videos():
            try:
                _write_episode(file, job, labels, slots, common.actions)
                lengths.append(labels.frames)
            except VideoError as error:
                job.problems[labels.source] = str(error)
                for name in columns:
                    file[name].resize(sum(lengths), axis=0)
        file["ep_len"] = np.array(lengths, np.int32)
        file["ep_offset"] = (np.cumsum(lengths) - lengths).astype(np.int64)
        file["boxes"].attrs["names"] = slots.names
        file["boxes"].attrs["category"] = slots.kinds
        file.attrs["episodes"] = [labels.source for labels in job.videos()]
        file.attrs["split"] = [job.split[labels.id] for labels in job.videos()]
        file.attrs["licence"] = job.config.licence
        file.attrs["spectrabox"] = json.dumps(job.provenance())


def _add_column(file: Any, name: str, shape: tuple[int, ...], dtype: type) -> None:
    """An empty column that can grow; windows are read a few rows at a time, so pictures have chunks of one."""
    chunk = 1 if name == "pixels" else 1024
    packed = {"compression": "gzip", "compression_opts": 1, "shuffle": name != "pixels"}  # which every reader knows
    chunks = (chunk, *(max(1, n) for n in shape))
    most = (None, *chunks[1:])  # where nothing was found, too, a chunk must fit
    file.create_dataset(name, (0, *shape), dtype, maxshape=most, chunks=chunks, **packed)


def _write_episode(file: Any, job: Job, labels: VideoLabels, slots: Slots, actions: int) -> None:
    """Append a video; VideoError if it cannot be read to its end."""
    height, width = file["pixels"].shape[1:3]
    scale = np.array([width / labels.size[1], height / labels.size[0]], np.float32)
    for frames, chosen, action in joined(job, labels, actions):
        tracks = chosen.tracks
        places = slots.places(tracks.category)
        instance = np.where(tracks.present, tracks.instance, -1).astype(np.int32)
        oriented = tracks.oriented * np.array([*scale, scale[0], scale[0], 1], np.float32)
        rows = {
            "pixels": np.stack([_resized(frame.image, height, width) for frame in frames]) if frames else (),
            "action": action, "time": tracks.time,
            "boxes": slots.spread(tracks.boxes * np.tile(scale, 2), places, np.nan),
            "oriented": slots.spread(oriented, places, np.nan),
            "mass": slots.spread(tracks.mass * scale, places, np.nan),
            "score": slots.spread(tracks.score, places, np.nan),
            "instance": slots.spread(instance, places, -1),
        }  # fmt: skip
        if len(frames) < len(tracks.time):
            continue  # the video ends early: `joined` says so
        for name in rows.keys() & file.keys():
            begin = len(file[name])
            file[name].resize(begin + len(frames), axis=0)
            file[name][begin:] = rows[name]


def _resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    if image.shape[:2] == (height, width):
        return image
    shrinks = image.shape[0] * image.shape[1] > height * width
    weights = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=weights))
