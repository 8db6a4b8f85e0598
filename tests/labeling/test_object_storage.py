"""Videos and stores in a bucket of a real S3 server: the same labels, whatever happens on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import obstore
import psutil
import pytest
from click.testing import Result
from typer.testing import CliRunner

from flows.cli import app
from labeling import leases, open_store
from labeling.folder import find_videos
from labeling.leases import Owner
from labeling.places import StorageError, Url, fetched, place
from labeling.run import LabelRun, RunError, label_folder
from labeling.validate import validate
from labeling.video import VideoError
from labeling.work import work
from tests.labeling import odd_videos
from tests.labeling.test_run import contents
from tests.object_storage import SECRET, Bucket, s3_server
from training.dataset_format import open_dataset
from training.envs import make
from training.envs.video import record, write_episode

CLIPS, LABELS = "s3://bucket/clips", "s3://bucket/labels.zarr"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as patch, s3_server(patch, tmp_path_factory.mktemp("s3") / "log") as server:
        yield server


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short videos, one of them in a folder of its own."""
    folder = tmp_path_factory.mktemp("videos")
    write_episode(folder / "one.mp4", record(make("nball", balls=1), 20, seed=1))
    write_episode(folder / "more" / "two.mp4", record(make("nball", balls=2), 20, seed=2))
    return folder


@pytest.fixture(scope="module")
def clips(bucket: Bucket, videos: Path) -> str:
    bucket.upload(videos, "clips")
    return CLIPS


@pytest.fixture(scope="module")
def labels(clips: str) -> str:
    assert not label_folder(clips, LABELS, workers=1).failed
    return LABELS


@pytest.fixture(scope="module")
def halfway(clips: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels on the disk of videos in the bucket. Not to be changed."""
    out = tmp_path_factory.mktemp("halfway") / "labels.zarr"
    assert not label_folder(clips, out, workers=1).failed
    return out


@pytest.fixture(scope="module")
def local(videos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("local") / "labels.zarr"
    label_folder(videos, out, workers=1)
    return comparable(contents(out))


def comparable(store: dict[str, bytes]) -> dict[str, bytes]:
    """All files of a store, without what says where the videos are and how they can be told from others unread."""
    found = dict(store)
    for name in [name for name in store if name.endswith("zarr.json")]:
        facts = json.loads(store[name])
        for attribute in ("videos", "fingerprint"):
            facts.get("attributes", {}).pop(attribute, None)
        found[name] = json.dumps(facts).encode()
    return found


def test_labels_from_a_bucket_are_those_of_the_folder_bit_for_bit(
    labels: str, local: dict[str, bytes], bucket: Bucket
) -> None:
    assert comparable(bucket.contents("labels.zarr")) == local
    assert validate(labels) == []
    assert [len(open_store(labels)[name].tracks) for name in ("one", "two")] == [2, 3]
    assert open_store(labels).videos_folder == place(CLIPS)


def test_videos_in_a_bucket_and_labels_on_the_disk_go_together(halfway: Path, local: dict[str, bytes]) -> None:
    assert comparable(contents(halfway)) == local


def test_second_run_reads_no_video_and_writes_nothing(labels: str, bucket: Bucket) -> None:
    before = len(bucket.requests())
    assert label_folder(CLIPS, labels).up_to_date
    asked = bucket.requests()[before:]
    assert [line for line in asked if line.startswith("GET") and ".mp4 " in line and "/clips/" in line] == []
    changes = [line for line in asked if line.startswith(("PUT", "POST", "DELETE")) and ".lock" not in line]
    assert changes == ["POST /bucket?delete HTTP/1.1"], "but for the lock, which is removed in the end"
    assert "labels.zarr.lock" not in bucket.keys("")


def test_changed_video_is_relabeled_and_the_others_are_not(
    bucket: Bucket, videos: Path, halfway: Path, tmp_path: Path
) -> None:
    out = tmp_path / "labels.zarr"
    shutil.copytree(halfway, out)
    before = len(bucket.requests())
    try:
        bucket.put("clips/more/two.mp4", (videos / "one.mp4").read_bytes())
        speeds = {outcome.source: outcome.fps for outcome in label_folder(CLIPS, out).outcomes}
    finally:
        bucket.upload(videos, "clips")
    assert speeds["more/two.mp4"] is not None
    assert speeds["one.mp4"] is None
    assert not any("GET /bucket/clips/one.mp4" in line for line in bucket.requests()[before:])
    assert len(open_store(out)["two"].tracks) == 2


@pytest.mark.slow
def test_killed_run_resumes_to_the_same_store(
    clips: str, local: dict[str, bytes], bucket: Bucket, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "flows.cli", "label", clips, "--out", "s3://bucket/killed.zarr"]
    run = subprocess.Popen(
        [*command, "--workers", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    while run.poll() is None and not (len(bucket.keys("killed.zarr/")) > 10 and list(tmp_path.rglob("*.mp4"))):
        time.sleep(0.01)  # until the first video is tracked, and a copy of the second is there
    assert run.poll() is None, "the run ended before it was killed: nothing was tested"
    children = psutil.Process(run.pid).children(recursive=True)
    run.send_signal(signal.SIGKILL)
    run.wait()
    _, left = psutil.wait_procs(children, timeout=5)
    assert not left, "worker processes outlive a killed run"
    assert not list(tmp_path.rglob("*.mp4")), "copies of videos outlive a killed run"
    assert "killed.zarr.lock" in bucket.keys(""), "a killed run leaves its lock, which is taken over"
    assert not label_folder(clips, "s3://bucket/killed.zarr").failed
    assert comparable(bucket.contents("killed.zarr")) == local
    assert "killed.zarr.lock" not in bucket.keys("")


def test_second_run_at_once_is_refused_with_the_name_of_the_first(labels: str) -> None:
    with LabelRun(CLIPS, labels), pytest.raises(RunError, match=rf"another run \(process {os.getpid()} on"):
        label_folder(CLIPS, labels)
    assert label_folder(CLIPS, labels).up_to_date


def test_lock_that_nobody_renews_is_taken_over(labels: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "WATCH", 0.5)
    bucket.put("labels.zarr.lock", Owner("another machine", 1, "a lease").as_bytes())
    with pytest.raises(RunError, match=r"another run \(process 1 on another\)"):
        label_folder(CLIPS, labels)
    monkeypatch.setattr(leases, "STALE", 0.0)
    assert label_folder(CLIPS, labels).up_to_date


def test_lock_is_renewed_and_one_that_is_renewed_is_not_taken_over(
    labels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEWAL", 0.1)
    monkeypatch.setattr(leases, "STALE", -3600.0)  # by a clock that is an hour ahead
    with LabelRun(CLIPS, labels), pytest.raises(RunError, match="another run"):
        label_folder(CLIPS, labels)


def test_only_a_process_that_is_gone_is_dead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where there is no /proc to look into, as on a Mac: there, everybody looked dead."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr(leases, "Path", lambda name: tmp_path / name.lstrip("/"))
    me = Owner.new()
    assert not me.is_dead
    assert replace(me, process=ended.pid).is_dead
    assert not replace(me, process=ended.pid, machine="another").is_dead
    assert not replace(me, process=1 << 70).is_dead


def test_run_that_lost_its_lock_stops(labels: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEWAL", 0.1)
    with LabelRun(CLIPS, labels) as run:
        bucket.put("labels.zarr.lock", Owner("another machine", 1, "a lease").as_bytes())
        time.sleep(1)
        with pytest.raises(RunError, match="taken over by another run"):
            run.fit()
    assert "labels.zarr.lock" in bucket.keys(""), "the lock of another run is left alone"
    bucket.delete("labels.zarr.lock")


def test_a_worker_of_a_run_that_lost_its_lock_writes_nothing(labels: str, bucket: Bucket) -> None:
    """One of a Dask cluster: it goes on with what it has to do when the flow was killed, and another is at it."""
    before = bucket.contents("labels.zarr")
    with LabelRun(CLIPS, labels) as run:
        job = run.job("track", run.folder.sources[0])
        bucket.put("labels.zarr.lock", Owner("another machine", 1, "a lease").as_bytes())
        with pytest.raises(RunError, match=r"no longer holds s3://bucket/labels\.zarr"):
            work(job)
        bucket.delete("labels.zarr.lock")
        with pytest.raises(RunError, match="no longer holds"):
            work(job)
    assert bucket.contents("labels.zarr") == before


def test_copies_are_gone_in_the_end_also_of_videos_that_fail(
    bucket: Bucket, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "copies"))
    bucket.put("some/good.mp4", (videos / "one.mp4").read_bytes())
    bucket.put("some/bad.mp4", (videos / "one.mp4").read_bytes()[:2000])
    summary = label_folder("s3://bucket/some", tmp_path / "labels.zarr")
    assert [outcome.source for outcome in summary.failed] == ["bad.mp4"]
    assert "s3://bucket/some/bad.mp4" in summary.failed[0].failure
    assert str(tmp_path) not in summary.failed[0].failure
    assert list((tmp_path / "copies").iterdir()) == []


def test_bucket_and_disk_name_the_same_videos_alike(bucket: Bucket, videos: Path, tmp_path: Path) -> None:
    for name in ("a b.mp4", "ä%20ü#~.mp4", ".hidden.mp4", "deep/er/c.MP4", "labels.zarr/x.mp4", ".git/y.mp4", "notes"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(videos / "one.mp4", tmp_path / name)
    odd_videos.picture_folder(tmp_path / "walk")
    bucket.upload(tmp_path, "names")
    bucket.put("names/empty/", b"")  # as consoles mark a folder
    here, there = find_videos(tmp_path), find_videos("s3://bucket/names/")
    assert [(s.id, s.relative) for s in there.sources] == [(s.id, s.relative) for s in here.sources]
    assert [s.relative for s in there.sources if s.relative.startswith("walk")] == ["walk"]
    (one,) = find_videos("s3://bucket/names/a b.mp4").sources
    assert (one.relative, one.path) == ("a b.mp4", Url("bucket", "names/a b.mp4"))
    assert one.id in {source.id for source in here.sources}
    (walk,) = find_videos("s3://bucket/names/walk").sources
    assert walk.relative == "walk"
    with fetched(walk.path) as folder:
        assert contents(folder) == contents(tmp_path / "walk")


def test_name_that_is_none_for_a_file_is_reported(bucket: Bucket, videos: Path) -> None:
    bucket.put("twice/good.mp4", (videos / "one.mp4").read_bytes())
    bucket.put("twice/odd//bad.mp4", b"")
    found = find_videos("s3://bucket/twice")
    assert [source.relative for source in found.sources] == ["good.mp4"]
    assert "empty part (//)" in found.unreadable["odd"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://nothing-here/clips", "there is no bucket nothing-here"),
        ("s3://bucket/nothing-here", "does not exist"),
        ("gs://bucket/clips", "no URL that can be used here"),
        ("https://bucket.example/clips", "no URL that can be used here"),
        ("s3:///clips", "no URL that can be used here"),
    ],
)
def test_url_that_leads_nowhere_is_explained(bucket: Bucket, url: str, said: str, tmp_path: Path) -> None:
    with pytest.raises((StorageError, FileNotFoundError), match=said):
        label_folder(url, tmp_path / "labels.zarr")


@pytest.mark.parametrize(
    "url",
    [f"s3://key:{SECRET}@bucket/clips", f"s3://bucket/a.mp4?X-Amz-Signature={SECRET}"],
)
@pytest.mark.parametrize("wrapped", [str, Path])
def test_url_with_credentials_is_refused_without_repeating_them(url: str, wrapped: Callable[[str], str | Path]) -> None:
    with pytest.raises(StorageError, match="has credentials in it") as refused:
        place(wrapped(url))
    assert SECRET not in str(refused.value)


def test_secrets_reach_neither_store_nor_messages(labels: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [name for name, content in bucket.contents("labels.zarr").items() if SECRET.encode() in content]
    assert not [line for line in bucket.requests() if SECRET in line]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://user:{SECRET}@127.0.0.1:1")
    with pytest.raises(StorageError, match="AWS_ENDPOINT_URL has a password in it") as refused:
        open_store(labels)
    assert SECRET not in str(refused.value)


def test_missing_credentials_are_asked_for(labels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(StorageError, match="Set AWS_ACCESS_KEY_ID"):
        open_store(labels)


def test_wrong_credentials_are_named_and_cost_no_labels(labels: str, halfway: Path, bucket: Bucket) -> None:
    before = contents(halfway)
    try:
        httpx.post(f"{bucket.address}/moto-api/reset-auth", content=b"0")
        with pytest.raises(StorageError, match="access is denied"):
            open_store(labels)
        with pytest.raises(StorageError, match="access is denied"):
            label_folder(CLIPS, halfway)
    finally:
        httpx.post(f"{bucket.address}/moto-api/reset-auth", content=b"inf")
    assert contents(halfway) == before


def test_storage_that_goes_away_ends_the_run_and_costs_no_labels(
    halfway: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(halfway)
    run = LabelRun(CLIPS, halfway)  # the videos are found, then
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StorageError, match=r"http://127\.0\.0\.1:1 does not answer"), run:
        pass
    assert contents(halfway) == before


def test_video_that_vanished_since_it_was_listed_fails_alone(bucket: Bucket, videos: Path, tmp_path: Path) -> None:
    bucket.put("vanishing/a.mp4", (videos / "one.mp4").read_bytes())
    bucket.put("vanishing/b.mp4", (videos / "one.mp4").read_bytes())
    source = find_videos("s3://bucket/vanishing").sources[0]
    bucket.delete("vanishing/a.mp4")
    with pytest.raises(VideoError, match=r"s3://bucket/vanishing/a.mp4 does not exist"), fetched(source.path):
        pass


def test_gone_video_is_named_and_pruned(bucket: Bucket, videos: Path, halfway: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"
    shutil.copytree(halfway, out)
    try:
        bucket.delete("clips/more/two.mp4")
        assert label_folder(CLIPS, out).orphans == ["more/two.mp4"]
        assert label_folder(CLIPS, out, prune=True).pruned == ["more/two.mp4"]
    finally:
        bucket.upload(videos, "clips")
    assert open_store(out).ids == ["one.mp4"]


def test_storage_that_ignores_conditions_is_refused(labels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda store, key, content, mode: put(store, key, content))
    with pytest.raises(RunError, match="ignores conditions on writes"):
        label_folder(CLIPS, labels)


def test_store_is_not_put_among_other_files(clips: str) -> None:
    with pytest.raises(RunError, match="holds other files"):
        label_folder(clips, clips)
    with pytest.raises(RunError, match="is a whole bucket"):
        label_folder(clips, "s3://bucket")


def run(*arguments: object) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_every_command_takes_a_store_in_a_bucket(labels: str, bucket: Bucket, videos: Path, tmp_path: Path) -> None:
    bucket.upload(videos, "moved")
    commands: list[tuple[object, ...]] = [
        ("show", labels),
        ("validate", labels),
        ("report", labels, "--out", tmp_path / "report"),
        ("overlay", labels, "--out", tmp_path / "overlays", "--videos", "s3://bucket/moved"),
        ("export", labels, "--out", tmp_path / "labels.json"),
        ("score", labels, "--truth", labels, "--out", tmp_path / "score"),
        ("prepare", labels, "--out", tmp_path / "data.zarr", "--size", 32, "--videos", "s3://bucket/moved"),
    ]
    for command in commands:
        done = run(*command)
        assert done.exit_code == 0, f"{command[0]}: {done.output}"
    assert "data:image" in (tmp_path / "report" / "index.html").read_text(), "the report has pictures of the videos"
    assert len(list((tmp_path / "overlays").glob("*.mp4"))) == 2
    assert open_dataset(tmp_path / "data.zarr").frames == 40


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("report", LABELS, "--out", "s3://bucket/report"), "the report"),
        (("overlay", LABELS, "--out", "s3://bucket/overlays"), "the folder of the overlays"),
        (("export", LABELS, "--out", "s3://bucket/labels.json"), "an export"),
        (("score", LABELS, "--truth", LABELS, "--out", "s3://bucket/score"), "the score"),
        (("prepare", LABELS, "--out", "s3://bucket/data.zarr"), "a dataset"),
        (("prepare", "s3://bucket/data.h5", "--out", "data.zarr"), "an HDF5 file"),
        (("prepare", "s3://bucket/data.yaml"), "a manifest"),
        (("train", "s3://bucket/data.zarr"), "a dataset"),
        (("simulate", "nball", "--videos", "s3://bucket/played"), "a folder for simulated videos"),
        (("evaluate", "s3://bucket/run"), "a run"),
    ],
)
def test_what_must_be_on_a_disk_says_so(labels: str, command: tuple[str, ...], what: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        done = run(*command)
    assert done.exit_code == 2
    assert f"{what} must be on a disk of this machine" in done.output
    assert list(tmp_path.iterdir()) == []


def test_actions_beside_a_video_in_a_bucket_are_used(labels: str, bucket: Bucket, tmp_path: Path) -> None:
    actions = {"one": np.full((20, 2), 0.5), "more/two": np.full((20, 2), -0.5)}
    try:
        for name, rows in actions.items():
            np.save(tmp_path / "rows.npy", rows.astype(np.float32))
            bucket.put(f"clips/{name}.actions.npy", (tmp_path / "rows.npy").read_bytes())
        assert run("prepare", labels, "--out", tmp_path / "data.zarr", "--size", 32).exit_code == 0
    finally:
        for name in actions:
            bucket.delete(f"clips/{name}.actions.npy")
    assert open_dataset(tmp_path / "data.zarr").action_dim == 2


def test_without_the_extra_urls_say_what_to_install_and_paths_work(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['obstore'] = None\n"
        "from labeling import open_store\n"
        "try: open_store('s3://bucket/labels.zarr')\n"
        "except Exception as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pip install -c constraints.txt '.[s3]'" in said


def test_paths_import_nothing_of_object_storage() -> None:
    program = "import sys, labeling.run, labeling.worker, labeling.store; print('obstore' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == "False\n"
