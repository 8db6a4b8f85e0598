"""Short videos of one kind of thing each: discs of a colour that cross a still ground."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.labeling import odd_videos
from tests.labeling.moving_discs import BLUE, GREEN, RED, draw, line

COLOURS = {"red": RED, "blue": BLUE, "green": GREEN}
FRAMES, SHAPE = 24, (64, 96)


def clip(path: Path, colour: str, discs: int = 1, start: float = 12.0) -> Path:
    """Write a video of so many discs below one another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    things = [(line((start, 14 + 34 * row), (2.5, 0)), COLOURS[colour], 8.0) for row in range(discs)]
    frames = np.stack([draw(things, frame, SHAPE, seed=1)[0] for frame in range(FRAMES)])
    return odd_videos.video(path, frames)
