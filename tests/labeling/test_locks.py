"""One run at a time, and none beside workers that an earlier one left."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from labeling import locks
from labeling.locks import is_quiet, locked, writing
from labeling.problems import RunError


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "labels.zarr" / "stages").mkdir(parents=True)
    (tmp_path / "labels.zarr" / "zarr.json").touch()
    return tmp_path / "labels.zarr"


def test_a_run_waits_for_the_workers_of_an_earlier_one(store: Path) -> None:
    ready, leave = threading.Event(), threading.Event()

    def left_over() -> None:
        with writing(store):
            ready.set()
            leave.wait(30)

    worker = threading.Thread(target=left_over)
    worker.start()
    assert ready.wait(30)
    threading.Timer(0.3, leave.set).start()
    with locked(store):
        assert leave.is_set(), "it began while another wrote"
    worker.join()


def test_workers_that_do_not_end_are_named(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "PATIENCE", 0.2)
    refused = pytest.raises(RunError, match="workers of an earlier run are still writing")
    with writing(store), writing(store), refused, locked(store):
        raise AssertionError("it began while another wrote")
    with locked(store):
        pass


def test_a_killed_worker_leaves_no_lock(store: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from labeling.locks import writing\n"
        "with writing(Path(sys.argv[1])): print('writing', flush=True); time.sleep(600)"
    )
    worker = subprocess.Popen([sys.executable, "-c", code, store], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    worker.stdout.readline()
    assert not is_quiet(store)
    worker.kill()
    worker.wait()
    assert is_quiet(store)
