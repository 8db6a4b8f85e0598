"""What a week of bad luck does to labeling: many kills at any moment, and files with broken bytes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from labeling import open_store
from labeling.run import label_folder
from labeling.validate import validate
from tests.labeling.odd_videos import pictures, video
from tests.labeling.test_run import contents

pytestmark = pytest.mark.long

KILLS, FUZZED = 25, 60


def test_a_run_killed_again_and_again_ends_in_the_same_store(tmp_path: Path) -> None:
    """The same run is killed after random times until it gets through, over and over."""
    rng = np.random.default_rng(0)
    folder, out = tmp_path / "videos", tmp_path / "labels.zarr"
    folder.mkdir()
    for number in range(4):
        video(folder / f"{number}.mp4", pictures(40 + 10 * number))
    label_folder(folder, tmp_path / "reference.zarr")
    expected, struck = contents(tmp_path / "reference.zarr"), 0
    while struck < KILLS:
        command = [sys.executable, "-m", "flows.cli", "label", str(folder), "--out", str(out), "--workers", "2"]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            run.wait(rng.uniform(0.5, 6))
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            struck += 1
        if run.wait() == 0:
            assert contents(out) == expected, f"after {struck} kills"
            shutil.rmtree(out)
        time.sleep(0.2)  # workers notice that nobody listens any more
    label_folder(folder, out)
    assert contents(out) == expected
    assert validate(out) == []


def test_broken_bytes_cost_one_video_at_most(tmp_path: Path) -> None:
    """Every file is labeled or reported with a reason, and the sound one beside them is labeled as if alone."""
    rng = np.random.default_rng(1)
    folder = tmp_path / "videos"
    folder.mkdir()
    sources = [video(tmp_path / f"source.{kind}", pictures(20), codec) for kind, codec in
               (("mp4", "libx264"), ("mkv", "libx264"), ("webm", "libvpx-vp9"), ("avi", "mpeg4"))]  # fmt: skip
    for number in range(FUZZED):
        source = sources[number % len(sources)]
        data = bytearray(source.read_bytes())
        for place in rng.integers(0, len(data), rng.integers(1, 40)):
            data[place] = rng.integers(256)
        (folder / f"{number:03d}{source.suffix}").write_bytes(data)
    shutil.copy(sources[0], folder / "sound.mp4")
    summary = label_folder(folder, tmp_path / "labels.zarr", workers=2)
    assert len(summary.outcomes) == FUZZED + 1
    assert all(outcome.labels or outcome.failure for outcome in summary.outcomes)
    assert 0 < len(summary.failed) < FUZZED, "nothing was broken, or everything"
    label_folder(sources[0], tmp_path / "alone.zarr")
    together, alone = open_store(tmp_path / "labels.zarr")["sound.mp4"], open_store(tmp_path / "alone.zarr")
    np.testing.assert_array_equal(together.tracks.boxes, alone[next(iter(alone))].tracks.boxes)
    assert validate(tmp_path / "labels.zarr") == []
