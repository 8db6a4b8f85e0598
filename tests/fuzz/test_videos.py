"""Broken videos of all kinds in one folder: each is labeled or reported with a reason, and costs nobody else."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from labeling import open_store
from labeling.run import label_folder
from labeling.validate import validate
from tests.fuzz.cases import Case
from tests.labeling.odd_videos import picture_folder, pictures, video

CODECS = {"mp4": "libx264", "webm": "libvpx-vp9", "gif": "gif", "mkv": "libx264", "avi": "mpeg4"}
PATIENCE = 40.0  # seconds without progress: a hang


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One video of each kind, and the labels of one of them."""
    folder = tmp_path_factory.mktemp("sound")
    for suffix, codec in CODECS.items():
        video(folder / f"{suffix}.{suffix}", pictures(12), codec)
    picture_folder(folder / "png")
    label_folder(folder / "mp4.mp4", folder / "labels.zarr", workers=1)
    return folder


@pytest.mark.slow
@pytest.mark.fuzz(2)
def test_broken_videos(case: Case, sound: Path) -> None:
    """Twelve videos a case, two of each kind."""
    for copy in range(2):
        for suffix in CODECS:
            target = case.given / f"{suffix}{copy}.{suffix}"
            shutil.copy(sound / f"{suffix}.{suffix}", target)
            case.mutate(target)
        shutil.copytree(sound / "png", case.given / f"png{copy}")
        case.mutate(case.given / f"png{copy}")
    shutil.copy(sound / "mp4.mp4", case.given / "sound.mp4")
    store = case.out / "labels.zarr"
    with case.judged():
        summary = label_folder(case.given, store, workers=1, patience=PATIENCE)
        problems = validate(store)
    if problems:
        case.fail(f"the store is not sound: {problems}")
    for outcome in summary.outcomes:
        told = outcome.failure
        if not told and outcome.labels is None:
            case.fail(f"{outcome.source} is neither labeled nor reported")
        if told:
            case.check_sentence(told)
    alone, together = open_store(sound / "labels.zarr")["mp4.mp4"], open_store(store)["sound.mp4"]
    np.testing.assert_array_equal(together.boxes, alone.boxes)
