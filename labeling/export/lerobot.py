"""Labels, frames and actions as a LeRobot v3 dataset.

A folder: `meta/` (info, stats, tasks, episodes), `data/` with a Parquet file and `videos/` with an mp4 for each video.
Boxes are features: `observation.boxes` (N, 4), x1 y1 x2 y2 in pixels, zeros where an object is absent, and
`observation.boxes_present` (N) that says where it is; their names say what the places 0 to N - 1 stand for. Every frame
is kept; LeRobot knows one whole number of frames a second, so times are those of the frame's number.
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import av
import numpy as np

from labeling.export.frames import Fitting, fitting, joined
from labeling.export.job import Chosen, Job
from labeling.export.lerobot_statistics import Statistics
from labeling.export.packages import needed
from labeling.export.pictures import write_sidecar
from labeling.export.slots import Slots
from labeling.store import VideoLabels
from labeling.video import VideoError

CAMERA = "observation.images.video"
BOXES, PRESENT = "observation.boxes", "observation.boxes_present"
INDEXES = ("frame_index", "episode_index", "index", "task_index")
CHUNK = 1000  # files in a folder
TASK = "not stated"
QUALITY = {"crf": "18", "preset": "veryfast", "g": "2"}  # a key frame every other one, for windows anywhere
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"


def write(job: Job, out: Path) -> None:
    """Write all labels into the folder `out`."""
    arrow, parquet = needed("pyarrow", job.format), needed("pyarrow.parquet", job.format)
    pandas = needed("pandas", job.format)
    common = fitting(job, one_rate=True)
    plan = _Plan(Slots(job), common, max(1, round(common.rate)))
    statistics: dict[str, Statistics] = {}
    episodes: list[dict[str, Any]] = []
    rows = 0
    for labels in sorted(job.videos(), key=lambda labels: job.split[labels.id]):  # splits are stretches of episodes
        number = len(episodes)
        place = {"chunk_index": number // CHUNK, "file_index": number % CHUNK}
        data, video = out / DATA.format(**place), out / VIDEO.format(video_key=CAMERA, **place)
        for path in (data, video):
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            found = _write_episode(job, labels, plan, (number, rows), data, video)
        except VideoError as error:
            job.problems[labels.source] = str(error)
            for path in (data, video):
                path.unlink(missing_ok=True)
            continue
        for name in found:
            statistics[name] = statistics.get(name, Statistics()) + found[name]
        count = labels.frames
        episodes.append({
            "episode_index": number, "tasks": [TASK], "length": count, "dataset_from_index": rows,
            "dataset_to_index": rows + count, "data/chunk_index": place["chunk_index"],
            "data/file_index": place["file_index"], f"videos/{CAMERA}/chunk_index": place["chunk_index"],
            f"videos/{CAMERA}/file_index": place["file_index"], f"videos/{CAMERA}/from_timestamp": 0.0,
            f"videos/{CAMERA}/to_timestamp": count / plan.fps, "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0, "source": labels.source, "split": job.split[labels.id],
        })  # fmt: skip
        rows += count
    if not episodes:
        return  # whoever called says what is wrong with all of them
    _write_meta(job, out, plan, episodes, statistics)
    table = out / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    table.parent.mkdir(parents=True)
    parquet.write_table(arrow.Table.from_pylist(episodes), table)
    pandas.DataFrame({"task_index": [0]}, index=[TASK]).to_parquet(out / "meta" / "tasks.parquet")
    write_sidecar(job, out)


@dataclass(frozen=True)
class _Plan:
    """What all episodes have in common."""

    slots: Slots
    common: Fitting
    fps: int

    @cached_property
    def features(self) -> dict[str, dict[str, Any]]:
        """The columns as LeRobot describes them."""
        return _features(self.common, self.slots, self.fps)


def _features(common: Fitting, slots: Slots, fps: int) -> dict[str, dict[str, Any]]:
    height, width = common.size or (1, 1)
    facts = {
        "video.height": height, "video.width": width, "video.codec": "h264",
        "video.pix_fmt": _pixel_format(height, width), "video.is_depth_map": False, "video.fps": fps,
        "video.channels": 3, "has_audio": False,
    }  # fmt: skip
    features: dict[str, dict[str, Any]] = {
        CAMERA: {"dtype": "video", "shape": [height, width, 3], "names": ["height", "width", "channels"], "info": facts}
    }
    if len(slots):
        edges = [f"{name}.{edge}" for name in slots.names for edge in ("x1", "y1", "x2", "y2")]
        features[BOXES] = {"dtype": "float32", "shape": [len(slots), 4], "names": edges, "category": slots.kinds}
        features[PRESENT] = {"dtype": "bool", "shape": [len(slots)], "names": slots.names}
    if common.actions:
        names = [f"action_{place}" for place in range(common.actions)]
        features["action"] = {"dtype": "float32", "shape": [common.actions], "names": names}
    for name, dtype in (("timestamp", "float32"), *((key, "int64") for key in INDEXES)):
        features[name] = {"dtype": dtype, "shape": [1], "names": None}
    return features


def _write_episode(
    job: Job, labels: VideoLabels, plan: _Plan, start: tuple[int, int], data: Path, video: Path
) -> dict[str, Statistics]:  # fmt: skip
    """Write a video at a constant rate and its columns, block by block; VideoError if it cannot be read.

    Args:
        job: The export.
        labels: The labels of the video.
        plan: What all episodes have in common.
        start: Number of the episode and of its first row.
        data: The Parquet file.
        video: The mp4.
    """
    arrow, parquet = needed("pyarrow", job.format), needed("pyarrow.parquet", job.format)
    height, width = labels.size
    found: dict[str, Statistics] = defaultdict(Statistics)
    done, writer = 0, None
    with ExitStack() as stack:
        container = stack.enter_context(av.open(str(video), "w", options={"movflags": "+faststart"}))
        stream = container.add_stream("libx264", rate=plan.fps, options=QUALITY)
        stream.height, stream.width, stream.pix_fmt = height, width, _pixel_format(height, width)
        for frames, chosen, action in joined(job, labels, plan.common.actions):
            for frame in frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame.image, format="rgb24")))
            for frame in frames[:1]:  # one in so many is enough to know the colours
                found[CAMERA].add(frame.image.reshape(-1, 3) / 255.0)
            columns = _columns(chosen, action, plan, (start[0], start[1] + done, done))
            table = arrow.table({name: _cells(arrow, columns[name]) for name in plan.features if name in columns})
            writer = writer or stack.enter_context(parquet.ParquetWriter(data, table.schema))
            writer.write_table(table)
            for name in (BOXES, "action", "timestamp"):
                if name in table.column_names:
                    found[name].add(columns[name])
            done += len(chosen.tracks.time)
        container.mux(stream.encode(None))
    return found


def _columns(chosen: Chosen, action: np.ndarray, plan: _Plan, start: tuple[int, int, int]) -> dict[str, np.ndarray]:
    """The columns of some frames that begin at this episode, row and frame."""
    episode, row, frame = start
    count = len(chosen.tracks.time)
    index = np.arange(frame, frame + count)
    places = plan.slots.places(chosen.tracks.category)
    return {
        BOXES: plan.slots.spread(np.nan_to_num(chosen.tracks.boxes), places, 0),
        PRESENT: plan.slots.spread(chosen.tracks.present, places, False), "action": action,
        "timestamp": (index / plan.fps).astype(np.float32), "frame_index": index,
        "episode_index": np.full(count, episode), "index": np.arange(row, row + count),
        "task_index": np.zeros(count, np.int64),
    }  # fmt: skip


def _cells(arrow: Any, values: np.ndarray) -> Any:
    """A column of numbers, of lists or of lists of lists, as LeRobot stores them: a list of one is a number."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    column = arrow.array(values.reshape(-1))
    for length in reversed(values.shape[1:]):
        column = arrow.FixedSizeListArray.from_arrays(column, length)
    if values.ndim == 3:  # the library has extension types for these, over lists of any length
        column = column.cast(arrow.list_(arrow.list_(column.type.value_type.value_type)))
    return column


def _write_meta(
    job: Job, out: Path, plan: _Plan, episodes: list[dict[str, Any]], statistics: dict[str, Statistics]
) -> None:
    splits = [row["split"] for row in episodes]
    held_out = splits.count("val")
    info = {
        "codebase_version": "v3.0", "robot_type": None, "total_episodes": len(episodes),
        "total_frames": episodes[-1]["dataset_to_index"], "total_tasks": 1, "chunks_size": CHUNK,
        "data_files_size_in_mb": 100, "video_files_size_in_mb": 200, "fps": plan.fps,
        "splits": {"train": f"0:{len(splits) - held_out}", "val": f"{len(splits) - held_out}:{len(splits)}"},
        "data_path": DATA, "video_path": VIDEO, "features": plan.features,
        "licence_of_videos": job.config.licence or None,
    }  # fmt: skip
    if not held_out:
        del info["splits"]["val"]
    stats = {name: found.summary(is_picture=name == CAMERA) for name, found in statistics.items()}
    (out / "meta").mkdir(exist_ok=True)
    (out / "meta" / "info.json").write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")
    (out / "meta" / "stats.json").write_text(json.dumps(stats, indent=1) + "\n", encoding="utf-8")


def _pixel_format(height: int, width: int) -> str:
    """Half the resolution for colours, as every player wants it; odd sizes cannot be halved."""
    return "yuv444p" if height % 2 or width % 2 else "yuv420p"
