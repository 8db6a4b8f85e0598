"""What is written of labels, and when: stretch by stretch, in workers, and not lost with the run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from labeling import labels, open_store, pipeline, zarr_io
from labeling.config import LabelConfig
from labeling.export import export
from labeling.jobs import Done
from labeling.run import LabelRun, label_folder
from labeling.store import Store
from labeling.validate import validate
from labeling.work import work
from tests.labeling.odd_videos import video


def track_all(run: LabelRun) -> None:
    """All but the labels."""
    for job in run.jobs("track"):
        run.note(work(job))
    run.fit()


def test_what_is_labeled_so_far_can_be_exported(videos: Path, tmp_path: Path) -> None:
    """An export of a store whose run was stopped, or still goes on, was empty without a word."""
    out = tmp_path / "labels.zarr"
    with LabelRun(videos, out) as run:
        track_all(run)
        run.note(work(run.jobs("label")[0]))
    (video,) = open_store(out).values()
    table = export(open_store(out), "csv", tmp_path / "labels.csv").path
    rows = len(table.read_text().splitlines()) - 1
    assert rows == video.tracks.present.sum() > 0


def test_tracks_outlive_a_failure_to_label(videos: Path, tmp_path: Path) -> None:
    """They may have taken hours; what failed is only what is done with them."""
    out = tmp_path / "labels.zarr"
    with LabelRun(videos, out) as run:
        track_all(run)
        failed, *others = run.jobs("label")
        run.note(Done(failed.source, failure="the worker was killed (SIGKILL)"))
        for job in others:
            run.note(work(job))
        run.close()
    assert pipeline.complete_group(run.store.root, f"stages/{failed.source.id}") is not None
    with LabelRun(videos, out) as again:
        assert again.todo == []
        again.fit()
        assert [source.id for source in again.stale] == [failed.source.id]


def test_files_are_only_decoded_in_workers(
    videos: Path, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends its worker must not end the run when that looks whether it has changed."""
    here = shutil.copytree(videos, tmp_path / "videos")
    out = shutil.copytree(reference, tmp_path / "labels.zarr")
    zarr.open_group(str(out)).attrs["videos"] = str(here)
    os.utime(here / "one.mp4")
    monkeypatch.setattr(pipeline, "Video", None)
    with LabelRun(here, out) as run:
        assert run.todo == []
        run.note(Done(run.folder.sources[0], failure="it crashed"))
    assert len(open_store(out)) == 3


def test_boxes_reach_the_last_row_whatever_the_working_size(tmp_path: Path) -> None:
    """Height and width are rounded apart: with one scale for both, boxes lay up to a pixel off."""
    frames = np.zeros((12, 534, 1280, 3), np.uint8)
    for number, frame in enumerate(frames):
        frame[334:, 200 + 20 * number : 400 + 20 * number] = 255
    video(tmp_path / "wide.mp4", frames)
    label_folder(tmp_path / "wide.mp4", tmp_path / "labels.zarr")
    bottom = open_store(tmp_path / "labels.zarr")["wide"].boxes[..., 3]
    assert np.nanmax(bottom) == pytest.approx(534, abs=0.05)


def test_long_videos_are_written_stretch_by_stretch_to_the_same_labels(
    videos: Path, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(shutil.copytree(reference, tmp_path / "labels.zarr"), mode="a")
    whole = {id: Store(reference)[id] for id in store}
    for module in (labels, zarr_io):
        monkeypatch.setattr(module, "ROWS", 7)
    words = store.vocabulary
    assert words is not None
    for source in pipeline.tracked_sources(store, videos):
        pipeline.label_video(store, source, LabelConfig(), words)
    for id, before in whole.items():
        after = Store(store.path)[id]
        for one, other in ((after.tracks, before.tracks), (after.dropped, before.dropped)):
            for name, array in one.arrays().items():
                np.testing.assert_array_equal(array, getattr(other, name))
        last = before.frames - 1
        for number in range(len(before.tracks)):
            np.testing.assert_array_equal(after.mask(last, number), before.mask(last, number))
    assert validate(store.path) == []
