"""All tables can be built at both scales, with settings that make sense, within the time that was promised."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.training.reproduction.tiny_scale import TINY
from training.boxes import possible_states
from training.manifest import Split
from training.reproduction.scale import ScaleName
from training.reproduction.scales import CPU, PAPER, SCALES
from training.reproduction.table import Entry, Table, side_by_side
from training.reproduction.tables import TABLES, TableError, build

EVERY = pytest.mark.parametrize("name", TABLES)
BOTH = pytest.mark.parametrize("scale", SCALES)
PROMISED = 180  # minutes on two cores
COLUMNS = {"boxes", "present", "oriented", "mass", "velocity", "state", "actions", "frames"}
MUJOCO = COLUMNS | {"depth", "pose", "pose_velocity"}


@BOTH
def test_smaller_datasets_train_on_nothing_that_larger_ones_hold_out(scale: ScaleName) -> None:
    sizes, world = SCALES[scale].nested, SCALES[scale].worlds[SCALES[scale].nested_world]
    split = Split(validation=world.validation)
    trained = [set(np.flatnonzero(~split.choose(episodes)).tolist()) for episodes in sizes]
    assert sizes[-1] == world.episodes
    assert all(small < large for small, large in pairwise(trained))


@EVERY
@BOTH
def test_settings_of_every_training_make_sense(name: str, scale: ScaleName) -> None:
    table = build(name, scale)
    assert table.cells
    for cell in table.cells:
        config = cell.training.config()
        world = cell.training.data.facts()["source"]["environment"]
        assert config.target.state in possible_states(MUJOCO if world in ("cube", "reacher") else COLUMNS)
        assert config.model.encoder.size == cell.training.data.facts()["settings"]["size"]
        assert config.skip == (1 if world == "nball" else 5)


@EVERY
def test_a_table_on_two_cores_takes_at_most_three_hours(name: str) -> None:
    table = build(name)
    assert 0 < table.minutes(2) <= PROMISED
    assert all(cell.minutes > 0 for cell in table.cells)


@EVERY
def test_reductions_are_said_at_the_small_scale_only(name: str) -> None:
    assert len(build(name, "cpu").reductions) >= 2
    assert build(name, "paper").reductions == ()


@EVERY
def test_runs_differ_where_rows_do(name: str) -> None:
    """Each variant is a training of its own: no two labels of a table stand for the same."""
    for scale in (CPU, PAPER):
        cells = TABLES[name](scale).cells
        assert len({cell.training.id for cell in cells}) == len(cells)
        assert len({cell.label for cell in cells}) == len(cells)


def numbers(name: str) -> dict[tuple[str, str], object]:
    """The paper's numbers by row and column."""
    table = build(name, "paper")
    headings = [f"{column.group} {column.name}".strip() for column in table.columns]
    return {
        (row.label, heading): entry.paper
        for row in table.rows
        for heading, entry in zip(headings, row.entries, strict=True)
    }


@pytest.mark.parametrize(
    ("name", "row", "column", "number"),
    [
        ("nball-success", "n = 1, 3 frames seen", "H = 4 with the head", 0.924),
        ("nball-success", "n = 6, 1 frame seen", "H = 8 LeWM", 0.004),
        ("nball-success", "n = 3, 3 frames seen", "H = 6 with the head", 0.594),
        ("nball-spearman", "n = 1", "control ball LeWM", -0.010),
        ("nball-spearman", "n = 6", "all balls with the head", 0.377),
        ("environments", "Two Room", "success LeWM", 0.840),
        ("environments", "OG-Bench Cube", "Spearman with the head", 0.003),
        ("aux-cem", "n = 3, 50K episodes", "collision-free Aux-CEM", 0.929),
        ("aux-cem", "n = 5, 20K episodes", "final distance, px CEM", 5.550),
        ("targets", "OBB (2θ)", "3-Balls (H = 4)", 0.732),
        ("targets", "Compact13", "OG-Bench Cube", 0.748),
        ("heads", "encoded latents only", "Push-T", 0.944),
        ("heads", "LeWM", "3-Balls (H = 4)", 0.011),
        ("matching", "sequence Hungarian", "OG-Bench Cube", 0.640),
        ("depth", "BB + log(z25) + log(z75)", "OG-Bench Cube", 0.708),
        ("noise", "noisy boxes", "3-Balls (H = 4)", 0.759),
        ("probes", "n = 3, environment balls", "linear MSE LeWM", 0.16283),
        ("probes", "OG-Bench Cube, cube yaw", "MLP r with the head", -0.01238),
        ("probes", "Push-T, full state", "linear r with the head", 0.98484),
        ("data-efficiency", "5,280 episodes", "LeWM", 0.912),
        ("regularizers", "SIGReg, with the head", "Spearman environment ball", 0.325),
    ],
)
def test_the_papers_numbers(name: str, row: str, column: str, number: float) -> None:
    assert numbers(name)[row, column] == number


def test_tables_about_the_same_models_share_their_trainings() -> None:
    success, spearman, probes = (
        {cell.training.id for cell in build(name).cells} for name in ("nball-success", "nball-spearman", "probes")
    )
    assert success == spearman
    assert len(success & probes) == 6
    three_balls = {training.id for training in _entry(build("nball-success"), "n = 3, 3 frames seen", 0).trainings}
    assert len(three_balls) == 3
    for name in ("heads", "matching", "noise"):
        assert three_balls <= {cell.training.id for cell in build(name).cells}


@pytest.mark.parametrize("name", ["heads", "matching", "noise", "aux-cem"])
def test_rows_that_need_several_seeds_have_three(name: str) -> None:
    table = build(name)
    column = 0 if name == "aux-cem" else 2
    declared = [
        len(row.entries[column].trainings)
        for row in table.rows
        if row.entries[column].paper is not None and row.entries[column].trainings
    ]
    assert declared
    assert set(declared) == {3}


def test_head_and_baseline_differ_in_the_weights_of_the_head_alone() -> None:
    row = build("nball-success").rows[0]
    head, plain = (entry.trainings[0].config().model_dump() for entry in row.entries[:2])
    for config in (head, plain):
        for name in ("encoded_weight", "predicted_weight"):
            del config["objective"][name]
    assert head == plain


def test_hungarian_matching_may_exchange_objects_of_different_kinds() -> None:
    """Push-T has one object of each kind: within kinds, all ways of matching would be the same training."""
    table = build("matching")
    for row in ("frame Hungarian", "sequence Hungarian"):
        assert _entry(table, row, 0).trainings[0].config().target.grouping == "all"


def test_what_is_left_out_at_a_scale_has_no_cells() -> None:
    entry = _entry(build("aux-cem", "cpu"), "n = 1, 50K episodes", 0)
    assert entry.trainings == ()
    assert entry.paper == 3.998
    assert len(_entry(build("aux-cem", "paper"), "n = 1, 50K episodes", 0).trainings) == 1


def test_jobs_begin_as_soon_as_a_worker_is_free() -> None:
    assert side_by_side([5, 4, 3, 3], 2) == 8
    assert side_by_side([5, 4, 3, 3], 1) == 15
    assert side_by_side([], 2) == 0


def test_there_is_no_other_table() -> None:
    with pytest.raises(TableError, match="nball-success"):
        build("nothing")


def test_the_tiny_scale_of_these_tests_knows_all_tables() -> None:
    for make in TABLES.values():
        for cell in make(TINY).cells:
            assert cell.training.config().steps == 4


def _entry(table: Table, row: str, column: int) -> Entry:
    return next(one for one in table.rows if one.label == row).entries[column]
