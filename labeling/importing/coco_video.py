"""Labels of COCO video.

Reads JSON in which annotations have an identity: YouTube-VIS, where an annotation is a track with a box or null for
each frame (`bboxes`), and CocoVID or TAO, where images know their video and frame (`video_id`, `frame_id` or
`frame_index`) and annotations their image and track (`instance_id` or `track_id`). Boxes are `[x, y, w, h]`, frames
count from 0. Crowds, and what is marked as not kept, are skipped. A fault of an annotation goes along with its video,
so that the others are read nevertheless.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from labeling.export.job import SIDECAR
from labeling.importing.sequence import LARGEST, ImportProblem, Sequence, in_words

IGNORED = "Boxes that are crowds or marked as not kept, left out"
LONGEST_NAME = 200  # of a category

Row = dict[str, Any]
Id = int | str


class _Spot(NamedTuple):
    """What an image is: a frame of a video."""

    video: Id
    frame: int


@dataclass
class _Rows:
    """What is known of one video so far."""

    video: Row
    picture: Row | None = None  # the first of its images
    rows: list[tuple[float, ...]] = field(default_factory=list)  # frame, instance, category, box, score, annotation
    ignored: list[tuple[float, ...]] = field(default_factory=list)  # frame, box
    fault: str = ""


def read(path: Path) -> Iterator[Sequence] | None:
    """The sequences at `path`, a JSON file or a folder of such; None if it is nothing of the kind."""
    if path.is_file():
        return _sequences([path]) if path.suffix.lower() == ".json" else None
    found = sorted(path.rglob("annotations/*.json")) or sorted(set(path.glob("*.json")) - {path / SIDECAR})
    return _sequences(found) if found else None


def _sequences(files: list[Path]) -> Iterator[Sequence]:
    for file in files:
        try:
            yield from _read(file)
        except ImportProblem as problem:
            yield _sequence(file, _Rows({"file_name": file.name}, fault=str(problem)), {})


def _read(file: Path) -> Iterator[Sequence]:
    data = _load(file)
    names = {_whole(row, "id", where): _name(row, where) for where, row in _rows(file, data, "categories")}
    videos = {_id(row, "id", where): _Rows(row) for where, row in _rows(file, data, "videos")}
    spots: dict[Id, _Spot] = {}
    for where, row in _rows(file, data, "images"):
        spot = _spot(row, where)
        if spot.video not in videos:
            raise ImportProblem(f"{where}: there is no video {in_words(spot.video)}.")
        spots[_id(row, "id", where)] = spot
        videos[spot.video].picture = videos[spot.video].picture or row
    for number, (where, row) in enumerate(_rows(file, data, "annotations")):
        spot = _place(row, spots, where)
        if spot.video not in videos:
            raise ImportProblem(f"{where}: there is no video {in_words(spot.video)}.")
        found = videos[spot.video]
        try:
            _add(found, row, number, spot.frame, names, where)
        except ImportProblem as problem:
            found.fault = found.fault or str(problem)
    for found in videos.values():
        yield _sequence(file, found, names)


def _load(file: Path) -> Row:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ImportProblem(f"{file}:{error.lineno}: it is not valid JSON: {error.msg}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ImportProblem(f"{file} cannot be read: {error}") from error
    if not isinstance(data, dict) or "annotations" not in data:
        raise ImportProblem(f"{file} has no annotations: it is not COCO.")
    if "videos" not in data:
        raise ImportProblem(f"{file} lists no videos. Pictures on their own are no tracks; give a JSON of COCO video.")
    return data


def _rows(file: Path, data: Row, name: str) -> Iterator[tuple[str, Row]]:
    """The rows of a table, each with the file and the number that it has there."""
    rows = data.get(name) or []
    if not isinstance(rows, list):
        raise ImportProblem(f"{file}: {name} is {in_words(rows)}, it must be a list.")
    for number, row in enumerate(rows):
        where = f"{file} {name.removesuffix('s')} {number}" if name != "categories" else f"{file} category {number}"
        if not isinstance(row, dict):
            raise ImportProblem(f"{where} is {in_words(row)}, it must have entries with names.")
        yield where, row


def _spot(row: Row, where: str) -> _Spot:
    """Video and frame of an image."""
    frame = "frame_id" if row.get("frame_id") is not None else "frame_index"
    if row.get(frame) is None or row.get("video_id") is None:
        raise ImportProblem(f"{where}: it has no video_id and frame_id. Pictures on their own are no video.")
    return _Spot(_id(row, "video_id", where), _whole(row, frame, where))


def _place(row: Row, spots: dict[Id, _Spot], where: str) -> _Spot:
    """Video and frame of an annotation; that of a whole track begins on frame 0."""
    if "bboxes" in row:
        return _Spot(_id(row, "video_id", where), 0)
    image = _id(row, "image_id", where)
    if image not in spots:
        raise ImportProblem(f"{where}: there is no image {in_words(image)}.")
    return spots[image]


def _add(found: _Rows, row: Row, number: int, first: int, names: dict[int, str], where: str) -> None:
    """Add the boxes of an annotation to those of its video."""
    category = _whole(row, "category_id", where)
    if category not in names:
        raise ImportProblem(f"{where}: there is no category {category}.")
    boxes = row["bboxes"] if "bboxes" in row else [row.get("bbox") or "missing"]  # null is for frames of a track
    if not isinstance(boxes, list):
        raise ImportProblem(f"{where}: bboxes is {in_words(boxes)}, it must be a list with a box or null a frame.")
    for frame, box in enumerate(boxes, first):
        if box is None or box == []:
            continue
        x, y, width, height = _numbers(box, where)
        edges = (x, y, x + width, y + height)
        if row.get("iscrowd") or row.get("kept") is False:
            found.ignored.append((frame, *edges))
            continue
        score = 1.0 if row.get("score") is None else _number(row["score"], f"{where}: score")
        found.rows.append((frame, _identity(row, where), category, *edges, score, number))


def _identity(row: Row, where: str) -> int:
    keys = ("instance_id", "track_id", "id") if "bboxes" in row else ("instance_id", "track_id")
    for key in keys:
        if row.get(key) is not None:
            return _whole(row, key, where)
    raise ImportProblem(f"{where}: it has no instance_id. Boxes without an identity are detections, not tracks.")


def _id(row: Row, key: str, where: str) -> Id:
    value = row.get(key)
    if isinstance(value, int | str):
        return value
    raise ImportProblem(f"{where}: {key} is {in_words(value) if key in row else 'missing'}, it must be a number.")


def _whole(row: Row, key: str, where: str) -> int:
    number = _number(row[key], f"{where}: {key}") if key in row else None
    if number is None or number != int(number):
        raise ImportProblem(f"{where}: {key} is {in_words(row.get(key, 'missing'))}, it must be a whole number.")
    return int(number)


def _number(value: Any, what: str) -> float:
    if not _is_number(value):
        raise ImportProblem(f"{what} is {in_words(value)}, it must be a number up to 2^53.")
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def _name(row: Row, where: str) -> str:
    name = " ".join(str(row.get("name", "")).split())
    if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
        raise ImportProblem(f"{where}: name is {in_words(name)!r}, it must be up to {LONGEST_NAME} printable signs.")
    return name


def _numbers(box: Any, where: str) -> list[float]:
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
        raise ImportProblem(f"{where}: the box {in_words(box)} is not [x, y, width, height].")
    return [float(value) for value in box]


def _size(row: Row, where: Path) -> tuple[int, int] | None:
    if row.get("height") is None or row.get("width") is None:
        return None
    return _whole(row, "height", str(where)), _whole(row, "width", str(where))


def _sequence(file: Path, found: _Rows, names: dict[int, str]) -> Sequence:
    table = np.array(found.rows, np.float64).reshape(-1, 9)
    video, fault, size = found.video, found.fault, None
    try:
        size = _size(found.picture or video, file)
    except ImportProblem as problem:
        fault = fault or str(problem)
    listed = video.get("file_names")
    pictures = listed[:1] if isinstance(listed, list) else []
    pictures.append(found.picture.get("file_name") if found.picture else None)
    folders = [str(PurePosixPath(name).parent) for name in pictures if isinstance(name, str) and "/" in name]
    called = [name for key in ("file_name", "name") if isinstance(name := video.get(key), str) and name] + folders
    score = table[:, 7]
    whole = table[:, [0, 1, 2, 8]].astype(np.int64)
    return Sequence(
        name=in_words(called[0] if called else f"video {video.get('id')}"), where=file, called=called,
        frame=whole[:, 0], instance=whole[:, 1], category=whole[:, 2], boxes=table[:, 3:7],
        score=np.where((score >= 0) & (score <= 1), score, 1.0), place=whole[:, 3], unit=" annotation ", names=names,
        size=size, skipped={IGNORED: len(found.ignored)} if found.ignored else {},
        ignored=np.array(found.ignored, np.float64).reshape(-1, 5), fault=fault,
    )  # fmt: skip
