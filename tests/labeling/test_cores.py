"""As many workers as there are cores that may be used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from labeling.cores import cores

ALONE = """
import os
from labeling.cores import cores
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(cores())
"""


def test_a_process_that_is_kept_to_one_core_has_one() -> None:
    assert subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True).stdout == "1\n"
    assert 1 <= cores() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("limit", "count"), [("max 100000", 64), ("150000 100000", 2), ("20000 100000", 1)])
def test_a_containers_share_counts(monkeypatch: pytest.MonkeyPatch, tmp_path, limit: str, count: int) -> None:
    """As Linux has it in /sys/fs/cgroup/cpu.max: microseconds in each period, or none."""
    share = tmp_path / "cpu.max"
    share.write_text(limit)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    plain = open

    def elsewhere(path, *arguments, **more):
        return plain(share if str(path) == "/sys/fs/cgroup/cpu.max" else path, *arguments, **more)

    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: str(path) == "/sys/fs/cgroup/cpu.max" or exists(path))
    monkeypatch.setattr("builtins.open", elsewhere)
    assert cores() == count
