"""An episode of a simulator as a video that the labeling reads, with actions and true boxes beside it if asked for.

`record` plays an episode, `write_episode` writes it as H.264 mp4 and, with `truth`, as JSON of the same name: video,
width, height, fps, frames, and per object a box or null for every frame; actions go to `clip.actions.npy`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from training.envs import Environment

QUALITY = 8  # x264's CRF: an edge stays true to a few grey levels, and flat ground costs nothing anyway


@dataclass(frozen=True)
class Episode:
    """What happened in a simulator."""

    environment: str
    seed: int
    fps: float
    frames: np.ndarray  # (T, H, W, 3) uint8
    actions: np.ndarray  # (T - 1, A), actions[t] leads from frame t to t + 1
    boxes: dict[str, np.ndarray]  # name -> (T, 4), NaN out of view
    parts: dict[str, str] = field(default_factory=dict)  # name -> the whole that it is a part of


def record(environment: Environment, frames: int, seed: int) -> Episode:
    """Play one episode of `frames` pictures with the environment's own policy."""
    rng = np.random.default_rng(seed)
    environment.reset(seed)
    states, actions, boxes = [environment.state()], [], [environment.boxes()]
    for _ in range(frames - 1):
        action = environment.policy(rng)
        environment.step(action)
        actions.append(action)
        states.append(environment.state())
        boxes.append(environment.boxes())
    return Episode(
        environment.name,
        seed,
        environment.fps,
        environment.draw(np.stack(states)),
        np.array(actions).reshape(-1, environment.action_size),
        {name: np.stack([frame[name] for frame in boxes]) for name in boxes[0]},
        getattr(environment, "parts", {}),
    )


def write_episode(path: Path, episode: Episode, truth: bool = False) -> bool:
    """Write an episode as mp4 (with `truth`, its actions and true boxes too); return whether anything on disk changed.

    A file that already holds the very same bytes is left alone. A reader never sees a half-written file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        encode(draft, episode.frames, episode.fps)
        changed = _settle(draft, path)
        if truth:
            draft.write_text(json.dumps(ground_truth(path.name, episode)))
            changed = _settle(draft, path.with_suffix(".json")) or changed
            with draft.open("wb") as file:
                np.save(file, episode.actions.astype(np.float32))
            changed = _settle(draft, path.with_suffix(".actions.npy")) or changed
    finally:
        draft.unlink(missing_ok=True)
    return changed


def encode(path: Path, frames: np.ndarray, fps: float, quality: int = QUALITY) -> None:
    """Write frames (T, H, W, 3) as an H.264 mp4 at a constant rate; the same frames give the same bytes."""
    with av.open(f"file:{path}", "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001))
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        stream.codec_context.thread_count = 1
        # x264's macroblock tree reads memory that it never wrote where frames are this small: other bytes each time.
        stream.codec_context.options = {"crf": str(quality), "preset": "medium", "mbtree": "0"}
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


def ground_truth(video: str, episode: Episode) -> dict[str, Any]:
    """The true boxes of an episode as plain data; null where an object is out of view."""
    count, height, width = episode.frames.shape[:3]
    objects: list[dict[str, Any]] = []
    for name, boxes in (episode.boxes | wholes(episode)).items():
        boxes = boxes.clip(0, [width, height, width, height])
        rows = [np.round(box, 3).tolist() if (box[2:] > box[:2]).all() else None for box in boxes]
        whole = episode.parts.get(name)
        belongs = {"role": "part", "group": whole} if whole else {"role": "main"}
        if name in episode.parts.values():
            belongs["group"] = name
        objects.append({"id": len(objects) + 1, "name": name, **belongs, "boxes": rows})
    return {
        "video": video,
        "width": width,
        "height": height,
        "fps": episode.fps,
        "frames": count,
        "kind": "all-moving",
        "family": episode.environment,
        "objects": objects,
        "box_type": "amodal",
        "source": f"{episode.environment} seed {episode.seed}",
    }


def wholes(episode: Episode) -> dict[str, np.ndarray]:
    """Boxes (T, 4) around all parts of each thing that has parts: one who looks sees a robot, not its links."""
    found = {}
    for whole in dict.fromkeys(episode.parts.values()):
        parts = np.stack([boxes for name, boxes in episode.boxes.items() if episode.parts.get(name) == whole])
        low, high = np.fmin.reduce(parts[..., :2]), np.fmax.reduce(parts[..., 2:])
        found[whole] = np.concatenate([low, high], axis=-1)
    return found


def _settle(draft: Path, path: Path) -> bool:
    """Put a finished draft in its place, unless the same bytes are there already."""
    if path.is_file() and path.read_bytes() == draft.read_bytes():
        return False
    os.replace(draft, path)
    return True
