"""A flow run over many videos takes no more memory, open files or database than it may."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
VIDEOS = 60
MEMORY = {"flow": 32, "server": 48, "worker": 16}  # MiB of growth: far less than half a MiB a video would come to
DATABASE = 100  # KiB a video: two tasks, and a journal that does not grow with them


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("load")


@pytest.mark.slow
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
