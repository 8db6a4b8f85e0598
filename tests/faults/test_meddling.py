"""Videos that change or hang while they are read, and a second run on the same store."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest

from labeling.folder import Source
from labeling.run import Listener, RunError, label_folder
from labeling.validate import validate
from tests.faults.trouble import start_label, wait_for, workers_below, write_clips
from tests.labeling.test_run import contents

pytestmark = pytest.mark.slow

HANGING = 15.0  # seconds, in which a sound video makes some progress on a busy machine too


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clips(tmp_path_factory.mktemp("meddling") / "clips", count=2, frames=60)


class Meddler(Listener):
    """Does something once, when the first progress on a video is heard of."""

    def __init__(self, name: str) -> None:
        self.name, self.done = name, False

    def frames(self, source: Source, done: int, expected: int) -> None:
        if source.relative == self.name and not self.done:
            self.done = True
            self.meddle(source)

    def meddle(self, source: Source) -> None: ...


def test_a_video_that_is_replaced_while_it_is_read_waits_for_the_next_run(clips: Path, tmp_path: Path) -> None:
    videos, out = tmp_path / "videos", tmp_path / "labels.zarr"
    shutil.copytree(clips, videos)

    class Replacing(Meddler):
        def meddle(self, source: Source) -> None:
            shutil.copy(videos / "1.mp4", tmp_path / "other.mp4")
            os.replace(tmp_path / "other.mp4", source.path)

    summary = label_folder(videos, out, workers=1, listener=Replacing("0.mp4"))
    (failed,) = summary.failed
    assert failed.source == "0.mp4"
    assert failed.failure == f"{videos / '0.mp4'} changed while it was read. Run again once it is complete."
    assert validate(out) == []
    assert not label_folder(videos, out).failed
    assert validate(out) == []


def test_a_video_that_hangs_is_given_up_and_the_others_are_labeled(clips: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"

    class Hanging(Meddler):
        def meddle(self, source: Source) -> None:
            for worker in workers_below(psutil.Process()):
                worker.send_signal(signal.SIGSTOP)

    summary = label_folder(clips, out, workers=1, listener=Hanging("0.mp4"), patience=HANGING)
    (failed,) = summary.failed
    assert failed.source == "0.mp4"
    assert failed.failure.startswith(f"{clips / '0.mp4'} made no progress for 15 seconds and was given up.")
    assert not workers_below(psutil.Process())
    assert validate(out) == []
    label_folder(clips, tmp_path / "undisturbed.zarr")
    assert not label_folder(clips, out, refit=True).failed
    assert contents(out) == contents(tmp_path / "undisturbed.zarr")


def test_a_second_run_on_the_same_store_is_refused_and_disturbs_nothing(clips: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"
    first = start_label(clips, out)
    wait_for(lambda: (out / "stages").exists())
    with pytest.raises(RunError, match=r"another run is writing to .*Wait for it, or choose another --out"):
        label_folder(clips, out)
    said = first.communicate(timeout=120)
    assert first.returncode == 0, said
    label_folder(clips, tmp_path / "alone.zarr")
    assert contents(out) == contents(tmp_path / "alone.zarr")
