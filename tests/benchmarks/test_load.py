"""A flow run over many videos takes no more memory, open files or database than it may."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
VIDEOS = 60
MEMORY = {"flow": 32, "server": 48, "worker": 16}  # MiB of growth: far less than half a MiB a video would come to
DATABASE = 100  # KiB a video: two tasks, and a journal that does not grow with them


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("load")


def watched(load: ModuleType, last_hundred: float = 1.0, videos: int = 1000) -> Any:
    """A run as seen from outside: a second of a processor for ten videos, and then many for what follows them."""
    looks, spent, done = [], 5.0, 0

    def look(tracked: int, labeled: int) -> None:
        looks.append(load.Look(spent, {"flow": spent}, {}, {}, tracked, labeled, 0.0))

    for stage in ("tracked", "labeled"):
        for done in range(0, videos, 5):
            look(*((done, 0) if stage == "tracked" else (videos, done)))
            spent += 0.5 * (last_hundred if done >= videos - load.PART else 1.0)
        spent += 40.0  # the grouping, or the tables, before anybody looked again
    look(videos, videos)
    return load.Watched(None, Path(), Path(), looks)


@pytest.mark.parametrize("stage", ["tracked", "labeled"])
def test_what_a_run_does_after_its_last_video_is_no_videos_time(load: ModuleType, stage: str) -> None:
    pace = watched(load).pace(stage, lambda look: look.seconds["flow"])
    assert pace == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("stage", ["tracked", "labeled"])
def test_videos_that_take_longer_in_the_end_are_seen(load: ModuleType, stage: str) -> None:
    pace = watched(load, last_hundred=1.5).pace(stage, lambda look: look.seconds["flow"])
    assert pace == pytest.approx(1.5, abs=0.05)


def test_every_second_of_a_run_is_counted_once(load: ModuleType) -> None:
    run = watched(load)
    parts = run.parts()
    assert sum(parts.values()) == pytest.approx(run.seconds)
    assert parts["tracking"] == pytest.approx(parts["labeling"])
    assert parts["grouping"] > 40.0
    assert parts["tables and summary"] > 40.0


@pytest.mark.long
def test_sixty_videos_leave_little_behind(load: ModuleType, tmp_path: Path) -> None:
    run = load.start(load.make_clips(tmp_path / "clips", VIDEOS), tmp_path / "flow", "--flow")
    load.watch(run)
    assert run.process.wait() == 0, (tmp_path / "flow" / "output.txt").read_text()
    assert (run.looks[-1].tracked, run.looks[-1].labeled) == (VIDEOS, VIDEOS)
    for role, limit in MEMORY.items():
        assert load.growth(run, role) < limit, f"the {role} holds on to memory"
    for role, limit in load.OPEN_FILES.items():
        most = max(look.files.get(role, 0) for look in run.looks)
        assert 0 < most < limit, f"the {role} leaves files open"
    assert 0 < load.database_growth(run) / VIDEOS < DATABASE


@pytest.mark.long
def test_two_thousand_videos_keep_all_limits() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "load.py", "--videos", "2000"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "overhead of the flow run over plain Python" in done.stdout
