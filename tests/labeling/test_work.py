"""Workers are kept, replaced when somebody kills them, and ended when nobody needs them."""

from __future__ import annotations

import queue
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import zarr

from labeling.config import LabelConfig
from labeling.folder import find_videos
from labeling.isolation import Worker, WorkerKilled, _forward
from labeling.jobs import Job
from labeling.pipeline import open_run
from labeling.problems import RunError, VideoError
from labeling.work import ATTEMPTS, Workers
from tests.faults.trouble import wait_for, workers_below, write_clips


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    folder = find_videos(write_clips(tmp_path / "clips", count=2))
    open_run(tmp_path / "labels.zarr", folder.root, LabelConfig())
    return [Job("track", tmp_path / "labels.zarr", source, run="a run") for source in folder.sources]


def pids() -> list[int]:
    return [worker.pid for worker in workers_below(psutil.Process())]


def test_a_worker_is_kept_for_the_next_job_and_ends_when_there_is_none(jobs: list[Job]) -> None:
    workers = Workers(idle=1.5)
    assert not workers.do(jobs[0]).failure
    (first,) = pids()
    assert not workers.do(jobs[1]).failure
    assert pids() == [first]
    wait_for(lambda: not pids(), 30)
    assert not workers.do(jobs[0]).failure, "another is started"
    workers.end("a run")
    assert not pids()
    with pytest.raises(RunError, match="was stopped"):
        workers.do(jobs[0])


def test_a_killed_worker_is_replaced_but_not_for_ever(jobs: list[Job]) -> None:
    workers, killed = Workers(), list[int]()

    def kill(times: int) -> None:
        if len(killed) < times and (found := workers_below(psutil.Process())):
            killed.append(found[0].pid)
            found[0].kill()

    assert not workers.do(jobs[0], lambda done, expected: kill(1)).failure
    assert len(killed) == 1
    failure = workers.do(jobs[0], lambda done, expected: kill(1 + ATTEMPTS)).failure
    assert "0.mp4: the worker was killed (SIGKILL), as a system short of memory does." in failure
    assert len(set(killed)) == 1 + ATTEMPTS
    assert not workers.do(jobs[1]).failure
    workers.end("a run")


def test_a_worker_that_dies_while_given_a_job_was_killed(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pipe is gone a moment before its process is: what could not be sent must not be sent again at the end."""
    worker = Worker()
    process = worker.start()
    process.kill()
    process.wait()
    monkeypatch.setattr(worker, "start", lambda: process)
    with pytest.raises(WorkerKilled, match=r"0.mp4: the worker was killed"):
        worker.run(jobs[0])


def test_half_an_answer_of_a_killed_worker_is_not_heard() -> None:
    code = """import os; os.write(1, b'{"done": 1, "total": 2}\\n{"done": 2, "to'); os.kill(os.getpid(), 9)"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    answers: queue.Queue[str | None] = queue.Queue()
    with process:
        _forward(process, answers)
    assert [answers.get_nowait() for _ in range(2)] == ['{"done": 1, "total": 2}\n', None]


def test_what_nobody_thought_of_is_told_and_not_taken_for_a_crash(jobs: list[Job]) -> None:
    """An error of a library, say: the user reads what it says."""

    class Odd(Job):
        def as_json(self) -> dict[str, object]:
            return {**super().as_json(), "config": {"longest_side": "odd"}}

    odd, worker = Odd("track", jobs[0].store, jobs[0].source), Worker()
    with pytest.raises(VideoError, match=r"0.mp4: labeling stopped unexpectedly: .*Please report this"):
        worker.run(odd)
    assert worker.run(jobs[0])["frames"] == 24, "another is started"
    worker.close()


def test_a_store_that_is_damaged_meanwhile_ends_the_run_and_is_no_fault_of_a_video(jobs: list[Job]) -> None:
    zarr.open_group(str(jobs[0].store), mode="r+").create_group("vocabulary", attributes={"complete": True})
    worker = Worker()
    with pytest.raises(RunError, match="vocabulary/prototypes is damaged"):
        worker.run(replace(jobs[0], stage="label"))
    worker.close()
