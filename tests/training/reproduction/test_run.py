"""Cells are run, resumed, and allowed to fail: real trainings in processes of their own, at a tiny scale."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.reproduction.tiny_scale import TINY
from training import metrics
from training.config import TrainError
from training.reproduction.cells import Figure, Folder, Times
from training.reproduction.run import Listener, Reproduction, reproduce
from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import Column, Entry, Row, Table

BROKEN = ("target.state=bb+depth50",)  # which n-ball has not
LONG = 200  # steps
ROOT = str(Path(__file__).parents[3])


def small_table(scale: Scale = TINY, settings: tuple[str, ...] = LEWM) -> Table:
    """Two cells of one ball."""
    both = ((HEAD, "head"), (settings, "LeWM"))
    runs = [scale.trainings("small", "nball-1", "nball", one, name) for one, name in both]
    entries = tuple(Entry(one, scale.one_plan(2, 1), "plans", 0.5) for one in runs)
    columns = (Column("head", "percent"), Column("LeWM", "percent"))
    return Table("small", "A small table", "none", scale, columns, (Row("n = 1", entries),))


class Heard(Listener):
    def __init__(self) -> None:
        self.jobs, self.words, self.ended = 0, list[str](), dict[str, str]()

    def planned(self, jobs: int) -> None:
        self.jobs = jobs

    def at(self, job: str, what: str) -> None:
        self.words.append(f"{job}: {what}")

    def finished(self, job: str, failure: str) -> None:
        self.ended[job] = failure


def test_cells_are_trained_judged_and_shown_and_one_that_fails_stops_nobody(tmp_path: Path) -> None:
    table, heard = small_table(settings=BROKEN), Heard()
    Folder(tmp_path).make(table.data[0])
    failures = reproduce(table, tmp_path, 1, "cpu", heard)
    assert heard.jobs == 2
    assert list(heard.ended) == ["head, seed 0", "LeWM, seed 0"]
    assert any("judging, 1 of 1" in words for words in heard.words)
    assert list(failures) == ["LeWM, seed 0"]
    assert "bb+depth50" in failures["LeWM, seed 0"]
    folder = Folder(tmp_path)
    whole, broken = table.cells
    figures = folder.figures(whole.training, whole.measures[0])
    assert figures is not None
    assert figures["plans"].trials == 3
    assert folder.figures(broken.training, broken.measures[0]) is None
    page = (tmp_path / "small-cpu.md").read_text()
    assert "1 of 2 cells are done, 1 failed." in page
    assert f"failed: {failures['LeWM, seed 0'][:40]}" in page
    assert "Traceback" not in page
    assert [cell.label for cell in Reproduction(table, tmp_path).cells] == ["LeWM, seed 0"]
    assert Reproduction(table, tmp_path).data == []


def test_a_dataset_that_cannot_be_made_is_tried_once_and_its_cells_say_why(tmp_path: Path) -> None:
    """Each of its cells played it again, to the same end: hours for the cube."""
    table, heard = small_table(), Heard()
    (data,) = table.data
    lock = Folder(tmp_path).dataset(data).with_suffix(".lock")
    lock.mkdir(parents=True)  # in the way
    failures = reproduce(table, tmp_path, 1, "cpu", heard)
    assert heard.words == [f"{data.name}: making the dataset"]
    assert failures == {cell.label: heard.ended[data.name] for cell in table.cells}
    assert lock.name in failures["head, seed 0"]
    assert "0 of 2 cells are done, 2 failed." in (tmp_path / "small-cpu.md").read_text()


def test_some_cells_of_a_table_are_chosen_by_their_names(tmp_path: Path) -> None:
    table = small_table()
    chosen = Reproduction(table, tmp_path, only="lewm")
    assert [cell.label for cell in chosen.cells] == ["LeWM, seed 0"]
    assert chosen.data == table.data
    with pytest.raises(TrainError, match="no cell of small has 'Cube' in its name"):
        Reproduction(table, tmp_path, only="Cube")


def test_a_finished_table_is_not_done_again(tmp_path: Path) -> None:
    table, heard = small_table(), Heard()
    for cell in table.cells:
        Folder(tmp_path).write(cell.training, cell.measures[0], {"plans": Figure(0.5, 4)}, Times(1.0, 1.0))
    assert reproduce(table, tmp_path, 2, "cpu", heard) == {}
    assert heard.jobs == 0
    assert not heard.ended
    assert "2 of 2 cells are done." in (tmp_path / "small-cpu.md").read_text()


SCRIPT = """
import sys
from pathlib import Path

import pytest
from tests.training.reproduction.test_run import long_table
from training.reproduction.run import reproduce
if __name__ == "__main__":
    reproduce(long_table(), Path(sys.argv[1]), 1, "cpu")
"""


def long_table() -> Table:
    """One cell whose training takes a while."""
    rare = ("log_every=10", "checkpoint_every=10", "validate_every=200")
    budgets = {name: replace(budget, steps=LONG) for name, budget in TINY.budgets.items()}
    scale = replace(TINY, budgets=budgets, every=(*TINY.every, *rare))
    runs = scale.trainings("long", "nball-1", "nball", HEAD, "head")
    entry = Entry(runs, scale.one_plan(2, 1), "plans")
    return Table("long", "A long table", "none", scale, (Column("head", "percent"),), (Row("n = 1", (entry,)),))


def test_a_killed_run_goes_on_and_leaves_no_process_behind(tmp_path: Path) -> None:
    table = long_table()
    Folder(tmp_path).make(table.data[0])
    run = Folder(tmp_path).run(table.cells[0].training)
    script = tmp_path / "start.py"
    script.write_text(SCRIPT)
    started = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env={**os.environ, "PYTHONPATH": ROOT})
    _wait(lambda: bool(list(run.glob("checkpoints/step-*/checkpoint.json"))), started)
    started.send_signal(signal.SIGKILL)
    started.wait()
    killed_at = _newest(run)
    assert 0 < killed_at < LONG
    heard = Heard()
    assert reproduce(table, tmp_path, 1, "cpu", heard) == {}  # the lock of the run is free: its process has ended
    assert _newest(run) == LONG
    steps = [row["step"] for row in metrics.read(run) if row["split"] == "train"]
    assert steps == list(range(10, LONG + 1, 10))
    assert heard.jobs == 1


def _newest(run: Path) -> int:
    return max(json.loads(file.read_text())["step"] for file in run.glob("checkpoints/step-*/checkpoint.json"))


def _wait(condition, process: subprocess.Popen[bytes]) -> None:  # type: ignore[no-untyped-def]
    give_up = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < give_up
        time.sleep(0.02)
