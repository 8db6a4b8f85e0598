"""What is true of each clip?

`read_truth` takes a label store, a folder of clips with JSON beside them (see `clips.py`), or what `spectrabox import`
reads, and yields a `Truth` for each clip: boxes that must be found, and boxes that may be found or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from labeling.importing import read_sequences
from labeling.importing.sequence import ImportProblem, Sequence
from labeling.places import Place, Url, place
from labeling.scoring import clips
from labeling.store import Store, StoreError, VideoLabels, open_store
from labeling.tracks import UNASSIGNED

# What of a clip the truth lists: everything, everything that moves, or one box around all of the foreground.
Listed = Literal["all", "moving", "foreground"]


@dataclass(frozen=True)
class Truth:
    """The true boxes of one clip: M objects that must be found, K that need not be."""

    name: str
    where: str  # the file or store that it is from
    called: list[str]  # what its video may be called, best first
    boxes: np.ndarray  # (T, M, 4) float64, x1 y1 x2 y2, NaN where an object need not be found
    names: list[str]  # (M,) of the objects
    kinds: list[str]  # (M,) what each is; empty where that is not known
    frames: int | None = None  # of the clip; None: as many as its video has
    size: tuple[int, int] | None = None  # height and width
    optional: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 4)))  # (T, K, 4): may be found as a whole
    loose: np.ndarray = field(default_factory=lambda: np.zeros((0, 5)))  # (L, 5) frame and box: may be found there
    listed: Listed = "all"


@dataclass(frozen=True)
class Untold:
    """A clip that cannot be judged."""

    name: str
    called: list[str]
    reason: str = ""  # what is wrong; empty if the truth says that there is none


def read_truth(truth: str | Place | Store) -> Iterator[Truth | Untold]:
    """The truth of each clip, one after another.

    Raises:
        StoreError: There is no truth at that place.
    """
    if isinstance(truth, Store):
        return map(_of_labels, truth.values())
    path = place(truth)
    if isinstance(path, Url) or (path.expanduser() / "zarr.json").is_file():
        return map(_of_labels, open_store(path).values())
    path = path.expanduser()
    if not path.exists():
        raise StoreError(f"{path} does not exist. Give a label store, or a folder with true boxes.")
    if files := clips.files_in(path):
        return (_of_clip(file, path) for file in files)
    return map(_of_sequence, read_sequences(path))


def _of_labels(labels: VideoLabels) -> Truth:
    tracks = labels.tracks
    kinds = ["" if kind == UNASSIGNED else labels.name_of(kind) for kind in tracks.category.tolist()]
    names = [f"{kind or 'object'} {instance}" for kind, instance in zip(kinds, tracks.instance.tolist(), strict=True)]
    return Truth(
        labels.source, labels.id, [labels.source, labels.id], tracks.boxes.astype(np.float64), names, kinds,
        labels.frames, labels.size,
    )  # fmt: skip


def _of_sequence(sequence: Sequence) -> Truth | Untold:
    try:
        sequence.checked()
        for row in np.flatnonzero(sequence.frame >= clips.LONGEST)[:1]:
            raise ImportProblem(f"{sequence.at(row)}: frame {sequence.frame[row] + 1} is no frame of a video.")
    except ImportProblem as problem:
        return Untold(sequence.name, sequence.called, str(problem))
    instances = np.unique(sequence.instance)
    frames = 1 + int(sequence.frame.max(initial=0))
    boxes = np.full((frames, len(instances), 4), np.nan)
    boxes[sequence.frame, np.searchsorted(instances, sequence.instance)] = sequence.boxes
    kinds = [sequence.names[sequence.kind_of(int(instance))] for instance in instances]
    names = [f"{kind} {instance}" for kind, instance in zip(kinds, instances, strict=True)]
    return Truth(
        sequence.name, str(sequence.where), sequence.called, boxes, names, kinds, size=sequence.size,
        loose=sequence.ignored,
    )  # fmt: skip


def _of_clip(file: Path, folder: Path) -> Truth | Untold:
    beside = file.relative_to(folder if folder.is_dir() else folder.parent)
    name = beside.with_suffix("").as_posix()
    try:
        clip = clips.read(file)
    except ImportProblem as problem:
        return Untold(name, [name], str(problem))
    called = [(beside.parent / clip.video).as_posix(), clip.video, name]
    if clip.kind == "none":
        return Untold(name, called)
    main = [thing for thing in clip.objects if thing.role == "main"]
    optional = [clips.boxes_of(thing, clip) for thing in clip.objects if thing.role != "main"]
    needed, loose = [], [np.zeros((0, 5))]
    for thing in main:
        boxes = clips.boxes_of(thing, clip)
        hidden = clips.hidden(thing, clip) & np.isfinite(boxes[:, 0])
        loose.append(np.column_stack([np.flatnonzero(hidden), boxes[hidden]]))
        needed.append(np.where(hidden[:, None], np.nan, boxes))
    kinds = ["" if clip.listed == "foreground" else f"{clip.family} {clips.kind(thing.name)}".strip() for thing in main]
    nothing = np.zeros((clip.frames, 0, 4))
    return Truth(
        name, str(file), called, np.stack(needed, 1) if needed else nothing, [thing.name for thing in main], kinds,
        clip.frames, (clip.height, clip.width), np.stack(optional, 1) if optional else nothing, np.concatenate(loose),
        clip.listed,
    )  # fmt: skip
