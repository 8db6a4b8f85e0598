"""How are imported labels written?

As a store that `spectrabox label` could have written: boxes clipped to the frame, upright oriented boxes, centres as
centres of mass, prominence as the share of frames that an object is seen on. There are no masks.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

from labeling.folder import Source
from labeling.geometry import upright
from labeling.importing.sequence import ImportProblem, Sequence
from labeling.palette import colour_of
from labeling.places import Place, fetched
from labeling.recipe import digest
from labeling.store import SCHEMA, UNASSIGNED_NAME, Store, write_tracks
from labeling.tracks import UNASSIGNED, Tracks
from labeling.video import Video

PROFILE = "imported"
VERSION = 1
SMALL = 64  # longest side of the frames that are decoded to learn their times

Progress = Callable[[str, int, int], None]  # video, frames done, frames expected


def write_sequence(
    store: Store, source: Source, sequence: Sequence, names: list[str], skipped: Counter[str], progress: Progress | None
) -> int:
    """Write the labels of one video, and return how many tracks it has; new categories are appended to `names`.

    Raises:
        ImportProblem: The labels are not of this video.
        VideoError: The video cannot be read.
    """
    with fetched(source.path) as path:
        video = Video(path, SMALL)
        size = (video.height, video.width)
        if sequence.size and sequence.size != size:
            given = f"{sequence.size[1]} x {sequence.size[0]}"
            raise ImportProblem(
                f"{sequence.where}: it is for {given} pixels, {source.relative} has {size[1]} x {size[0]}."
            )
        times = []
        for frame in video.frames():
            times.append(frame.time)
            if progress:
                progress(source.relative, len(times), max(len(times), video.expected_frames))
        sha256 = video.sha256()
    for row in np.flatnonzero(sequence.frame >= len(times))[:1]:
        raise ImportProblem(
            f"{sequence.at(row)}: it is about frame {sequence.frame[row] + 1}, {source.relative} has {len(times)}."
        )
    tracks = _tracks(sequence, np.array(times), size, names, skipped)
    for what, number in sequence.skipped.items():
        skipped[what] += number
    if not len(tracks):
        skipped["Videos without a box, of which the store says that nothing is there"] += 1
    group = store.root.create_group(f"videos/{source.id}")
    write_tracks(group, tracks)
    group.update_attributes({
        "source": source.relative, "sha256": sha256, "fps": video.fps, "frames": len(times), "height": size[0],
        "width": size[1], "cuts": [], "dropped": [],
        "recipe": digest(imported=VERSION, video=sha256, labels=_hash(tracks), names=sorted(sequence.names.values())),
    })  # fmt: skip
    group.update_attributes({"complete": True})
    return len(tracks)


def _hash(tracks: Tracks) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in tracks.arrays().values())).hexdigest()


def write_tables(store: Store, videos: Place, names: list[str], labels: Path, problems: dict[str, str]) -> None:
    """Write what the store says about itself, after all of its videos."""
    sizes: Counter[int] = Counter()
    for found in store.values():
        sizes.update(found.tracks.category.tolist())
    table = [
        {"id": id, "name": name, "colour": colour_of(id), "size": sizes[id], "kept": True}
        for id, name in enumerate(names)
    ]
    recipes = [found.attributes["recipe"] for found in store.values()]
    store.root.update_attributes({
        "schema": SCHEMA, "profile": PROFILE, "recipe": digest(imported=VERSION, videos=recipes), "videos": str(videos),
        "created_by": f"spectrabox {version('spectrabox')}", "imported_from": labels.name, "categories": table,
        "failures": problems,
    })  # fmt: skip


def _tracks(
    sequence: Sequence, times: np.ndarray, size: tuple[int, int], names: list[str], skipped: Counter[str]
) -> Tracks:
    """The rows of a sequence as tracks, the most prominent first."""
    height, width = size
    boxes = sequence.boxes.clip(0, [width, height, width, height])
    inside = (boxes[:, 2:].astype(np.float32) > boxes[:, :2].astype(np.float32)).all(axis=1)
    if clipped := int((inside & (np.abs(boxes - sequence.boxes) > 1e-3).any(axis=1)).sum()):
        skipped["Boxes that reached out of the frame, clipped"] += clipped
    if outside := int((~inside).sum()):
        skipped["Boxes outside of the frame, left out"] += outside
    instances = np.unique(sequence.instance[inside])
    column = np.searchsorted(instances, sequence.instance[inside])
    at = (sequence.frame[inside], column)
    shape = (len(times), len(instances))
    edges = np.full((*shape, 4), np.nan, np.float32)
    edges[at] = boxes[inside]
    score = np.full(shape, np.nan, np.float32)
    score[at] = sequence.score[inside]
    prominence = np.isfinite(score).mean(axis=0).astype(np.float32)
    category = [_category(sequence, int(instance), names) for instance in instances]
    tracks = Tracks(
        times, edges, upright(edges), (edges[..., :2] + edges[..., 2:]) / 2, score, np.array(category, np.int32),
        instances.astype(np.int32), prominence,
    )  # fmt: skip
    return tracks.select(np.argsort(-prominence, kind="stable"))


def _category(sequence: Sequence, instance: int, names: list[str]) -> int:
    name = sequence.names[sequence.kind_of(instance)]
    if name == UNASSIGNED_NAME:
        return UNASSIGNED
    if name not in names:
        names.append(name)
    return names.index(name)
