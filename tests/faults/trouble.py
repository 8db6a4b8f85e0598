"""Trouble of the kinds that a week of unattended runs brings, made on purpose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.labeling.odd_videos import pictures, video


def write_clips(folder: Path, count: int = 3, frames: int = 24) -> Path:
    """A folder of short videos, each of another content."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        video(folder / f"{number}.mp4", np.roll(pictures(frames), 5 * number, axis=1))
    return folder


def files_in(store: Path) -> int:
    """How many files a store has by now."""
    return sum(len(names) for _, _, names in os.walk(store))


def start_label(videos: Path, out: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    """Start the command as a user would."""
    command = [sys.executable, "-m", "flows.cli", "label", str(videos), "--out", str(out), *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "400", **environment},
    )  # fmt: skip


def wait_for(what: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait until something is so; fail if it never is."""
    give_up = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < give_up, "it never came to that"
        time.sleep(0.005)


def workers_below(process: psutil.Process) -> list[psutil.Process]:
    """The processes below one in which videos are worked on."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "labeling.worker" in child.cmdline():
                    found.append(child)
    return found


@contextmanager
def strikes(out: Path, points: list[int], victims: Callable[[], list[psutil.Process]]) -> Iterator[list[int]]:
    """Meanwhile, kill a victim each time that the store has so many more files; yields the ids of the killed."""
    killed, ended = list[int](), threading.Event()

    def strike() -> None:
        for point in sorted(points):
            while files_in(out) < point and not ended.is_set():
                time.sleep(0.002)
            while not ended.is_set():
                if found := victims():
                    with suppress(psutil.NoSuchProcess):
                        found[0].send_signal(signal.SIGKILL)
                        killed.append(found[0].pid)
                    break
                time.sleep(0.002)

    striking = threading.Thread(target=strike)
    striking.start()
    try:
        yield killed
    finally:
        ended.set()
        striking.join()


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """A disk of so many bytes; the test is left out where nobody may mount one."""
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def remount(place: Path, options: str) -> None:
    """Change a mounted disk."""
    subprocess.run(["mount", "-o", f"remount,{options}", place], check=True)
