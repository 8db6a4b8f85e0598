"""Labels as MOTChallenge has them.

A folder: `train/<video>/gt/gt.txt` with a row `frame, id, left, top, width, height, considered, class, visibility` for
every box, `gt/labels.txt` with the names of the classes, `seqinfo.ini`, with pictures `img1/000001.jpg`, and
`seqmaps/train.txt` for TrackEval. Frames and pixels count from 1: a box whose left edge is that of the picture has left
1. What was dropped is not considered (0); the score of a box stands for its visibility.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from labeling.export.job import Job
from labeling.export.pictures import remove_folder, write_pictures, write_sidecar
from labeling.store import VideoLabels

DIGITS = 6  # of pixels: float32 has no more


def write(job: Job, out: Path) -> None:
    """Write all labels into the folder `out`."""
    done: dict[str, list[str]] = {"train": [], "val": []}
    for labels in job.videos():
        split, name = job.split[labels.id], job.names[labels.id]
        folder = out / split / name
        if job.pictures and not write_pictures(job, labels, folder / "img1", first=1):
            remove_folder(folder)
            continue
        (folder / "gt").mkdir(parents=True)
        _write_boxes(job, labels, folder / "gt" / "gt.txt")
        names = {kind.number: kind.name for kind in job.kinds.values()}
        lines = [names.get(number, "") for number in range(1, max(names, default=0) + 1)]
        (folder / "gt" / "labels.txt").write_text("".join(f"{_line(name)}\n" for name in lines), encoding="utf-8")
        (folder / "seqinfo.ini").write_text(_sequence(labels, name), encoding="utf-8")
        done[split].append(name)
    (out / "seqmaps").mkdir()
    for split, names_of in done.items():
        (out / "seqmaps" / f"{split}.txt").write_text("".join(f"{name}\n" for name in chain(["name"], names_of)))
    write_sidecar(job, out)


def _write_boxes(job: Job, labels: VideoLabels, path: Path) -> None:
    with path.open("w", encoding="ascii") as file:
        for first, chosen in job.blocks(labels):
            tracks = chosen.tracks
            for frame, track, (x1, y1, x2, y2) in chosen.cells():
                edges = (x1 + 1, y1 + 1, x2 - x1, y2 - y1, float(tracks.score[frame, track]))
                left, top, width, height, score = (f"{value:.{DIGITS}f}".rstrip("0").rstrip(".") for value in edges)
                who = f"{first + frame + 1},{tracks.instance[track]}"
                what = f"{int(chosen.kept[track])},{job.kinds[int(tracks.category[track])].number}"
                file.write(f"{who},{left},{top},{width},{height},{what},{score}\n")
            job.step(labels.source, 0 if job.pictures else len(tracks.time))


def _sequence(labels: VideoLabels, name: str) -> str:
    height, width = labels.size
    facts = {
        "name": name, "imDir": "img1", "frameRate": f"{float(labels.attributes.get('fps') or 0):g}",
        "seqLength": labels.frames, "imWidth": width, "imHeight": height, "imExt": ".jpg",
        # TrackEval and others look at none but those above; `%` would begin a reference.
        "source": _line(labels.source).replace("%", "%%"),
    }  # fmt: skip
    return "[Sequence]\n" + "".join(f"{key}={value}\n" for key, value in facts.items())


def _line(text: str) -> str:
    """A text as one line."""
    return " ".join(text.split())
