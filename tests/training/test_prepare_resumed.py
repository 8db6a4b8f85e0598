"""Making a dataset may take hours: what was stopped or killed goes on from where it was, to the same dataset."""

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.training.labeled import many
from training import dataset_columns, dataset_draft, dataset_writer
from training.dataset_draft import JOURNAL, Journal
from training.dataset_format import Dataset, DatasetError, open_dataset
from training.dataset_writer import DatasetWriter
from training.manifest import PrepareConfig, SimulatorSource, Split
from training.prepare import prepare, write_dataset
from training.sources.simulator import Episodes
from training.takes import Layout, Take

SOURCE = SimulatorSource(environment="nball", options={"balls": 2}, episodes=150, frames=21)


class Stopped(Episodes):
    """Episodes of n-ball during which somebody presses Ctrl-C, or a refusal or an error comes; notes what is asked."""

    def __init__(
        self, after: int = 10**9, error: BaseException | None = None, source: SimulatorSource = SOURCE
    ) -> None:
        super().__init__(source, 5, PrepareConfig(size=32))
        self.after, self.error, self.asked = after, error or KeyboardInterrupt(), list[int]()

    def takes_from(self, first, report):
        for number, take in enumerate(super().takes_from(first, report), first):
            self.asked.append(number)
            pictures = self._cut(take.pictures) if number == self.after else take.pictures
            boxes = take.columns["boxes"] * (5 if number in (3, 90) else 1)  # out of the frame
            yield Take(f"episode {number}", 0, pictures, take.columns | {"boxes": boxes}, take.category, take.instance)

    def _cut(self, pictures):
        yield next(iter(pictures))[:7]
        raise self.error


def made(source, out):
    return write_dataset(source, out, "d", Split())


def same(one: Dataset, other: Dataset) -> None:
    assert one.fingerprint == other.fingerprint
    assert sorted(one.columns) == sorted(other.columns)
    for name in one.columns:
        np.testing.assert_array_equal(one.array(name)[:], other.array(name)[:])
    np.testing.assert_array_equal(one.episode_offset, other.episode_offset)
    assert {**one.attributes, "created_by": ""} == {**other.attributes, "created_by": ""}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "d.zarr"
    prepared = made(Stopped(), path)
    assert list(prepared.problems) == ["episode 3", "episode 90"]
    return open_dataset(path)


@pytest.mark.parametrize("after", [1, 64, 100, 149])
def test_a_stopped_run_goes_on_from_where_it_was(tmp_path, whole, after):
    with pytest.raises(KeyboardInterrupt):
        made(Stopped(after), tmp_path / "d.zarr")
    with pytest.raises(DatasetError):
        open_dataset(tmp_path / "d.zarr")
    source = Stopped()
    prepared = made(source, tmp_path / "d.zarr")
    assert source.asked == list(range(after, 150))
    assert list(prepared.problems) == ["episode 3", "episode 90"]
    same(open_dataset(tmp_path / "d.zarr"), whole)
    assert [path.name for path in tmp_path.iterdir()] == ["d.zarr"]
    assert not list(tmp_path.rglob("journal*"))


def test_a_run_that_is_stopped_again_and_again_goes_on(tmp_path, whole):
    for after in (2, 4, 5, 91, 120):
        with pytest.raises(KeyboardInterrupt):
            made(Stopped(after), tmp_path / "d.zarr")
    made(Stopped(), tmp_path / "d.zarr")
    same(open_dataset(tmp_path / "d.zarr"), whole)


def test_an_error_that_nobody_foresaw_loses_no_episode(tmp_path, whole):
    with pytest.raises(OSError, match="No space"):
        made(Stopped(70, OSError(28, "No space left on device")), tmp_path / "d.zarr")
    source = Stopped()
    made(source, tmp_path / "d.zarr")
    assert source.asked[0] == 70
    same(open_dataset(tmp_path / "d.zarr"), whole)


def test_an_error_at_the_very_end_loses_no_episode(tmp_path, whole, monkeypatch):
    def fails(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(dataset_writer, "statistics", fails)
        with pytest.raises(OSError, match="No space"):
            made(Stopped(), tmp_path / "d.zarr")
    source = Stopped()
    made(source, tmp_path / "d.zarr")
    assert source.asked == []
    same(open_dataset(tmp_path / "d.zarr"), whole)


def test_slots_that_were_cut_off_at_the_end_are_there_again(tmp_path, monkeypatch):
    def written(path, takes, stop=False):
        with DatasetWriter(path, Layout((8, 8), 0, 5), "recipe") as writer:
            for number in range(takes):
                columns = {"actions": np.zeros((9, 0)), "boxes": np.full((9, 2 + number // 6, 4), 0.5)}
                count = np.arange(2 + number // 6)
                writer.give(Take("a", 9 * number, [np.full((9, 8, 8, 3), number, np.uint8)], columns, count, count))
            if stop:
                monkeypatch.setattr(dataset_writer, "write_array", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            return writer.finish("d", [], Split())

    with monkeypatch.context(), pytest.raises(KeyboardInterrupt):
        written(tmp_path / "d.zarr", 6, stop=True)
    monkeypatch.undo()
    same(written(tmp_path / "d.zarr", 8), written(tmp_path / "e.zarr", 8))


@pytest.mark.parametrize("what", ["another recipe", "a link in it", "no journal", "half a journal", "no metadata"])
def test_a_draft_that_cannot_be_gone_on_with_is_removed(tmp_path, whole, what):
    out = tmp_path / "d.zarr"
    begun = Stopped(100)
    begun.recipe += what if what == "another recipe" else ""
    with pytest.raises(KeyboardInterrupt):
        made(begun, out)
    draft = tmp_path / ".d.zarr.part"
    journal = draft / JOURNAL
    if what == "a link in it":
        (tmp_path / "precious").mkdir()
        (draft / "boxes" / "c" / "1").symlink_to(tmp_path / "precious")
    elif what == "no journal":
        journal.unlink()
    elif what == "half a journal":
        journal.write_bytes(journal.read_bytes()[:-100])
    elif what == "no metadata":
        (draft / "boxes" / "zarr.json").write_bytes(b"{")
    source = Stopped()
    made(source, out)
    assert source.asked[0] == 0
    assert not list(tmp_path.glob(".*"))
    assert not list(tmp_path.glob("precious/*"))
    same(open_dataset(out), whole)


def test_another_split_or_name_loses_no_episode(tmp_path, whole):
    with pytest.raises(KeyboardInterrupt):
        write_dataset(Stopped(100), tmp_path / "d.zarr", "e", Split(validation=0.3))
    source = Stopped()
    made(source, tmp_path / "d.zarr")
    assert source.asked[0] == 100
    same(open_dataset(tmp_path / "d.zarr"), whole)


def test_a_dataset_that_makes_way_leaves_nothing_behind(tmp_path, whole):
    write_dataset(Stopped(), tmp_path / "d.zarr", "e", Split(validation=0.3))
    made(Stopped(), tmp_path / "d.zarr")
    same(open_dataset(tmp_path / "d.zarr"), whole)
    assert [path.name for path in tmp_path.iterdir()] == ["d.zarr"]


def test_a_lock_is_given_back_however_a_run_ends(tmp_path, monkeypatch):
    def fails(*_):
        raise KeyboardInterrupt

    kept = []  # as a notebook keeps its last error
    for place, name in ((dataset_draft.Draft, "_read"), (dataset_draft.Draft, "save"), (dataset_draft.Draft, "empty")):
        monkeypatch.setattr(place, name, fails)
        with pytest.raises(KeyboardInterrupt) as error:
            made(Stopped(100), tmp_path / "d.zarr")
        kept.append(error)
        monkeypatch.undo()
    assert made(Stopped(), tmp_path / "d.zarr").new


def test_what_was_begun_of_something_else_is_not_removed_unasked(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        made(Stopped(100), tmp_path / "d.zarr")
    few = Stopped(source=SOURCE.model_copy(update={"episodes": 4}))
    with pytest.raises(DatasetError, match=r"150 episodes of 21 frames was begun there, 2058 frames .* or --replace"):
        made(few, tmp_path / "d.zarr")
    write_dataset(few, tmp_path / "d.zarr", "d", Split(), replace=True)
    assert open_dataset(tmp_path / "d.zarr").episodes == 3


def test_drafts_of_datasets_with_longer_names_are_left_alone(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        made(Stopped(100), tmp_path / "d.zarr.v2")
    made(Stopped(), tmp_path / "d.zarr")
    source = Stopped()
    made(source, tmp_path / "d.zarr.v2")
    assert source.asked[0] == 100


@pytest.mark.parametrize(("name", "lost"), [("frames/c/1/0/0/0", 49), ("frames/c/2/0/0/0", 99), ("boxes/c/0/0/0", 0)])
@pytest.mark.parametrize("how", ["gone", "zeros", "partial"])
def test_rows_that_are_not_as_they_were_written_are_made_again(tmp_path, whole, name, lost, how):
    with pytest.raises(KeyboardInterrupt):
        made(Stopped(100), tmp_path / "d.zarr")
    chunk = tmp_path / ".d.zarr.part" / name
    if how == "partial":
        chunk.with_name(f"{chunk.name}.0123.partial").write_bytes(chunk.read_bytes())
    if how == "zeros":
        chunk.write_bytes(bytes(chunk.stat().st_size))
    else:
        chunk.unlink()
    source = Stopped()
    made(source, tmp_path / "d.zarr")
    assert source.asked[0] == lost
    same(open_dataset(tmp_path / "d.zarr"), whole)
    assert not list(tmp_path.rglob("*.partial"))


def test_only_one_process_makes_a_dataset(tmp_path, whole):
    out = tmp_path / "d.zarr"
    with (
        DatasetWriter(out, Layout((32, 32), 2, 3), "recipe"),
        pytest.raises(DatasetError, match="is being made by another process"),
    ):
        made(Stopped(), out)
    made(Stopped(), out)
    same(open_dataset(out), whole)


class Files:
    """Takes of files, of which not all can be read every day."""

    name, origin, categories, notes, recipe, frames = "files", "files", [], [], "files", 100
    layout = Layout((8, 8), 0, 1)

    def __init__(self, readable, stop=None):
        self.readable, self.stop = readable, stop

    def takes(self, report):
        for number in range(8):
            if number not in self.readable:
                report(f"clip{number}", "is not there")
                continue
            for start in (0, 9):
                picture = np.full((9, 8, 8, 3), 10 * number + start, np.uint8)
                columns = {"actions": np.zeros((9, 0)), "boxes": np.full((9, 1, 4), 5 if number == 1 else 0.5)}
                pictures = self._cut() if (number, start) == self.stop else [picture]
                yield Take(f"clip{number}", start, pictures, columns, np.zeros(1, int), np.zeros(1, int))

    def _cut(self):
        yield np.zeros((2, 8, 8, 3), np.uint8)
        raise KeyboardInterrupt


@pytest.mark.parametrize(("before", "after"), [("0134567", "01234567"), ("01234567", "0134567"), ("01", "01234567"),
                                               ("01234567", "0123"), ("01234567", "01234567")])  # fmt: skip
def test_files_that_come_and_go_between_two_runs_are_neither_doubled_nor_lost(tmp_path, before, after):
    there, later = ([int(digit) for digit in digits] for digits in (before, after))
    stop = (5, 9) if 5 in there else (0, 9)
    with pytest.raises(KeyboardInterrupt):
        made(Files(there, stop), tmp_path / "gone-on.zarr")
    one, other = (made(Files(later), tmp_path / name) for name in ("gone-on.zarr", "anew.zarr"))
    assert one.problems == other.problems
    assert len(one.problems) == 9 - len(later)
    same(open_dataset(one.path), open_dataset(other.path))


def test_videos_that_were_labeled_go_on(labeled, tmp_path, monkeypatch):
    many(labeled, 12)
    wanted = prepare(labeled.store, tmp_path / "whole" / "d.zarr", labeled.folder)
    hidden = labeled.folder / "clip07.mp4"
    hidden.rename(tmp_path / "clip07.mp4")

    def stop(done, of):
        if done >= 180:
            raise KeyboardInterrupt

    monkeypatch.setattr("training.prepare.REPORT_EVERY", 0)
    with pytest.raises(KeyboardInterrupt):
        prepare(labeled.store, tmp_path / "d.zarr", labeled.folder, progress=stop)
    (tmp_path / "clip07.mp4").rename(hidden)
    gone_on = prepare(labeled.store, tmp_path / "d.zarr", labeled.folder)
    assert gone_on.problems == {}
    assert gone_on.fingerprint == wanted.fingerprint


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_run_that_is_stopped_at_any_touch_of_the_disk_goes_on(tmp_path, monkeypatch, every):
    """Ctrl-C at the first touch, then at the second, and so on, in one place of work and then in the next."""
    monkeypatch.setattr(dataset_writer, "SAVE_EVERY", 0)
    monkeypatch.setattr(dataset_writer, "SAVING_SHARE", 0)
    few, touches = SOURCE.model_copy(update={"episodes": 6, "frames": 40 * every}), [0]
    wanted = write_dataset(Stopped(source=few), tmp_path / "whole.zarr", "d", Split())

    def touched(place, name):
        real = getattr(place, name)

        def touch(*arguments, **options):
            touches[0] -= threading.current_thread() is threading.main_thread()  # only that one hears Ctrl-C
            if touches[0] == 0:
                raise KeyboardInterrupt
            return real(*arguments, **options)

        monkeypatch.setattr(place, name, touch)

    touched(os, "replace")
    touched(Path, "unlink")
    touched(shutil, "rmtree")
    touched(dataset_columns, "rows_of")
    touched(dataset_columns.Column, "flush")
    touched(dataset_columns.Column, "cut_back")
    touched(dataset_writer, "write_array")
    stopped = 0
    for touches[0] in itertools.count(every):
        try:
            done = write_dataset(Stopped(source=few), tmp_path / "d.zarr", "d", Split())
            break
        except KeyboardInterrupt:
            stopped += 1
    assert stopped > 20
    assert done.fingerprint == wanted.fingerprint
    monkeypatch.undo()
    same(open_dataset(done.path), open_dataset(wanted.path))
    assert {path.name for path in tmp_path.iterdir()} == {"d.zarr", "whole.zarr"}


RUN = """
import sys
from tests.training.labeled import many
from training import dataset_columns, dataset_draft, dataset_writer
from training.simulate import simulate
dataset_writer.SAVE_EVERY = dataset_writer.SAVING_SHARE = 0
simulate("nball", sys.argv[1], episodes=300, seed=1, balls=1, size=32)
"""


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_goes_on_to_the_same_dataset(tmp_path):
    whole, killed = tmp_path / "whole" / "d.zarr", tmp_path / "killed" / "d.zarr"
    subprocess.run([sys.executable, "-c", RUN, str(whole)], check=True)
    rng, begun = random.Random(0), []
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", RUN, str(killed)])
        journal = killed.with_name(".d.zarr.part") / JOURNAL
        rows = begun[-1] if begun else 0
        while not (journal.exists() and Journal.model_validate_json(journal.read_bytes()).rows > rows):
            assert process.poll() is None
            time.sleep(0.005)
        begun.append(Journal.model_validate_json(journal.read_bytes()).rows)
        time.sleep(rng.uniform(0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert begun == sorted(set(begun))
    subprocess.run([sys.executable, "-c", RUN, str(killed)], check=True)
    same(open_dataset(killed), open_dataset(whole))
    assert [path.name for path in killed.parent.iterdir()] == ["d.zarr"]
