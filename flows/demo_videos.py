"""A small folder of videos to try Spectrabox on, made by our own simulators.

`write_demo_videos(folder)` writes n-ball with one and three white balls and Two Room, always the same, and returns
their paths; what is there already stays as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

# file name -> environment, its options, frames, seed
DEMO: dict[str, tuple[str, dict[str, Any], int, int]] = {
    "one_ball.mp4": ("nball", {"balls": 1}, 150, 1),
    "three_balls.mp4": ("nball", {"balls": 3}, 150, 2),
    "two_rooms.mp4": ("two_room", {}, 160, 3),
}


def write_demo_videos(folder: Path) -> list[Path]:
    """Write the demo videos into `folder`; return their paths."""
    from training.envs import make
    from training.envs.video import record, write_episode

    paths = []
    for name, (environment, options, frames, seed) in DEMO.items():
        path = Path(folder) / name
        write_episode(path, record(make(environment, **options), frames, seed))
        paths.append(path)
    return paths
