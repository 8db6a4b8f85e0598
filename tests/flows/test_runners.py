"""Wherever the tasks of the flow run: the same store bit for bit, networks loaded once, turns on the GPU."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import psutil
import pytest
import torch
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.exceptions import ObjectAlreadyExists

from flows import evaluate_world_model, reproduce, runners, train_world_model
from flows.label_videos import label, label_videos, track
from flows.runners import GPU_LIMIT, RunnerName, gpu_turn, lots
from labeling import devices
from labeling.config import load_config
from labeling.folder import Source
from labeling.jobs import Done, Job
from labeling.locks import is_quiet
from labeling.problems import RunError
from labeling.run import label_folder
from tests.faults.trouble import wait_for
from tests.labeling.odd_videos import pictures, video
from tests.labeling.test_run import contents

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three short videos."""
    folder = tmp_path_factory.mktemp("clips")
    for number in range(3):
        video(folder / f"{number}.mp4", np.roll(pictures(20), 5 * number, axis=1))
    return folder


@pytest.fixture(scope="module")
def expected(clips: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("expected") / "labels.zarr"
    assert not label_folder(clips, out, workers=1).failed
    return contents(out)


@contextmanager
def worker_processes() -> Iterator[set[psutil.Process]]:
    """All processes below this one in which videos were worked on meanwhile."""
    seen, ended = set[psutil.Process](), threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):  # it has just ended
                    if "labeling.worker" in child.cmdline():
                        seen.add(child)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()


@pytest.mark.parametrize("runner", ["threads", "processes", "dask"])
def test_every_runner_writes_the_same_store_and_keeps_its_worker(
    api: str, clips: Path, expected: dict[str, bytes], tmp_path: Path, runner: RunnerName
) -> None:
    out, before = tmp_path / "labels.zarr", psutil.Process().children()
    with worker_processes() as seen:
        summary = label_videos(clips, out, workers=1, runner=runner)
    assert not summary.failed
    assert all(outcome.fps for outcome in summary.outcomes)
    assert contents(out) == expected
    assert len(seen) == 1, "the process that tracked the first video, and has its networks, does all the others"
    _, left = psutil.wait_procs(seen, timeout=10)
    assert not left, "it outlives the run"
    wait_for(lambda: {"track 0.mp4", "label 2.mp4"} <= tasks_of_the_last_run(api))  # the server writes them late
    servers = [child for child in psutil.Process().children() if child not in before and "uvicorn" in child.cmdline()]
    assert not servers, "Prefect started another server"


def test_many_videos_share_tasks(
    api: str, clips: Path, expected: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three are many here, and two are the most for a task; one task is handed in at a time."""
    for limit, value in {"MANY": 3, "SHARES": 1, "LARGEST": 2, "AHEAD": 1}.items():
        monkeypatch.setattr(runners, limit, value)
    assert not label_videos(clips, tmp_path / "labels.zarr", workers=1).failed
    assert contents(tmp_path / "labels.zarr") == expected
    shared = {f"{stage} {lot}" for stage in ("track", "label") for lot in ("0.mp4 and 1 more", "2.mp4")}
    wait_for(lambda: shared <= tasks_of_the_last_run(api))


def test_a_task_has_the_store_also_between_two_videos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Dask worker goes on with its task when the flow is killed: the next run must not begin in between."""
    (tmp_path / "labels.zarr" / "stages").mkdir(parents=True)
    quiet = list[bool]()

    def look(job: Job, progress: object = None) -> Done:
        quiet.append(is_quiet(job.store))
        return Done(job.source)

    monkeypatch.setattr("flows.label_videos.work", look)
    jobs = [Job("track", tmp_path / "labels.zarr", Source(name, name, Path(name))) for name in ("0.mp4", "1.mp4")]
    track.fn(jobs)
    label.fn(jobs)
    assert quiet == [False] * 4
    assert is_quiet(jobs[0].store)


def test_lots_are_large_where_videos_are_many_and_small_in_the_end() -> None:
    jobs = [Job("track", Path("labels.zarr"), Source(name, name, Path(name))) for name in map(str, range(2000))]
    sizes = [len(lot) for lot in lots(jobs)]
    assert [job for lot in lots(jobs) for job in lot] == jobs
    assert len(sizes) < len(jobs) / 10
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) == runners.LARGEST
    assert set(sizes[-5:]) == {1}
    assert {len(lot) for lot in lots([replace(job, stage="label") for job in jobs])} == {runners.LARGEST}
    assert {len(lot) for lot in lots(jobs[: runners.MANY - 1])} == {1}
    assert {len(lot) for lot in lots(jobs, strict=True)} == {1}
    networks = [replace(job, config=load_config(profile="foundation")) for job in jobs]
    assert {len(lot) for lot in lots(networks)} == {1}


def tasks_of_the_last_run(api: str) -> set[str]:
    (run,) = httpx.post(f"{api}/flow_runs/filter", json={"sort": "START_TIME_DESC", "limit": 1}).json()
    wanted = {"flow_runs": {"id": {"any_": [run["id"]]}}}
    return {task["name"] for task in httpx.post(f"{api}/task_runs/filter", json=wanted).json()}


def test_a_cluster_that_is_not_there_is_named_at_once(api: str, clips: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:9\. Start one"):
        label_videos(clips, tmp_path / "labels.zarr", runner="dask", address="tcp://127.0.0.1:9")
    with pytest.raises(RunError, match="Say --runner dask"):
        label_videos(clips, tmp_path / "labels.zarr", address="tcp://127.0.0.1:9")


def test_work_on_a_gpu_waits_for_its_turn(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no GPU here: networks are told that there is one, and nothing but the waiting is done."""
    monkeypatch.setattr(devices, "torch_device", lambda name: torch.device("cpu" if name == "cpu" else "cuda"))
    assert at_once("auto", 3) == 3, "nobody waits for a limit that was not created"
    asyncio.run(limit_of_one())
    assert at_once("auto", 1) == 1
    assert at_once("cpu", 3) == 3
    assert at_once("auto", 3, networks=False) == 3


def at_once(device: str, expected: int, networks: bool = True) -> int:
    """How many of three that want to work at the same time do; those that are `expected` are waited for."""
    working, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(3)

    def work() -> None:
        nonlocal working, most
        together.wait()
        with gpu_turn(device, networks):
            with lock:
                working += 1
                most = max(most, working)
            # Others are waited for; whoever may not work beside this one comes only after it has gone.
            until = time.monotonic() + (10 if expected > 1 else 1)
            while time.monotonic() < until and (expected == 1 or most < expected):
                time.sleep(0.02)
            with lock:
                working -= 1

    # Each in a context of its own that knows the server.
    threads = [threading.Thread(target=copy_context().run, args=(work,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return most


def test_training_judging_and_cells_wait_for_their_turn_too(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another has the GPU; what is called with a turn notes that it was begun, and does nothing else."""
    monkeypatch.setattr(devices, "torch_device", lambda name: torch.device("cuda"))
    begun: list[str] = []
    monkeypatch.setattr(train_world_model, "training_progress", lambda *_: nullcontext())
    monkeypatch.setattr("training.trainer.train", lambda *_: begun.append("train") or SimpleNamespace(validation={}))
    monkeypatch.setattr("training.evaluation.run.evaluate_run", lambda *_: begun.append("judge"))
    cell = SimpleNamespace(device="auto", run=lambda *_: begun.append("cell"))
    run = Path("run")
    work = (
        lambda: train_world_model.train_model.fn(run, run, None, False, "auto", None),
        lambda: evaluate_world_model.judge.fn(run, None, None, "best", False, 0, "auto", 1, None),
        lambda: reproduce.run_cell.fn(cell, None),
    )
    asyncio.run(limit_of_one())
    threads = [threading.Thread(target=copy_context().run, args=(one,)) for one in work]
    with gpu_turn("auto"):
        for thread in threads:
            thread.start()
        time.sleep(1)
        assert not begun
    for thread in threads:
        thread.join(60)
    assert sorted(begun) == ["cell", "judge", "train"]


async def limit_of_one() -> None:
    async with get_client() as client:
        with suppress(ObjectAlreadyExists):
            await client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=GPU_LIMIT, limit=1))


def test_processes_end_with_a_flow_that_is_killed(tmp_path: Path) -> None:
    code = (
        "from flows.runners import make_runner\n"
        "import os, time\n"
        "if __name__ == '__main__':\n"
        "    with make_runner('processes', 1) as runner:\n"
        "        print(runner._executor.submit(os.getpid).result(), flush=True)\n"
        "        time.sleep(600)\n"
    )
    (tmp_path / "flow.py").write_text(code)
    run = subprocess.Popen([sys.executable, tmp_path / "flow.py"], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    process = psutil.Process(int(run.stdout.readline()))
    run.kill()
    run.wait()
    process.wait(10)
