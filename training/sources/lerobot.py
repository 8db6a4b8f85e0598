"""LeRobot v3 datasets: many episodes to a file, tables of which episode is where.

Reads `meta/info.json` and `meta/episodes`, actions and states from the Parquet files of `data`, frames of one camera
from the mp4 files of `videos` or from pictures in the tables. Boxes come from a label store of that camera's videos;
without one a dataset trains plain LeWM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from labeling.actions import aligned, numbers, pyarrow_parquet
from labeling.folder import inside
from labeling.places import Place, on_disk
from labeling.recipe import digest
from labeling.store import VideoLabels, open_store
from labeling.tracks import Tracks
from labeling.video import VideoError
from training.dataset_format import DatasetCategory, DatasetError
from training.manifest import PrepareConfig
from training.sources import Report, longest_episode, pieces
from training.sources.framing import Framing
from training.sources.labels import Labels, Stretch
from training.sources.reading import BLOCK, FrameReader, refuse_other_video
from training.takes import Layout, Take

VERSION = 2
PICTURES = ("video", "image")


class LeRobot:
    """The episodes of a LeRobot folder as takes."""

    def __init__(self, root: Path, config: PrepareConfig, store: str | Place | None = None) -> None:
        self._root, self._config = root, config
        self._info = _read_info(root)
        self.name, self.origin = root.resolve().name, str(root.resolve())
        self._camera, self._kind = _camera(self._info, root, config.camera)
        self._episodes = _read_episodes(root)
        features = self._info["features"]
        self._has_actions = "action" in features and config.use_actions
        self._has_state = "observation.state" in features
        actions = int(np.prod(features["action"]["shape"])) if self._has_actions else 0
        extra = {"state": int(np.prod(features["observation.state"]["shape"]))} if self._has_state else {}
        self.frames = sum(int(row["length"]) for row in self._episodes)
        self._longest = longest_episode(config.episode_frames, len(self._episodes), self.frames)
        self._labels, self._labels_of = self._open_labels(store)
        self.notes: list[str] = []
        self.categories: list[DatasetCategory] = []
        objects = 0
        if self._labels is not None:
            self.notes += self._labels.notes
            self.categories = self._labels.categories
            objects = self._labels.slots
            extra |= {"oriented": 5, "mass": 2}
        else:
            self.notes.append("No label store is given: only plain LeWM can be trained on it.")
        self.layout = Layout((config.size, config.size), actions, objects, extra)
        self.recipe = digest(
            kind="lerobot", version=VERSION, settings=config.model_dump(mode="json"), root=str(root.resolve()),
            files=_listing(root), labels={name: lab.attributes["recipe"] for name, lab in self._labels_of.items()},
        )  # fmt: skip
        self._tables: dict[str, Any] = {}
        self._tracks: dict[str, Tracks] = {}
        self._readers: dict[str, FrameReader] = {}

    def takes(self, report: Report) -> Iterator[Take]:
        """The takes of each episode."""
        for row in self._episodes:
            source = f"{self.name} episode {row['episode_index']}"
            try:
                yield from self._takes_of(row, source)
            except (DatasetError, VideoError) as error:
                report(source, str(error))
        self.notes += self._labels.crowds() if self._labels else []

    def _takes_of(self, row: dict[str, Any], source: str) -> Iterator[Take]:
        length = int(row["length"])
        if length < 1:
            raise DatasetError(f"{source} is empty.")
        file = self._file("data_path", "data", row)
        table = self._rows(file, row)
        if table.num_rows != length:
            raise DatasetError(f"{file} has {table.num_rows} rows of {source}, which should have {length}.")
        columns = {"actions": np.zeros((length, 0), np.float32)}
        if self._has_actions:
            columns["actions"] = aligned(_numbers(table, "action", file), length, file)
        if self._has_state:
            columns["state"] = _numbers(table, "observation.state", file)
        if self._kind == "image":
            yield from self._from_pictures(table, source, columns)
            return
        video = self._file("video_path", f"videos/{self._camera}", row)
        reader = self._reader(video)
        begin = self._begin(row)
        for start, stop in pieces(0, length, self._longest):
            part = {name: rows[start:stop] for name, rows in columns.items()}
            boxes, category, instance = self._boxes(video, begin + start, begin + stop, reader.framing, source)
            pictures = reader.blocks(begin + start, begin + stop)
            yield Take(source, start, pictures, part | boxes, category, instance)

    def _begin(self, row: dict[str, Any]) -> int:
        """An episode's first frame in its video file."""
        return round(float(row[f"videos/{self._camera}/from_timestamp"]) * float(self._info["fps"]))

    def _from_pictures(self, table: Any, source: str, columns: dict[str, np.ndarray]) -> Iterator[Take]:
        none = np.zeros(0, np.int32)
        cells = table.column(self._camera)
        for start, stop in pieces(0, table.num_rows, self._longest):
            part = {name: rows[start:stop] for name, rows in columns.items()}
            part["boxes"] = np.zeros((stop - start, 0, 4))
            yield Take(source, start, self._decoded(cells, start, stop, source), part, none, none)

    def _decoded(self, cells: Any, start: int, stop: int, source: str) -> Iterator[np.ndarray]:
        for low in range(start, stop, BLOCK):
            images = []
            for number, cell in enumerate(cells.slice(low, min(BLOCK, stop - low)).to_pylist(), low):
                image = cv2.imdecode(np.frombuffer(cell["bytes"] or b"", np.uint8), cv2.IMREAD_COLOR_RGB)
                if image is None:
                    raise DatasetError(f"{source} has a picture at frame {number} that cannot be decoded.")
                framing = Framing(image.shape[0], image.shape[1], self._config.size, self._config.letterbox)
                images.append(framing.picture(image))
            yield np.stack(images)

    def _boxes(
        self, video: Path, start: int, stop: int, framing: Framing, source: str
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Object columns, category and instance of a stretch of a video file."""
        if self._labels is None:
            none = np.zeros(0, np.int32)
            return {"boxes": np.zeros((stop - start, 0, 4))}, none, none
        labels = self._labels_of.get(video.relative_to(self._root).as_posix())
        if labels is None:
            raise DatasetError(f"{video} is not in the label store. Label the folder {self._root / 'videos'}.")
        if labels.id not in self._tracks:
            self._tracks = {labels.id: self._labels.store[labels.id].tracks}  # one at a time
        return self._labels.stretch(self._tracks[labels.id], start, stop, framing, source)

    def _file(self, template: str, key: str, row: dict[str, Any]) -> Path:
        """The file in which an episode's data or video is."""
        path = inside(self._root, self._name(template, key, row))
        if not path.is_file():
            raise DatasetError(f"{path} is missing: the dataset was not downloaded as a whole.")
        return path

    def _name(self, template: str, key: str, row: dict[str, Any]) -> str:
        """The path of an episode's file below the dataset's folder."""
        numbers = {name: int(row[f"{key}/{name}"]) for name in ("chunk_index", "file_index")}
        return str(self._info[template]).format(video_key=self._camera, **numbers)

    def _rows(self, file: Path, row: dict[str, Any]) -> Any:
        """The rows of an episode; one file is held at a time."""
        if str(file) not in self._tables:
            wanted = [
                "episode_index",
                *(name for name in ("action", "observation.state") if name in self._info["features"]),
            ]
            wanted += [self._camera] if self._kind == "image" else []
            self._tables = {str(file): _table(file, wanted)}
        table = self._tables[str(file)]
        inside = np.flatnonzero(table.column("episode_index").to_numpy() == int(row["episode_index"]))
        if len(inside) and len(inside) != inside[-1] - inside[0] + 1:
            raise DatasetError(f"{file}: the rows of episode {row['episode_index']} do not follow one another.")
        return table.slice(int(inside[0]) if len(inside) else 0, len(inside))

    def _reader(self, video: Path) -> FrameReader:
        """The reader of a video file; one is held at a time."""
        name = video.relative_to(self._root).as_posix()
        if name not in self._readers:
            reader = FrameReader(video, self._config.size, self._config.letterbox)
            if name in self._labels_of:
                refuse_other_video(reader.video, str(self._labels_of[name].attributes["sha256"]))
            self._readers = {name: reader}
        return self._readers[name]

    def _open_labels(self, store: str | Place | None) -> tuple[Labels | None, dict[str, VideoLabels]]:
        """The labels, and those of each video file by its path below the dataset's folder."""
        if store is None:
            return None, {}
        if self._kind != "video":
            raise DatasetError(
                f"{self._root}: {self._camera} is a column of pictures, which have no labels: no --store."
            )
        opened = open_store(store)
        found = {}
        for labels in (opened[id] for id in opened):
            path = (on_disk(opened.videos_folder, "the videos") / labels.source).resolve()
            if path.is_relative_to(self._root.resolve()):
                name = path.relative_to(self._root.resolve()).as_posix()
                if f"/{self._camera}/" in f"/{name}":
                    found[name] = labels
        if not found:
            raise DatasetError(f"{store} holds no labels of videos in {self._root}. Label {self._root / 'videos'}.")
        episodes: dict[str, list[Stretch]] = {labels.id: [] for labels in found.values()}
        for row in self._episodes:
            name = self._name("video_path", f"videos/{self._camera}", row)
            if name in found and int(row["length"]) > 0:
                begin = self._begin(row)
                parts = pieces(begin, begin + int(row["length"]), self._longest)
                episodes[found[name].id] += parts
        return Labels(opened, episodes, self._config), found


def _read_info(root: Path) -> dict[str, Any]:
    path = root / "meta" / "info.json"
    try:
        info: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    if not str(info.get("codebase_version", "")).startswith("v3"):
        raise DatasetError(
            f"{root} is a LeRobot dataset of version {info.get('codebase_version')}; convert it to v3.0 with "
            "lerobot's own converter first."
        )
    missing = [name for name in ("fps", "features", "data_path") if name not in info]
    if missing:
        raise DatasetError(f"{path} does not say {' and '.join(missing)}: fetch the dataset again.")
    return info


def _camera(info: dict[str, Any], root: Path, asked: str) -> tuple[str, str]:
    """Name and kind (video or image) of the camera to use."""
    cameras = {name: row["dtype"] for name, row in info["features"].items() if row["dtype"] in PICTURES}
    if asked and asked in cameras:
        return asked, str(cameras[asked])
    if asked or len(cameras) != 1:
        raise DatasetError(f"{root}: choose a camera with --camera NAME. There are: {', '.join(cameras) or 'none'}.")
    [(name, kind)] = cameras.items()
    return name, str(kind)


def _read_episodes(root: Path) -> list[dict[str, Any]]:
    """The table of episodes, in their order."""
    files = sorted((root / "meta" / "episodes").rglob("*.parquet"))
    rows = []
    for file in files:
        table = _table(file)
        plain = [name for name in table.column_names if not name.startswith("stats/")]
        rows += table.select(plain).to_pylist()
    if not rows:
        raise DatasetError(f"{root / 'meta' / 'episodes'} lists no episode.")
    return sorted(rows, key=lambda row: int(row["episode_index"]))


def _table(file: Path, columns: list[str] | None = None) -> Any:
    """A Parquet file; DatasetError if it is damaged or lacks a column."""
    parquet = pyarrow_parquet()
    try:
        if missing := set(columns or ()) - set(parquet.read_schema(file).names):
            raise DatasetError(f"{file} has no column {' and '.join(sorted(missing))}, which meta/info.json promises.")
        return parquet.read_table(file, columns=columns)
    except (OSError, ValueError) as error:  # as all of pyarrow's errors are
        raise DatasetError(f"{file} cannot be read: {error}. Fetch it again.") from error


def _numbers(table: Any, name: str, file: Path) -> np.ndarray:
    """A column as (rows, A); DatasetError if its rows are not alike or no numbers."""
    try:
        return numbers(table.column(name))
    except (TypeError, ValueError) as error:
        raise DatasetError(f"{file}: {name} does not have the same count of numbers in each row: {error}") from error


def _listing(root: Path) -> list[list[Any]]:
    """Names, sizes and times of all files: if they are the same, the content is taken to be."""
    files = sorted(path for part in ("meta", "data", "videos") for path in (root / part).rglob("*") if path.is_file())
    return [[path.relative_to(root).as_posix(), path.stat().st_size, path.stat().st_mtime_ns] for path in files]
