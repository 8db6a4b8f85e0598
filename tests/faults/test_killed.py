"""Whoever is killed in the middle of a flow run, and whenever: the same store in the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest

from flows.label_videos import label_videos
from labeling.run import label_folder
from labeling.validate import validate
from tests.faults.trouble import files_in, start_label, strikes, wait_for, workers_below, write_clips
from tests.labeling.test_run import contents

pytestmark = pytest.mark.slow

MANY = 20


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clips(tmp_path_factory.mktemp("killed") / "clips", count=4)


@pytest.fixture(scope="module")
def expected(clips: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("expected") / "labels.zarr"
    assert not label_folder(clips, out, workers=1).failed
    return contents(out)


def points(count: int, files: int, seed: int) -> list[int]:
    """Random moments of a run, as numbers of files that the store has then."""
    return np.random.default_rng(seed).integers(1, files, count).tolist()


def test_a_run_whose_workers_are_killed_ends_in_the_same_store(
    api: str, clips: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    """One kill a video at most: a video whose worker dies three times is given up."""
    out = tmp_path / "labels.zarr"
    moments = [len(expected) * part // 8 for part in (1, 3, 6)]
    with strikes(out, moments, lambda: workers_below(psutil.Process())) as killed:
        summary = label_videos(clips, out, workers=1)
    assert len(killed) == len(moments), "the run ended before its workers were killed: nothing was tested"
    assert not summary.failed
    assert contents(out) == expected


@pytest.mark.parametrize("moments", [pytest.param(2, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.long)])
def test_a_flow_run_that_is_killed_goes_on_to_the_same_store(
    api: str, clips: Path, expected: dict[str, bytes], tmp_path: Path, moments: int
) -> None:
    """The process of the flow, or the worker below it, at random moments; each time the same command again."""
    struck = 0
    for number, files in enumerate(points(moments, len(expected), seed=moments)):
        out = tmp_path / f"{number}.zarr"
        run = start_label(clips, out, "--flow", "--workers", "1", PREFECT_API_URL=api)
        wait_for(lambda run=run, out=out, files=files: run.poll() is not None or files_in(out) >= files, 300)
        if number % 2 and (below := workers_below(psutil.Process(run.pid))):
            below[0].kill()
            assert run.wait(300) == 0, "the flow goes on with another worker"
            struck += 1
        else:
            struck += run.poll() is None
            run.kill()
        run.communicate()
        assert not label_folder(clips, out).failed
        assert contents(out) == expected, f"killed when there were {files} files"
    assert struck >= 0.8 * moments, "most runs ended before anybody was killed: nothing was tested"


def test_a_run_whose_dask_worker_is_killed_ends_in_the_same_store(
    api: str, clips: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    from distributed import LocalCluster

    out = tmp_path / "labels.zarr"
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=None) as cluster:

        def busy() -> list[psutil.Process]:
            """Dask workers that have a worker of ours below them."""
            return [parent for worker in workers_below(psutil.Process()) if (parent := worker.parent())]

        with strikes(out, [len(expected) // 4], busy) as killed:
            summary = label_videos(clips, out, runner="dask", address=cluster.scheduler_address)
    assert len(killed) == 1, "the run ended before a worker was killed: nothing was tested"
    assert not summary.failed
    assert contents(out) == expected
    assert validate(out) == []
