"""Which frames and crops show a video best?

Takes the labels of one video and returns a `VideoView`: what the report says about it, the frames of its strip and the
best view of each track. Nothing is decoded here, and nothing that is kept grows with the video's length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from labeling.report.charts import Lane, lane, ticks
from labeling.store import VideoLabels
from labeling.tracks import Tracks

STRIP = 6  # frames of a video in the report
LANES = 40  # tracks in a timeline
DROPS = 30  # dropped tracks that are listed one by one
EDGE = 2.0  # pixels; a box this near to the frame's edge may be cut off

REASONS = {
    "static": "never moves relative to the scene",
    "tiny": "too small to tell what it is",
    "short-lived": "seen too briefly",
    "background-like": "as large as the background",
    "faint": "matters little beside the others",
}


@dataclass(frozen=True)
class Mark:
    """A box on a picture, in per cent of its size."""

    instance: int
    category: int
    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Still:
    """A frame of the strip."""

    frame: int
    time: float
    marks: list[Mark]


@dataclass(frozen=True)
class BestView:
    """Where a track is seen best."""

    video: str
    source: str
    instance: int
    category: int
    prominence: float
    frame: int
    box: tuple[float, float, float, float]  # in pixels of the original video

    @property
    def side(self) -> float:
        """The longer side of the box."""
        return max(self.box[2] - self.box[0], self.box[3] - self.box[1])


@dataclass(frozen=True)
class VideoView:
    """What the report says about a video."""

    id: str
    source: str
    sha256: str
    height: int
    width: int
    fps: float
    frames: int
    seconds: float
    tracks: int
    categories: list[int]  # most frequent first
    strip: list[Still]
    lanes: list[Lane]
    ticks: list[tuple[float, str]]  # where in per cent, and what stands there
    dropped: Counter[str]
    drops: list[dict[str, object]]
    best: list[BestView] = field(repr=False)

    @property
    def reasons(self) -> list[tuple[int, str, str]]:
        """How many tracks were dropped for each reason: count, reason, the reason in words."""
        return [(count, reason, REASONS.get(reason, "")) for reason, count in self.dropped.most_common()]


def view(labels: VideoLabels) -> VideoView:
    """Look at the labels of one video."""
    tracks = labels.tracks
    height, width = labels.size
    fps = float(labels.attributes.get("fps") or 0) or 24.0
    seconds = float(tracks.time[-1] if len(tracks.time) else 0) + 1 / fps
    kinds = Counter(tracks.category.tolist())
    return VideoView(
        labels.id, labels.source, str(labels.attributes["sha256"]), height, width, fps, labels.frames, seconds,
        len(tracks),
        [kind for kind, _ in kinds.most_common()],
        [_still(tracks, frame, labels.size) for frame in strip_frames(tracks.present)],
        [lane(tracks, index, seconds, fps) for index in range(min(LANES, len(tracks)))],
        ticks(seconds),
        Counter(str(row["reason"]) for row in labels.reasons),
        labels.reasons[:DROPS],
        best_views(labels),
    )  # fmt: skip


def strip_frames(present: np.ndarray, count: int = STRIP) -> list[int]:
    """Frames spread over a video: around the middle of each part, one that shows most objects; (T, N) bool in."""
    frames = len(present)
    edges = np.linspace(0, frames, min(count, frames) + 1).round().astype(int)
    shown = present.sum(1)
    chosen = []
    for begin, end in pairwise(edges.tolist()):
        quarter = (end - begin) // 4
        near = np.arange(begin + quarter, end - quarter)
        most = near[shown[near] == shown[near].max()]
        chosen.append(int(most[np.abs(most - (begin + end - 1) / 2).argmin()]))
    return chosen


def best_views(labels: VideoLabels) -> list[BestView]:
    """The frame on which each track is large, clear, whole and free of others."""
    tracks = labels.tracks
    height, width = labels.size
    boxes = tracks.boxes.astype(np.float64)
    area = np.prod(boxes[..., 2:] - boxes[..., :2], axis=2)
    whole = (boxes[..., :2] > EDGE).all(2) & (boxes[..., 2] < width - EDGE) & (boxes[..., 3] < height - EDGE)
    views = []
    for track in range(len(tracks)):
        if not tracks.present[:, track].any():
            continue
        free = 1 - np.minimum(1, _covered(boxes, track) / np.maximum(area[:, track], 1e-9))
        worth = np.sqrt(area[:, track]) * tracks.score[:, track] * np.where(whole[:, track], 1, 0.3) * (0.1 + free)
        frame = int(np.nanargmax(worth))
        x1, y1, x2, y2 = boxes[frame, track].tolist()
        views.append(
            BestView(
                labels.id, labels.source, int(tracks.instance[track]), int(tracks.category[track]),
                float(tracks.prominence[track]), frame, (x1, y1, x2, y2),
            )
        )  # fmt: skip
    return views


def choose_examples(views: Sequence[VideoView], per_category: int) -> dict[int, list[BestView]]:
    """Example views of each category: the most prominent tracks, from as many videos as there are."""
    pools: dict[int, dict[str, list[BestView]]] = {}
    for video in views:
        for best in video.best:
            pools.setdefault(best.category, {}).setdefault(video.id, []).append(best)
    chosen: dict[int, list[BestView]] = {}
    for kind, by_video in pools.items():
        ranked = [sorted(found, key=lambda best: -best.prominence) for found in by_video.values()]
        rounds = [(turn, -found[turn].prominence, found[turn]) for found in ranked for turn in range(len(found))]
        rounds.sort(key=lambda entry: entry[:2])
        chosen[kind] = [best for _, _, best in rounds[:per_category]]
    return chosen


def _covered(boxes: np.ndarray, track: int) -> np.ndarray:
    """Area of a track's boxes that lies under the other tracks' boxes, (T,), counted once per other box."""
    total = np.zeros(len(boxes))
    own = boxes[:, track]
    for other in range(boxes.shape[1]):
        if other != track:
            low, high = np.maximum(own[:, :2], boxes[:, other, :2]), np.minimum(own[:, 2:], boxes[:, other, 2:])
            total += np.nan_to_num(np.prod(np.clip(high - low, 0, None), axis=1))
    return total


def _still(tracks: Tracks, frame: int, size: tuple[int, int]) -> Still:
    height, width = size
    marks = []
    for track in np.flatnonzero(tracks.present[frame])[::-1]:
        x1, y1, x2, y2 = np.clip(tracks.boxes[frame, track], 0, [width, height, width, height]).tolist()
        marks.append(
            Mark(
                int(tracks.instance[track]), int(tracks.category[track]), 100 * x1 / width, 100 * y1 / height,
                100 * (x2 - x1) / width, 100 * (y2 - y1) / height,
            )
        )  # fmt: skip
    return Still(frame, float(tracks.time[frame]), marks)
