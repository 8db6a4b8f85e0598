"""The laziness map: worlds that differ in one thing, the course of real trainings, and a picture of it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.training.reproduction.tiny_scale import TINY
from training.config import differences
from training.envs import make
from training.reproduction.beyond.course import at_each_look, felt_from, represented_from
from training.reproduction.beyond.laziness import LEVELS, Level, table
from training.reproduction.cells import Figure, Folder, Simulated, Times
from training.reproduction.page import write
from training.reproduction.run import reproduce
from training.reproduction.scale import Scale
from training.reproduction.scales import CPU, PAPER

SLIPS = next(number for number, level in enumerate(LEVELS) if level.label == "slips of 1 px")


def look(step: int, r2: float, rho: float) -> dict[str, Any]:
    return {"step": step, "probe": {"ball": r2}, "spearman": {"ball": rho}}


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        ([(0.9, 0.5)], 100),
        ([(0.1, 0.0), (0.8, 0.2), (0.9, 0.3)], 200),
        ([(0.9, 0.5), (0.2, 0.5), (0.9, 0.5)], 300),  # it was lost in between
        ([(0.9, 0.5), (0.7, 0.5)], None),  # it was lost in the end
        ([(0.9, 0.05), (0.99, 0.05)], None),  # it can be read, but no distance follows it
    ],
)
def test_an_object_counts_from_the_step_since_when_it_has_been_represented(
    seen: list[tuple[float, float]], step: int | None
) -> None:
    assert represented_from([look(100 * (i + 1), *one) for i, one in enumerate(seen)], "ball") == step


def test_an_object_is_felt_before_it_can_be_read() -> None:
    seen = [look(100, 0.1, 0.0), look(200, 0.2, 0.3), look(300, 0.9, 0.4)]
    assert (felt_from(seen, "ball"), represented_from(seen, "ball")) == (200, 300)
    assert felt_from([*seen, look(400, 0.9, 0.05)], "ball") is None


@pytest.mark.usefixtures("in_this_process")
def test_two_real_cells_become_figures_and_a_picture(tmp_path: Path) -> None:
    whole = table(replace(TINY, seeds={}))
    small = replace(whole, rows=(whole.rows[0], whole.rows[SLIPS]))
    assert len(small.cells) == 2
    assert reproduce(small, tmp_path, 1, "cpu") == {}
    entry = small.rows[0].entries[0]
    assert entry.measure is not None
    figures = Folder(tmp_path).figures(entry.trainings[0], entry.measure)
    assert figures is not None
    assert figures["control ball: represented"].value == 0  # after four steps
    assert figures["control ball: represented"].trials == 1
    assert "control ball: from" not in figures
    assert figures["lazy"].trials == 1
    text = (tmp_path / "laziness-cpu.md").read_text()
    assert "2 of 2 cells are done." in text
    assert "– never" in text
    assert "The control ball is represented with no seed: base;" in text
    assert "the paper has no such table" in text
    assert "(laziness-cpu.png)" in text
    picture = cv2.imdecode(np.frombuffer((tmp_path / "laziness-cpu.png").read_bytes(), np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    assert (picture.max(axis=2).astype(int) - picture.min(axis=2) > 120).sum() > 100  # the red lines are there
    page = (tmp_path / "laziness-cpu.html").read_text()
    assert 'src="data:image/png;base64,' in page
    assert ">paper<" not in page
    for rest in (one for one in (tmp_path / "runs").glob("*/*") if one.name != "figures"):
        shutil.rmtree(rest) if rest.is_dir() else rest.unlink()
    (tmp_path / "laziness-cpu.png").unlink()
    write(small, Folder(tmp_path))  # courses are kept with the other figures
    again = cv2.imdecode(np.frombuffer((tmp_path / "laziness-cpu.png").read_bytes(), np.uint8), cv2.IMREAD_COLOR)
    assert np.array_equal(again, picture)


def test_only_rows_whose_course_was_kept_have_a_panel(tmp_path: Path) -> None:
    whole, folder = table(CPU), Folder(tmp_path)
    assert whole.picture is not None
    assert whole.picture.draw(folder) is None
    widths = []
    for row, at in ((whole.rows[0], {}), (whole.rows[1], {"control ball: R² at 300": 0.5}), (whole.rows[2], {})):
        measure = row.entries[0].measure
        assert measure is not None
        words = {"collapsed": 0.0, "lazy": 1.0, "control ball: R²": 0.5} | at
        folder.write(
            row.entries[0].trainings[0], measure, {name: Figure(one) for name, one in words.items()}, Times(1, 1)
        )
        drawn = whole.picture.draw(folder)
        widths.append(0 if drawn is None else cv2.imdecode(np.frombuffer(drawn, np.uint8), cv2.IMREAD_COLOR).shape[1])
    assert widths[0] == 0
    assert 0 < widths[1] == widths[2]


def test_a_course_is_read_back_in_the_order_of_its_steps() -> None:
    figures = {
        name: Figure(value) for name, value in (("ball: R² at 900", 0.9), ("ball: R² at 30", 0.1), ("ball: R²", 0.9))
    }
    figures |= {"control ball: R² at 30": Figure(0.5)}
    assert [*at_each_look(figures, "ball: R²").items()] == [(30, 0.1), (900, 0.9)]


@pytest.mark.parametrize(
    ("steps_of_base", "words"),
    [
        ((9, 6, 6), ["with every seed: base; 3 white balls.", "with no seed: 6 white balls."]),
        (
            (900, None, 600),
            ["with every seed: 3 white balls.", "with some seeds: base.", "with no seed: 6 white balls."],
        ),
        ((9, 6), ["with every seed: 3 white balls.", "with no seed: 6 white balls."]),  # the third seed is not done
    ],
)
def test_the_map_in_words(tmp_path: Path, steps_of_base: tuple[int | None, ...], words: list[str]) -> None:
    whole, folder = table(CPU), Folder(tmp_path)
    steps = {"base": steps_of_base, "3 white balls": (300,), "6 white balls": (None,)}
    for row in whole.rows:
        measure = row.entries[0].measure
        assert measure is not None
        for training, step in zip(row.entries[0].trainings, steps.get(row.label, ()), strict=False):
            felt = {} if step is None else {"control ball: felt from": Figure(step)}
            folder.write(training, measure, {"control ball: represented": Figure(0.0, 1)} | felt, Times(1, 1))
    assert whole.find is not None
    felt = [f"The control ball is felt {sentence}" for sentence in words]
    done = [label for label in steps if label != "base" or len(steps_of_base) == 3]
    assert whole.find(folder) == [*felt, f"The control ball is represented with no seed: {'; '.join(done)}."]


@pytest.mark.parametrize("scale", [CPU, PAPER])
def test_rows_differ_from_the_base_in_what_they_say(scale: Scale) -> None:
    rows = table(scale).rows
    runs = {row.label: row.entries[0].trainings for row in rows}
    base = runs["base"][0]
    assert base.config().model.encoder.waves == 0  # as in LeWM's code
    assert base.config().objective.encoded_weight == base.config().objective.predicted_weight == 0
    for level in LEVELS:
        training = runs[level.label][0]
        assert (training.data == base.data) == (not level.options and not level.episodes)
        changed = differences(training.config(), base.config())
        assert changed == (["model.encoder.waves: 0.5 and 0.0"] if level.settings else [])


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.label)
def test_every_world_can_be_opened_and_holds_out_enough(level: Level) -> None:
    row = next(row for row in table(CPU).rows if row.label == level.label)
    data = row.entries[0].trainings[0].data
    assert isinstance(data, Simulated)
    make(data.environment, **dict(data.options))
    held_out = int(data.manifest().split.choose(data.episodes).sum())
    assert held_out == 182
    assert data.episodes - held_out == (level.episodes or 3_458)


def test_it_takes_at_most_three_hours_on_two_cores_and_says_its_sizes() -> None:
    assert 60 < table(CPU).minutes(2) <= 180
    assert len(table(CPU).reductions) == 2
    assert len({cell.training.id for cell in table(CPU).cells}) == len(table(CPU).cells)
