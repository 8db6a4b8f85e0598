"""Label stores and videos made to order: what is in them is known exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from labeling.folder import video_id
from labeling.store import SCHEMA, Store, write_tracks
from labeling.tracks import Tracks
from labeling.video import Video
from training.envs.video import encode


def tracks_of(boxes, category, prominence=None) -> Tracks:
    """Tracks from boxes (T, N, 4) x1 y1 x2 y2, upright, centre of mass in the middle."""
    boxes = np.asarray(boxes, np.float32)
    frames, count = boxes.shape[:2]
    size = boxes[..., 2:] - boxes[..., :2]
    middle = (boxes[..., :2] + boxes[..., 2:]) / 2
    turned = size[..., 1:] > size[..., :1]
    sides = np.where(turned, size[..., ::-1], size)
    oriented = np.concatenate([middle, sides, np.where(turned, -np.pi / 2, 0.0)], axis=-1)
    return Tracks(
        time=np.arange(frames) / 10, boxes=boxes, oriented=oriented.astype(np.float32), mass=middle,
        score=np.ones((frames, count), np.float32), category=np.asarray(category, np.int32).reshape(count),
        instance=np.arange(count, dtype=np.int32) + 10,
        prominence=np.asarray(prominence if prominence is not None else np.linspace(1, 0.5, count), np.float32),
    )  # fmt: skip


def sliding_boxes(frames, count, width=64, height=48):
    """Boxes of `count` objects that move a pixel to the right every second frame, (T, N, 4)."""
    x = 4 + np.arange(frames)[:, None] * 0.5 % (width - 20) + np.zeros(count)
    y = 2 + np.arange(count) * 6 + np.zeros((frames, 1))
    return np.stack([x, y, x + 12, y + 5], axis=-1)


def still_frames(frames, height=48, width=64, colour=60):
    """Frames with a bright stripe that wanders, so that each is another: (T, H, W, 3)."""
    images = np.full((frames, height, width, 3), colour, np.uint8)
    for number, image in enumerate(images):
        image[:, number % width] = 200
    return images


@dataclass
class Labeled:
    """A folder of videos and its label store."""

    folder: Path
    store: Path
    kinds: set[int] = field(default_factory=set)

    def add(self, name: str, frames: np.ndarray, tracks: Tracks, **facts: object) -> Path:
        """Write a video and its labels."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        encode(path, frames, fps=10)
        video = Video(path)
        store = Store(self.store, mode="a")
        group = store.root.create_group(f"videos/{video_id(name)}", overwrite=True)
        write_tracks(group, tracks)
        group.update_attributes({
            "source": name, "sha256": video.sha256(), "fps": 10.0, "frames": len(tracks.time), "height": video.height,
            "width": video.width, "recipe": "made", "dropped": [], "complete": True, **facts,
        })  # fmt: skip
        self.kinds.update(tracks.category.tolist())
        table = [
            {"id": kind, "name": f"object-{kind + 1}", "colour": "#ffffff", "size": 1, "kept": True}
            for kind in sorted(self.kinds)
            if kind >= 0
        ]
        store.root.update_attributes({"categories": table})
        return path


def labeled_folder(root: Path) -> Labeled:
    """An empty folder of videos with an empty store."""
    (root / "videos").mkdir(parents=True)
    Store(root / "labels.zarr", mode="a").root.update_attributes({"schema": SCHEMA, "videos": str(root / "videos")})
    return Labeled(root / "videos", root / "labels.zarr")


def many(labeled: Labeled, count: int = 10, frames: int = 20, objects: int = 2) -> None:
    """So many videos that none needs to be cut."""
    for number in range(count):
        labeled.add(
            f"clip{number:02}.mp4", still_frames(frames), tracks_of(sliding_boxes(frames, objects), range(objects))
        )
