"""A run over a folder: the same store whatever happens on the way."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
import zarr

from labeling import frame_progress, open_store, pipeline
from labeling.config import LabelConfig, load_config
from labeling.folder import find_videos
from labeling.isolation import Worker
from labeling.jobs import Job
from labeling.locks import locked
from labeling.run import LabelRun, RunError, label_folder
from labeling.store import StoreError
from labeling.validate import validate
from labeling.video import Frame, Video, VideoError
from labeling.work import work
from tests.labeling.odd_videos import video


def contents(store: Path) -> dict[str, bytes]:
    """Every file of a store by its relative path."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def test_every_video_gets_its_objects(reference: Path) -> None:
    store = open_store(reference)
    assert validate(reference) == []
    assert [len(store[name].tracks) for name in ("one", "three", "room")] == [2, 4, 1]
    assert store["more/three.mp4"].frames == 40


def test_number_of_workers_does_not_matter(videos: Path, reference: Path, tmp_path: Path) -> None:
    label_folder(videos, tmp_path / "labels.zarr", workers=3)
    assert contents(tmp_path / "labels.zarr") == contents(reference)


def test_second_run_finds_everything_up_to_date(videos: Path, reference: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in reference.rglob("*")}
    summary = label_folder(videos, reference)
    assert summary.up_to_date
    assert {path: path.stat().st_mtime_ns for path in reference.rglob("*")} == before


@pytest.mark.slow
def test_killed_run_resumes_to_the_same_store(videos: Path, reference: Path, tmp_path: Path) -> None:
    expected = contents(reference)
    out = tmp_path / "labels.zarr"
    struck = 0
    for share in (0.01, 0.1, 0.3, 0.5, 0.7, 0.85, 0.97):
        shutil.rmtree(out, ignore_errors=True)
        struck += kill_when(videos, out, int(share * len(expected)))
        summary = label_folder(videos, out)
        assert not summary.failed
        assert contents(out) == expected, f"killed after {share:.0%} of the files"
    assert struck >= 5, "the runs ended before they were killed: nothing was tested"


def kill_when(videos: Path, out: Path, files: int) -> bool:
    """Start a run, kill it with SIGKILL when the store has so many files; whether it was still running."""
    command = [sys.executable, "-m", "flows.cli", "label", str(videos), "--out", str(out), "--workers", "1"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while run.poll() is None and (not out.exists() or sum(1 for _ in out.rglob("*") if _.is_file()) < files):
        time.sleep(0.002)
    children = psutil.Process(run.pid).children(recursive=True) if run.poll() is None else []
    alive = run.poll() is None
    run.kill()
    run.wait()
    _, left = psutil.wait_procs(children, timeout=5)
    assert not left, "worker processes outlive a killed run"
    return alive


def test_changed_filter_relabels_without_decoding(videos: Path, reference: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"
    shutil.copytree(reference, out)
    summary = label_folder(videos, out, load_config(settings=["filters.min_area=1000"]))
    assert all(outcome.fps is None for outcome in summary.outcomes), "nothing had to be tracked again"
    store = open_store(out)
    assert len(store["one"].tracks) == 0
    assert {row["reason"] for row in store["one"].reasons} == {"tiny"}
    assert len(store["one"].dropped) == 2, "dropped tracks keep their arrays"


def test_changed_video_is_relabeled_and_the_others_are_not(videos: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "videos", tmp_path / "labels.zarr"
    shutil.copytree(videos, folder)
    label_folder(folder, out)
    shutil.copy(folder / "one.mp4", folder / "room.mp4")
    speeds = {outcome.source: outcome.fps for outcome in label_folder(folder, out).outcomes}
    assert speeds["room.mp4"] is not None
    assert speeds["one.mp4"] is None
    assert len(open_store(out)["room"].tracks) == 2


def test_new_video_joins_known_categories(videos: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "videos", tmp_path / "labels.zarr"
    folder.mkdir()
    shutil.copy(videos / "more" / "three.mp4", folder)
    label_folder(folder, out)
    before = open_store(out).vocabulary
    shutil.copy(videos / "one.mp4", folder)
    label_folder(folder, out)
    store = open_store(out)
    assert store.vocabulary is not None
    assert before is not None
    assert np.array_equal(store.vocabulary.prototypes, before.prototypes)
    assert set(store["one"].tracks.category) == set(store["three"].tracks.category) == {0, 1}


def test_a_first_run_without_any_object_does_not_settle_the_categories(videos: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "videos", tmp_path / "labels.zarr"
    folder.mkdir()
    video(folder / "still.mp4", np.full((12, 48, 64, 3), 90, np.uint8))
    label_folder(folder, out)
    shutil.copy(videos / "one.mp4", folder)
    label_folder(folder, out)
    assert set(open_store(out)["one"].tracks.category) == {0, 1}


def test_categories_found_anew_are_those_of_all_videos(videos: Path, reference: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"
    shutil.copytree(reference, out)
    label_folder(videos / "one.mp4", out, refit=True)
    assert validate(out) == []
    assert contents(out) == contents(reference)


def test_a_worker_that_is_ended_with_the_run_costs_no_labels(videos: Path, reference: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"
    shutil.copytree(reference, out)
    with ThreadPoolExecutor() as threads:
        with LabelRun(videos, out, load_config(settings=["motion.still.min_area=9"])) as run:
            began = threading.Event()
            tracking = threads.submit(work, run.job("track", run.todo[0]), lambda done, expected: began.set())
            assert began.wait(60)
        with pytest.raises(RunError, match="was stopped"):
            tracking.result()
    assert run.failures == {}
    assert len(open_store(out)) == 3


def test_cuts_are_noted(tmp_path: Path) -> None:
    scenes = np.random.default_rng(0).integers(0, 255, (2, 12, 16, 3), np.uint8)
    frames = np.concatenate([np.repeat(np.kron(scene, np.ones((8, 8, 1), np.uint8))[None], 20, 0) for scene in scenes])
    video(tmp_path / "clip.mp4", frames)
    label_folder(tmp_path / "clip.mp4", tmp_path / "labels.zarr")
    assert open_store(tmp_path / "labels.zarr")["clip"].attributes["cuts"] == [20]


def test_labels_of_a_video_that_is_gone_stay_until_they_are_pruned(videos: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "videos", tmp_path / "labels.zarr"
    shutil.copytree(videos, folder)
    assert label_folder(folder, out).orphans == []
    (folder / "one.mp4").unlink()
    assert label_folder(folder, out).orphans == ["one.mp4"]
    assert len(open_store(out)) == 3
    pruned = label_folder(folder, out, prune=True)
    assert (pruned.orphans, pruned.pruned) == ([], ["one.mp4"])
    assert [open_store(out)[id].source for id in open_store(out)] == ["more/three.mp4", "room.mp4"]
    assert validate(out) == []


def test_video_that_became_unreadable_loses_its_labels(videos: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "videos", tmp_path / "labels.zarr"
    shutil.copytree(videos, folder)
    label_folder(folder, out)
    (folder / "one.mp4").write_text("not a video")
    summary = label_folder(folder, out)
    assert [outcome.source for outcome in summary.failed] == ["one.mp4"]
    store = open_store(out)
    assert len(store) == 2
    assert "one.mp4" in store.failures


@pytest.mark.parametrize("fault", [errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE])
def test_a_video_that_the_disk_does_not_give_out_keeps_its_labels(
    videos: Path, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    """Of a network disk that is half away: names are listed, and whoever asks for more gets an error."""
    out, stat = tmp_path / "labels.zarr", Path.stat
    shutil.copytree(reference, out)

    def refused(path: Path, **options: bool) -> os.stat_result:
        if path == videos / "one.mp4":
            raise OSError(fault, os.strerror(fault), str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refused)
    (failed,) = label_folder(videos, out).failed
    assert failed.source == "one.mp4"
    assert os.strerror(fault) in failed.failure
    monkeypatch.undo()
    assert len(open_store(out)["one"].tracks) == 2
    assert label_folder(videos, out).up_to_date
    assert contents(out) == contents(reference)


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("stages/one.mp4", "sha256"), ("stages/one.mp4", "fingerprint"), ("stages/one.mp4", "recipe"),
        ("videos/one.mp4", "recipe"), ("vocabulary", "recipe"),
    ],
)  # fmt: skip
def test_what_the_store_no_longer_knows_is_found_again(
    videos: Path, reference: Path, tmp_path: Path, group: str, name: str
) -> None:
    out = tmp_path / "labels.zarr"
    shutil.copytree(reference, out)
    damaged = zarr.open_group(str(out), mode="r+")[group]
    del damaged.attrs[name]
    assert not label_folder(videos, out, workers=1).failed
    assert validate(out) == []
    after, before = contents(out), contents(reference)
    file = f"{group}/zarr.json"
    assert json.loads(after.pop(file)) == json.loads(before.pop(file))  # in whichever order
    assert after == before


def test_two_runs_do_not_share_a_store(videos: Path, tmp_path: Path) -> None:
    with locked(tmp_path / "labels.zarr"), pytest.raises(RunError, match="another run is writing"):
        label_folder(videos, tmp_path / "labels.zarr")


def test_folder_without_videos_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(RunError, match="no videos in"):
        label_folder(tmp_path, tmp_path / "labels.zarr")


def test_strict_stops_at_the_first_failure(videos: Path, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("not a video")
    shutil.copy(videos / "one.mp4", tmp_path / "b.mp4")
    with pytest.raises(RunError, match=r"a\.mp4"):
        label_folder(tmp_path, tmp_path / "labels.zarr", workers=1, strict=True)


def test_crash_of_a_worker_is_an_error_of_its_video(videos: Path, tmp_path: Path) -> None:
    worker = Worker()
    job = Job("track", tmp_path / "labels.zarr", find_videos(videos / "room.mp4").sources[0])

    def crash(done: int, expected: int) -> None:
        os.kill(worker.start().pid, signal.SIGSEGV)

    label_folder(videos / "one.mp4", tmp_path / "labels.zarr")
    with pytest.raises(VideoError, match=r"room\.mp4: the decoder crashed \(SIGSEGV\)"):
        worker.run(job, crash)
    assert worker.run(job)["frames"] == 40
    worker.close()


def test_hanging_worker_is_given_up(videos: Path, tmp_path: Path) -> None:
    worker = Worker()
    source = find_videos(videos / "room.mp4").sources[0]
    label_folder(videos / "one.mp4", tmp_path / "labels.zarr")
    os.kill(worker.start().pid, signal.SIGSTOP)
    with pytest.raises(VideoError, match="no progress for 1 seconds"):
        worker.run(Job("track", tmp_path / "labels.zarr", source, patience=1.0))


def test_a_large_file_on_a_slow_disk_is_not_one_that_hangs(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress is heard of while its bytes are read for the hash, long before the first frame."""

    def no_frame(self: Video, start: int = 0) -> Iterator[Frame]:
        raise VideoError("as far as this")

    monkeypatch.setattr(frame_progress, "REPORT_EVERY", -1.0)
    monkeypatch.setattr(Video, "frames", no_frame)
    (source,), heard = find_videos(videos / "room.mp4").sources, list[tuple[int, int]]()
    store = pipeline.open_run(tmp_path / "labels.zarr", videos, LabelConfig())
    with pytest.raises(VideoError, match="as far as this"):
        pipeline.track_video(store, source, LabelConfig(), progress=lambda *reached: heard.append(reached))
    assert heard == [(0, 40)]


def test_labels_of_another_folder_are_not_overwritten(videos: Path, reference: Path, tmp_path: Path) -> None:
    shutil.copy(videos / "room.mp4", tmp_path / "one.mp4")
    with pytest.raises(StoreError, match="holds the labels of"):
        label_folder(tmp_path / "one.mp4", reference)
    assert len(open_store(reference)["one"].tracks) == 2


def test_store_is_not_written_among_other_files(videos: Path, tmp_path: Path) -> None:
    shutil.copy(videos / "one.mp4", tmp_path)
    with pytest.raises(RunError, match="holds other files"):
        label_folder(tmp_path, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot be made"):
        label_folder(tmp_path, tmp_path / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "one.mp4"]
