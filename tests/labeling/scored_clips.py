"""Stores and truth with boxes that a test writes down, for us and for TrackEval: 100 x 50 pixels, no videos."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from labeling.geometry import upright
from labeling.metrics import overlaps_of, present
from labeling.palette import colour_of
from labeling.store import SCHEMA, Store, write_tracks
from labeling.tracks import Tracks

FRAMES, HEIGHT, WIDTH = 10, 50, 100


def box(x: float, y: float = 5, width: float = 10, height: float = 10, speed: float = 2.0) -> np.ndarray:
    """A box (T, 4) that goes to the right."""
    left = x + speed * np.arange(FRAMES)[:, None]
    top = np.full_like(left, y)
    return np.concatenate([left, top, left + width, top + height], axis=1)


def only(boxes: np.ndarray, frames: slice) -> np.ndarray:
    """Boxes on some frames alone."""
    kept = np.full_like(boxes, np.nan)
    kept[frames] = boxes[frames]
    return kept


def swapped(one: np.ndarray, other: np.ndarray, at: int = 5) -> list[np.ndarray]:
    """Two tracks that change their objects on a frame."""
    return [np.concatenate([one[:at], other[at:]]), np.concatenate([other[:at], one[at:]])]


def store_with(
    path: Path, clips: dict[str, Sequence[np.ndarray]], category: Sequence[int] | None = None,
    names: Sequence[str] = ("ball", "door", "robot"), frames: int = FRAMES, videos: Path | None = None,
) -> Store:  # fmt: skip
    """A label store with the tracks of each clip, one array (T, 4) a track, the surest first."""
    root = zarr.open_group(str(path), mode="w", zarr_format=3)
    for source, tracks in clips.items():
        boxes = np.stack(tracks, 1).astype(np.float32) if len(tracks) else np.zeros((frames, 0, 4), np.float32)
        count = len(tracks)
        worth = np.linspace(0.9, 0.5, count, dtype=np.float32)
        group = root.create_group(f"videos/{source}")
        write_tracks(
            group,
            Tracks(
                np.arange(frames) / 10, boxes, upright(boxes), (boxes[..., :2] + boxes[..., 2:]) / 2,
                np.where(np.isnan(boxes[..., 0]), np.nan, worth).astype(np.float32),
                np.array(category[:count] if category else [0] * count, np.int32),
                np.arange(1, count + 1, dtype=np.int32), worth,
            ),
        )  # fmt: skip
        facts = {"source": source, "sha256": "0" * 64, "fps": 10.0, "frames": frames, "height": HEIGHT, "width": WIDTH}
        group.attrs.update(facts | {"recipe": "r", "cuts": [], "dropped": [], "complete": True})
    table = [{"id": k, "name": name, "colour": colour_of(k), "size": 1, "kept": True} for k, name in enumerate(names)]
    root.require_group("videos")
    root.attrs.update({
        "schema": SCHEMA, "profile": "embedded", "recipe": "r", "videos": str(videos or path.parent / "videos"),
        "categories": table, "failures": {},
    })  # fmt: skip
    return Store(path)


def thing(boxes: np.ndarray, name: str = "ball", **more: object) -> dict[str, object]:
    """An object as it stands in the JSON beside a clip."""
    rows = [None if np.isnan(row).any() else row.tolist() for row in boxes]
    return {"name": name, "boxes": rows} | more


def truth_beside(folder: Path, name: str, things: Sequence[dict[str, object]], **more: object) -> Path:
    """The JSON beside a clip, in a folder; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"video": f"{name}.mp4", "width": WIDTH, "height": HEIGHT, "frames": FRAMES, "kind": "all"}
    (folder / f"{name}.json").write_text(json.dumps(facts | {"objects": list(things)} | more))
    return folder


def as_trackeval(found: np.ndarray, true: np.ndarray) -> dict[str, Any]:
    """What TrackEval's metrics take."""
    names, similarity = {}, []
    for side, boxes in (("tracker", found), ("gt", true)):
        there = np.flatnonzero(present(boxes).any(axis=0))  # TrackEval numbers those that are seen
        names[side] = [np.searchsorted(there, np.flatnonzero(frame)) for frame in present(boxes)]
        names[f"num_{side}_ids"], names[f"num_{side}_dets"] = len(there), int(present(boxes).sum())
    for one, other in zip(found, true, strict=True):
        rows, columns = other[present(other)], one[present(one)]
        similarity.append(overlaps_of(rows[:, None], columns[None]).reshape(len(rows), len(columns)))
    return {
        "num_timesteps": len(true), "gt_ids": names.pop("gt"), "tracker_ids": names.pop("tracker"),
        "similarity_scores": similarity, **names,
    }  # fmt: skip
