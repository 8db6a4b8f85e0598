"""Labels as Ultralytics reads them.

A folder: `data.yaml`, `images/train/<video>_000000.jpg` and `labels/train/<video>_000000.txt`, the same for val, split
by video. A row is `class cx cy w h` in shares of the picture; a frame without objects has an empty file. Which box
belongs to which track is not in the format.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml

from labeling.export.job import Job
from labeling.export.pictures import write_pictures, write_sidecar
from labeling.provenance import how_made
from labeling.store import VideoLabels

DIGITS = 9  # of shares: a millionth of a pixel in a picture of a thousand


def write(job: Job, out: Path) -> None:
    """Write all labels into the folder `out`."""
    for split in ("train", "val"):
        (out / "images" / split).mkdir(parents=True)
        (out / "labels" / split).mkdir(parents=True)
    classes = {kind.id: place for place, kind in enumerate(job.kinds.values())}
    used = set()
    for labels in job.videos():
        split, name = job.split[labels.id], job.names[labels.id]
        if job.pictures and not write_pictures(job, labels, out / "images" / split, f"{name}_"):
            continue
        _write_boxes(job, labels, out / "labels" / split / name, classes)
        used.add(split)
    table = {
        "train": "images/train", "val": "images/val" if "val" in used else "images/train",
        "names": {classes[kind.id]: kind.name for kind in job.kinds.values()},
    }  # fmt: skip
    if "val" not in used:
        job.notes.append("No video is held out: val in data.yaml is the training set, so its figures say little.")
    licence = " ".join(job.config.licence.split()) or "not stated"
    note = f"# Tracked boxes by Spectrabox, {how_made(job.store)}. Licence of the videos: {licence}\n"
    text = yaml.safe_dump(table, sort_keys=False, allow_unicode=True)
    (out / "data.yaml").write_text(note + text, encoding="utf-8")
    write_sidecar(job, out)


def _write_boxes(job: Job, labels: VideoLabels, stem: Path, classes: dict[int, int]) -> None:
    height, width = labels.size
    size = np.array([width, height, width, height], np.float64)
    for first, chosen in job.blocks(labels):
        tracks = chosen.tracks
        shares = (tracks.boxes.astype(np.float64) / size).clip(0, 1)  # readers refuse what leaves the picture
        middle, sides = (shares[..., 2:] + shares[..., :2]) / 2, shares[..., 2:] - shares[..., :2]
        rows = np.concatenate([middle, sides], axis=-1).round(DIGITS)
        seen = tracks.present & (sides > 0).all(axis=-1)
        for frame in range(len(tracks.time)):
            lines = [
                " ".join([str(classes[int(tracks.category[track])]), *(f"{v:.{DIGITS}f}" for v in rows[frame, track])])
                for track in np.flatnonzero(seen[frame])
            ]
            path = stem.with_name(f"{stem.name}_{first + frame:06d}.txt")
            path.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
        job.step(labels.source, 0 if job.pictures else len(tracks.time))
