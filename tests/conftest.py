"""Real videos from our simulators, and the real command in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from training.envs import make
from training.envs.video import record, write_episode

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one ball, three balls in a subfolder, and Two Room; 40 frames each. Not to be changed."""
    folder = tmp_path_factory.mktemp("videos")
    write_episode(folder / "one.mp4", record(make("nball", balls=1), 40, seed=1))
    write_episode(folder / "more" / "three.mp4", record(make("nball", balls=3), 40, seed=2))
    write_episode(folder / "room.mp4", record(make("two_room"), 40, seed=3))
    return folder


@pytest.fixture
def spectrabox(tmp_path: Path) -> Command:
    """Run the command as a user would; returns the finished process with its output."""

    def run(
        *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "flows.cli", *(str(argument) for argument in arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=cwd, env=env)

    return run
