"""Clips to measure on, made here: textured scenes with objects that move, by a still or a moving camera."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np


def write_clip(path: Path, frames: int, height: int, width: int, fps: int, camera: float, objects: int = 2) -> Path:
    """Write a clip in which the camera drifts `camera` pixels a frame over a textured ground; reuse it if it exists."""
    if path.exists():
        return path
    rng = np.random.default_rng(0)
    ground = _texture(rng, height + 400, width + 400, coarse=40)
    things = [_texture(rng, height // 5, height // 5, coarse=8) for _ in range(objects)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps), options={"crf": "18", "preset": "veryfast"})
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        for index in range(frames):
            picture = av.VideoFrame.from_ndarray(_picture(ground, things, index, height, width, camera), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def _texture(rng: np.random.Generator, height: int, width: int, coarse: int) -> np.ndarray:
    """Smooth colours with finer grain on top, (height, width, 3) uint8."""
    layers = []
    for size, weight in ((coarse, 90), (max(2, coarse // 8), 25)):
        small = rng.uniform(-1, 1, (height // size + 2, width // size + 2, 3)).astype(np.float32)
        layers.append(weight * cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC))
    return np.clip(128 + sum(layers), 0, 255).astype(np.uint8)


def _picture(
    ground: np.ndarray, things: list[np.ndarray], index: int, height: int, width: int, camera: float
) -> np.ndarray:
    x = 200 + 190 * np.sin(camera * index / 190)
    shift = np.float32([[1, 0, -x], [0, 1, -200.0]])
    picture = cv2.warpAffine(ground, shift, (width, height), flags=cv2.INTER_LINEAR)
    for number, thing in enumerate(things):
        side = len(thing)
        phase = index / 40 + 2.1 * number
        left = int((width - side) * (0.5 + 0.45 * np.sin(phase)))
        top = int((height - side) * (0.5 + 0.4 * np.cos(0.7 * phase)))
        disc = cv2.circle(np.zeros((side, side), np.uint8), (side // 2, side // 2), side // 2 - 1, 1, -1) > 0
        picture[top : top + side, left : left + side][disc] = thing[disc]
    return picture
