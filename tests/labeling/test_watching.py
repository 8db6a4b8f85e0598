"""A folder that is watched: what is dropped into it is labeled when it is complete, and nothing is lost on the way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from labeling import open_store
from labeling.folder import Source
from labeling.locks import locked
from labeling.report import write_report
from labeling.run import RunError, Summary, label_folder
from labeling.settled import Look, Lookout
from labeling.validate import validate
from labeling.watching import Habits, Watcher
from tests.faults.trouble import files_in, wait_for, workers_below
from tests.labeling import odd_videos
from tests.labeling.coloured_clips import clip
from tests.labeling.test_refit import change_table, kinds
from tests.labeling.test_run import contents
from tests.labeling.test_show import printed
from tests.object_storage import s3_server

SETTLE = 0.5


class Watched:
    """A folder `videos` and its watcher, which ends each time that everything there is labeled."""

    def __init__(self, home: Path, **habits: float) -> None:
        self.folder, self.out, self.said = home / "videos", home / "labels.zarr", list[str]()
        self.folder.mkdir(exist_ok=True)
        chosen = Habits(**{"every": 0.1, "settle": SETTLE, "once": True, **habits})
        self.watcher = Watcher(self.folder, self.out, None, chosen, say=lambda text, problem: self.said.append(text))

    def run(self) -> list[str]:
        """Have it do what there is to do; what it says."""
        before = len(self.said)
        self.watcher.run()
        return self.said[before:]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.slow
def test_dropped_replaced_removed_and_returned(watched: Watched, tmp_path: Path) -> None:
    folder, out = watched.folder, watched.out
    assert watched.run() == []
    assert not out.exists(), "there was no video yet"
    clip(folder / "red.mp4", "red", discs=2)
    assert watched.run() == ["labeled red.mp4 (frames: 24, tracks: 2, categories: 1)"]

    clip(folder / "more" / "new.mp4", "red", start=20)
    assert watched.run() == ["labeled more/new.mp4 (frames: 24, tracks: 1, categories: 1)"]
    assert kinds(open_store(out)) == {"red.mp4": [0], "more/new.mp4": [0]}, "it joined the known category"

    clip(folder / "more" / "new.mp4", "red", discs=2)
    (folder / "red.mp4").touch()
    assert watched.run() == ["labeled more/new.mp4 (frames: 24, tracks: 2, categories: 1)", "labeled already: red.mp4"]

    (folder / "red.mp4").rename(tmp_path / "red.mp4")
    assert watched.run() == ["gone: red.mp4; labels stay, marked, until `spectrabox label --prune`"]
    store = open_store(out)
    assert store.removed == ["red.mp4"]
    assert [store[id].removed for id in ("red.mp4", "more/new.mp4")] == [True, False]
    assert len(store["red.mp4"].tracks) == 2, "its labels are there"
    assert "red.mp4 (removed)" in printed(store)
    page = write_report(store, tmp_path / "report").read_text()
    assert "1 of 2 videos was no longer there" in page
    assert validate(out) == []

    (tmp_path / "red.mp4").rename(folder / "red.mp4")
    assert watched.run() == ["back: red.mp4"]
    assert open_store(out).removed == []
    assert watched.watcher.account == "2 labeled, 0 failed, 0 gone"


@pytest.mark.slow
def test_a_slow_copy_is_labeled_only_when_it_is_complete(tmp_path: Path) -> None:
    watched = Watched(tmp_path, settle=3 * SETTLE)
    content = clip(tmp_path / "whole.mp4", "red").read_bytes()
    ended = list[float]()

    def copy() -> None:
        with (watched.folder / "slow.mp4").open("wb", buffering=0) as file:
            for part in range(8):
                file.write(content[part * len(content) // 8 : (part + 1) * len(content) // 8])
                ended[:] = [time.time()]
                time.sleep(0.4 * SETTLE)

    with meanwhile(copy):
        wait_for(lambda: (watched.folder / "slow.mp4").exists())
        assert watched.run() == ["labeled slow.mp4 (frames: 24, tracks: 1, categories: 1)"]
    began = (watched.out / "stages").stat().st_mtime
    assert began > ended[0] + 2.9 * SETTLE, "it was not touched before it had settled"


def test_pictures_of_a_folder_settle_as_a_whole(tmp_path: Path) -> None:
    lookout = Lookout(tmp_path, settle=0.3)
    pictures = sorted(odd_videos.picture_folder(tmp_path / "walk").iterdir())
    late = [shutil.move(picture, tmp_path / f".{picture.name}") for picture in pictures[4:]]
    for hidden, picture in zip(late, pictures[4:], strict=True):
        (growing,) = lookout.look().growing
        assert growing.relative == "walk"
        time.sleep(0.2)
        shutil.move(hidden, picture)
    assert not lookout.look().settled
    time.sleep(0.3)
    assert [source.relative for source in lookout.look().settled] == ["walk"]


@pytest.mark.slow
def test_a_bad_video_is_named_once_and_labeled_when_it_is_good(watched: Watched) -> None:
    (watched.folder / "bad.mp4").write_text("not a video")
    clip(watched.folder / "good.mp4", "red")
    bad, good = watched.run()
    assert bad.startswith(f"failed bad.mp4: {watched.folder / 'bad.mp4'} is not a video that can be read")
    assert good.startswith("labeled good.mp4")
    clip(watched.folder / "next.mp4", "red", start=20)
    assert [text.split()[1] for text in watched.run()] == ["next.mp4"]
    assert list(open_store(watched.out).failures) == ["bad.mp4"], "it is still bad"
    clip(watched.folder / "bad.mp4", "red")
    assert [text.split()[:2] for text in watched.run()] == [["labeled", "bad.mp4"]]
    assert open_store(watched.out).failures == {}
    (watched.folder / "worse.mp4").write_text("not a video")
    watched.run()
    (watched.folder / "worse.mp4").unlink()
    assert watched.run() == ["gone: worse.mp4"]
    assert open_store(watched.out).failures == {}


@pytest.mark.slow
def test_many_tracks_without_a_category_are_said_and_refit_keeps_the_ids(tmp_path: Path) -> None:
    watched = Watched(tmp_path, pile=2)
    clip(watched.folder / "red.mp4", "red", discs=2)
    watched.run()
    change_table(watched.out, 0, name="ripe")
    clip(watched.folder / "green.mp4", "green", discs=2)
    labeled, many = watched.run()
    assert labeled.startswith("labeled green.mp4")
    assert many.startswith("2 of 4 tracks fit no category")
    assert "--refit" in many
    assert watched.run() == [], "once is enough"
    again = Watched(tmp_path, pile=2, refit=True)
    already, refitted = again.run()
    assert already == "labeled already: green.mp4, red.mp4"
    assert refitted.startswith("categories found anew: ")
    assert ", 1 new" in refitted
    store = open_store(watched.out)
    assert kinds(store) == {"red.mp4": [0], "green.mp4": [1]}
    assert [row.name for row in store.categories] == ["ripe", "object-2"]
    assert validate(watched.out) == []


@pytest.mark.slow
def test_it_waits_for_a_store_that_is_taken_and_a_folder_that_is_away(watched: Watched, tmp_path: Path) -> None:
    clip(watched.folder / "red.mp4", "red")
    taken = threading.Event()

    def hold() -> None:
        with locked(watched.out):
            taken.set()
            wait_for(lambda: bool(watched.said))

    with meanwhile(hold):
        assert taken.wait(10)
        waiting, labeled = watched.run()
    assert waiting.startswith(f"waiting: another run is writing to {watched.out}")
    assert labeled.startswith("labeled red.mp4")

    def bring_back() -> None:
        wait_for(lambda: len(watched.said) > 2)
        (tmp_path / "elsewhere").rename(watched.folder)

    watched.folder.rename(tmp_path / "elsewhere")
    with meanwhile(bring_back):
        (away,) = watched.run()
    assert away.startswith(f"waiting for {watched.folder}: ")
    assert open_store(watched.out).removed == [], "a disk that is away has lost nothing"


def test_what_cannot_be_watched_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is no folder"):
        Watcher(odd_videos.video(tmp_path / "one.mp4"), tmp_path / "labels.zarr")
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        Watcher(tmp_path / "nowhere", tmp_path / "labels.zarr", habits=Habits(once=True)).run()
    lookout = Lookout(odd_videos.picture_folder(tmp_path / "walk"), 0)
    assert lookout.look().unreadable["."].endswith("Put each recording into a folder of its own in there.")


def test_a_look_at_thousands_of_files_is_cheap(tmp_path: Path) -> None:
    for number in range(5000):
        (tmp_path / f"{number}.mp4").touch()
    lookout = Lookout(tmp_path, settle=0)
    lookout.look()
    began = time.thread_time()
    assert len(lookout.look().settled) == 5000
    assert time.thread_time() - began < 1.0


def test_a_round_beside_thousands_of_bad_videos_is_cheap(tmp_path: Path) -> None:
    """They are not tried again, and none of them costs a look at all the others."""
    names = [f"{number}.mp4" for number in range(5000)]
    idle = Summary(tmp_path / "labels.zarr", [], "", True, [], [], 0, 0)
    watcher = Watcher(tmp_path, tmp_path / "labels.zarr", do=lambda run: idle)
    watcher.failures, watcher._done = dict.fromkeys(names, "bad"), dict.fromkeys(names, 0)
    look = Look({Source(name, name, tmp_path / name): 0 for name in names}, [], {})
    began = time.thread_time()
    assert watcher._round(look)
    assert time.thread_time() - began < 1.0


def start_watch(folder: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "flows.cli", "watch", str(folder), "--out", str(out), "--every", "0.2"]
    return subprocess.Popen(
        [*command, "--settle", "0.5", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "400", "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip


@pytest.mark.slow
def test_the_command_labels_until_ctrl_c_and_leaves_the_store_to_others_meanwhile(tmp_path: Path) -> None:
    folder, out = tmp_path / "videos", tmp_path / "labels.zarr"
    clip(folder / "red.mp4", "red")
    watch = start_watch(folder, out)
    assert watch.stdout is not None
    assert watch.stdout.readline() == f"Watching {folder}. Stop with Ctrl-C.\n"
    assert watch.stdout.readline().split()[1:3] == ["labeled", "red.mp4"]
    workers = workers_below(psutil.Process(watch.pid))
    assert len(workers) == 1
    assert label_folder(folder, out).up_to_date, "nobody holds the store"
    clip(folder / "new.mp4", "red", start=20)
    assert watch.stdout.readline().split()[1:3] == ["labeled", "new.mp4"]
    assert workers_below(psutil.Process(watch.pid)) == workers, "networks, if there were any, are loaded once"
    watch.send_signal(signal.SIGINT)
    printed, said = watch.communicate(timeout=60)
    assert watch.returncode == 0
    assert printed.split("\n")[-3:] == ["Stopped.", f"2 labeled, 0 failed, 0 gone. Labels: {out}", ""]
    assert said == ""


@pytest.mark.slow
def test_a_watcher_that_is_killed_and_started_again_ends_in_the_same_store(tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    for number, colour in enumerate(("red", "blue", "red")):
        clip(folder / f"{number}.mp4", colour, discs=2, start=12 + number)
    label_folder(folder, tmp_path / "undisturbed.zarr")
    expected = contents(tmp_path / "undisturbed.zarr")
    out = tmp_path / "labels.zarr"
    watch = start_watch(folder, out, "--workers", "1")
    wait_for(lambda: files_in(out) >= 0.6 * len(expected))
    assert watch.poll() is None
    watch.kill()
    watch.communicate()
    assert contents(out) != expected, "it was done before it was killed: nothing was tested"
    done = start_watch(folder, out, "--once")
    printed, said = done.communicate(timeout=120)
    assert done.returncode == 0, printed + said
    assert contents(out) == expected


@pytest.mark.slow
def test_a_bucket_is_watched_by_two_requests_a_look(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, s3_server(patch, tmp_path / "log") as bucket:
        said = list[str]()
        habits = Habits(every=0.2, settle=0.4, once=True)
        watcher = Watcher(
            "s3://bucket/inbox", tmp_path / "labels.zarr", None, habits, say=lambda text, problem: said.append(text)
        )
        bucket.put("inbox/red.mp4", clip(tmp_path / "red.mp4", "red").read_bytes())
        watcher.run()
        assert said == ["labeled red.mp4 (frames: 24, tracks: 1, categories: 1)"]
        for number in range(20):
            bucket.put(f"inbox/walk/{number}.png", b"a picture")
        lookout, before = Lookout("s3://bucket/inbox", 0), len(bucket.requests())
        lookout.look()
        first = len(bucket.requests())
        lookout.look()
        assert len(bucket.requests()) - first <= first - before <= 10, bucket.requests()[before:]
        bucket.delete("inbox/red.mp4")
        for number in range(20):
            bucket.delete(f"inbox/walk/{number}.png")
        watcher.run()
        assert open_store(tmp_path / "labels.zarr").removed == ["red.mp4"]
