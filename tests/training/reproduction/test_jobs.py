"""Jobs in processes of their own say how they are getting on, and why they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from training.dataset_format import DatasetError
from training.reproduction.jobs import STOPPED, Hear, Jobs

ROOT = Path(__file__).parents[3]


def tell(words: str, hear: Hear) -> None:
    hear(words)
    hear(os.environ["OMP_NUM_THREADS"])
    hear(str({pool["num_threads"] for pool in threadpool_info()}))


def fail(kind: str, hear: Hear) -> None:
    if kind == "ours":
        raise DatasetError("There is nothing\nthere.")
    if kind == "any":
        raise KeyError("gone")
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)


def wait(file: str, hear: Hear) -> None:
    Path(file).write_text(str(os.getpid()))
    hear("waiting")
    time.sleep(60)


def test_a_job_is_heard_and_has_its_threads() -> None:
    heard: list[str] = []
    assert Jobs().do(tell, (np.str_("half way"),), heard.append, threads=1) == ""
    assert heard == ["half way", "1", "{1}"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("ours", "There is nothing there."),
        ("any", "KeyError: 'gone'"),
        ("killed", "its process was ended by signal 9"),
        ("exit", "its process ended with exit code 3"),
    ],
)
def test_a_job_that_fails_says_why(kind: str, reason: str) -> None:
    assert Jobs().do(fail, (kind,), lambda what: None) == reason


def test_jobs_are_stopped(tmp_path: Path) -> None:
    jobs, begun, ended = Jobs(), threading.Event(), list[str]()
    job = threading.Thread(
        target=lambda: ended.append(jobs.do(wait, (str(tmp_path / "pid"),), lambda what: begun.set()))
    )
    job.start()
    assert begun.wait(30)
    jobs.stop()
    job.join(10)
    assert ended == [STOPPED]
    assert jobs.do(wait, (str(tmp_path / "later"),), lambda what: None) == STOPPED  # and none starts after them
    assert not (tmp_path / "later").exists()
    assert not _alive(int((tmp_path / "pid").read_text()))


def test_a_job_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text(
        "from tests.training.reproduction.test_jobs import Jobs, wait\n"
        f"if __name__ == '__main__':\n    Jobs().do(wait, ({str(tmp_path / 'pid')!r},), print)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.DEVNULL)
    give_up = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < give_up
        time.sleep(0.02)
    child = int((tmp_path / "pid").read_text())
    assert _alive(child)
    parent.kill()
    parent.wait()
    give_up = time.monotonic() + 10
    while _alive(child) and time.monotonic() < give_up:
        time.sleep(0.02)
    assert not _alive(child)


def _alive(process: int) -> bool:
    """Whether it runs; one that has ended and that nobody asked about yet does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
