"""What a week of bad luck does to labeling: many kills at any moment. Files with broken bytes are in tests/fuzz."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from labeling.run import label_folder
from labeling.validate import validate
from tests.labeling.odd_videos import pictures, video
from tests.labeling.test_run import contents

pytestmark = pytest.mark.long

KILLS = 25


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
