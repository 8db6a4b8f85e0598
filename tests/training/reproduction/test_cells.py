"""Trainings that are the same share a place; figures are there whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from training.config import PRESETS
from training.reproduction import cells
from training.reproduction.cells import Cell, Figure, Folder, Simulated, Times, Training
from training.reproduction.judge import Driving, OnePlan

DATA = Simulated("nball", 20, 8, 1, 16, (("balls", 1),))
TRAINING = Training(DATA, "nball-cpu", ("steps=4", "batch=8"), 0, "head", 3.0)


def test_the_same_training_has_the_same_id_whatever_it_is_called() -> None:
    assert replace(TRAINING, label="other", minutes=9.0).id == TRAINING.id
    assert replace(TRAINING, settings=("batch=8", "steps=4")).id == TRAINING.id
    assert replace(TRAINING, data=replace(DATA, minutes=4.0)).id == TRAINING.id


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1}, {"settings": ("steps=5", "batch=8")}, {"preset": "nball"}, {"data": replace(DATA, episodes=21)},
        {"data": replace(DATA, validation=0.2)}, {"data": replace(DATA, options=(("balls", 2),))},
    ],
)  # fmt: skip
def test_what_decides_a_training_is_in_its_id(change: dict[str, object]) -> None:
    assert replace(TRAINING, **change).id != TRAINING.id  # type: ignore[arg-type]


def test_a_changed_preset_makes_another_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures that were kept from before must not stand for models that would be trained today."""
    before = TRAINING.id
    monkeypatch.setitem(PRESETS, "nball-cpu", {**PRESETS["nball-cpu"], "monitor_windows": 100})
    assert replace(TRAINING).id != before


def test_measures_are_told_apart_by_kind_options_and_place() -> None:
    plans = OnePlan(), OnePlan(horizon=6), OnePlan(seeds=(0, 1)), OnePlan(on=DATA)
    assert len({measure.name for measure in (*plans, Driving(), Driving(starts=2))}) == 6
    assert OnePlan(minutes=3.0).name == OnePlan().name


def test_figures_come_back_as_they_were_written(tmp_path: Path) -> None:
    folder, measure = Folder(tmp_path), OnePlan()
    cell = Cell(TRAINING, (measure, Driving()))
    assert folder.figures(TRAINING, measure) is None
    assert folder.left(cell) == list(cell.measures)
    folder.write(TRAINING, measure, {"plans": Figure(0.25, 8), "distance": Figure(1.5)}, Times(60.0, 2.0))
    assert folder.figures(TRAINING, measure) == {"plans": Figure(0.25, 8), "distance": Figure(1.5)}
    assert folder.times(TRAINING, measure) == Times(60.0, 2.0)
    assert folder.left(cell) == [Driving()]
    assert [file.suffix for file in folder.run(TRAINING).rglob("*") if file.is_file()] == [".json"]


@pytest.mark.parametrize("damage", ["", "{", "[1, 2]", "{}", '{"figures": {"plans": {"wrong": 1}}, "seconds": {}}'])
def test_damaged_figures_are_measured_again(tmp_path: Path, damage: str) -> None:
    folder, measure = Folder(tmp_path), OnePlan()
    folder.write(TRAINING, measure, {"plans": Figure(0.25, 8)}, Times(60.0, 2.0))
    (file,) = folder.run(TRAINING).rglob("*.json")
    file.write_text(damage)
    assert folder.left(Cell(TRAINING, (measure,))) == [measure]
    assert folder.times(TRAINING, measure) == Times(0.0, 0.0)


def test_kept_figures_alone_are_nothing_to_go_on_from(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert not folder.begun(TRAINING)
    folder.write(TRAINING, OnePlan(), {"plans": Figure(0.5, 10)}, Times(60.0, 2.0))
    assert not folder.begun(TRAINING)
    (folder.run(TRAINING) / "checkpoints").mkdir()
    assert folder.begun(TRAINING)


def test_a_failure_is_remembered_in_a_line_and_forgotten(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.fail(TRAINING, "it broke\nin two", "Traceback ...")
    assert folder.failure(TRAINING) == "it broke in two"
    folder.fail(TRAINING, "")
    assert folder.failure(TRAINING) == ""


def test_datasets_of_one_simulator_are_nested(tmp_path: Path) -> None:
    """The training episodes of a smaller dataset are training episodes of a larger one, too."""
    from training.dataset import open_dataset

    folder = Folder(tmp_path)
    small, large = (
        open_dataset(folder.make(replace(DATA, episodes=episodes, validation=0.2))) for episodes in (10, 30)
    )
    assert set(small.split("train")) <= set(large.split("train"))
    rows = small.frames
    np.testing.assert_array_equal(small.array("frames")[:], large.array("frames")[:rows])
    assert len(small.split("validation")) == 2


def test_newer_simulators_and_judges_make_other_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of episodes that would not be played so today must not count as done."""
    before, judged = TRAINING.id, OnePlan().name
    monkeypatch.setattr(cells, "VERSION", cells.VERSION + 1)
    monkeypatch.setattr(OnePlan, "version", 2)
    assert replace(TRAINING).id != before
    assert OnePlan().name != judged
