"""Making a dataset may take hours: what was stopped or killed goes on from where it was, to the same dataset."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from training import dataset_writer
from training.dataset_draft import JOURNAL, Journal
from training.dataset_format import Dataset, DatasetError, open_dataset
from training.dataset_writer import DatasetWriter, Layout, Take
from training.manifest import PrepareConfig, SimulatorSource, Split
from training.prepare import write_dataset
from training.sources.simulator import Episodes

SOURCE = SimulatorSource(environment="nball", options={"balls": 2}, episodes=150, frames=21)


class Stopped(Episodes):
    """Episodes of n-ball during which somebody presses Ctrl-C, or a refusal or an error comes; notes what is asked."""

    def __init__(
        self, after: int = 10**9, error: BaseException | None = None, source: SimulatorSource = SOURCE
    ) -> None:
        super().__init__(source, 5, PrepareConfig(size=32))
        self.after, self.error, self.asked = after, error or KeyboardInterrupt(), list[int]()

    def takes(self, report, first=0):
        for number, take in enumerate(super().takes(report, first), first):
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
            for number in range(writer.looked_at, takes):
                columns = {"actions": np.zeros((9, 0)), "boxes": np.full((9, 2 + number // 6, 4), 0.5)}
                count = np.arange(2 + number // 6)
                writer.add(Take("a", 9 * number, [np.full((9, 8, 8, 3), number, np.uint8)], columns, count, count))
            if stop:
                monkeypatch.setattr(dataset_writer, "write_array", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            return writer.finish("d", [], Split())

    with monkeypatch.context(), pytest.raises(KeyboardInterrupt):
        written(tmp_path / "d.zarr", 6, stop=True)
    monkeypatch.undo()
    same(written(tmp_path / "d.zarr", 8), written(tmp_path / "e.zarr", 8))


@pytest.mark.parametrize("what", ["another recipe", "a link in it", "no journal", "half a journal"])
def test_a_draft_that_cannot_be_gone_on_with_is_removed(tmp_path, whole, what):
    out = tmp_path / "d.zarr"
    other = SOURCE.model_copy(update={"episodes": 120})
    with pytest.raises(KeyboardInterrupt):
        made(Stopped(100, source=other if what == "another recipe" else SOURCE), out)
    (draft,) = tmp_path.glob(".d.zarr.*.part")
    journal = draft / JOURNAL
    if what == "a link in it":
        (tmp_path / "precious").mkdir()
        (draft / "boxes" / "c" / "1").symlink_to(tmp_path / "precious")
    elif what == "no journal":
        journal.unlink()
    elif what == "half a journal":
        journal.write_bytes(journal.read_bytes()[:-100])
    source = Stopped()
    made(source, out)
    assert source.asked[0] == 0
    assert not list(tmp_path.glob(".*"))
    assert not list(tmp_path.glob("precious/*"))
    same(open_dataset(out), whole)


def test_a_run_that_is_going_on_keeps_its_draft(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    draft = tmp_path / f".d.zarr.{other.pid}.part"
    draft.mkdir()
    (draft / JOURNAL).write_text("{}")
    made(Stopped(), tmp_path / "d.zarr")
    assert (draft / JOURNAL).exists()
    other.communicate(b"\n")
    made(Stopped(), tmp_path / "e.zarr")
    assert draft.exists()  # of another dataset
    few = Stopped(source=SOURCE.model_copy(update={"episodes": 3}))
    write_dataset(few, tmp_path / "d.zarr", "d", Split(), replace=True)
    assert not draft.exists()


RUN = """
import sys
from training import dataset_writer
from training.simulate import simulate
dataset_writer.SAVE_EVERY = 0.05
simulate("nball", sys.argv[1], episodes=4000, seed=1, balls=1, size=32)
"""


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_moment_goes_on_to_the_same_dataset(tmp_path):
    whole, killed = tmp_path / "whole" / "d.zarr", tmp_path / "killed" / "d.zarr"
    subprocess.run([sys.executable, "-c", RUN, str(whole)], check=True)
    rng, begun = random.Random(0), []
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", RUN, str(killed)])
        draft = killed.with_name(f".d.zarr.{process.pid}.part")
        while not (draft / "frames" / "zarr.json").exists():
            assert process.poll() is None
            time.sleep(0.005)
        journal = draft / JOURNAL
        begun.append(Journal.model_validate_json(journal.read_bytes()).rows if journal.exists() else 0)
        time.sleep(rng.uniform(0.05, 0.4))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert begun == sorted(begun)
    assert begun[-1] > 0
    subprocess.run([sys.executable, "-c", RUN, str(killed)], check=True)
    same(open_dataset(killed), open_dataset(whole))
    assert [path.name for path in killed.parent.iterdir()] == ["d.zarr"]
