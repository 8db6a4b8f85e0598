"""Measures on real models, trained for a moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.reproduction.tiny_scale import TINY
from training import load
from training.dataset import Dataset, open_dataset
from training.evaluation.latents import Seen
from training.reproduction.cells import Folder
from training.reproduction.judge import POSITIONS, Clearance, Correlation, Driving, OnePlan, Probing, _state
from training.trainer import train
from training.world_model import WorldModel

LONG = replace(TINY, worlds={"nball-1": replace(TINY.worlds["nball-1"], frames=30)})
SLOTS = ("target.matching=none",)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[WorldModel, Dataset]:
    """One ball, a head that says boxes."""
    torch.set_num_threads(1)
    folder = Folder(tmp_path_factory.mktemp("judge"))
    (training,) = LONG.trainings("judge", "nball-1", "nball", SLOTS, "slots")
    dataset = open_dataset(folder.make(training.data))
    train(dataset, folder.run(training), training.config(), device="cpu")
    return load(folder.run(training), "last"), dataset


def test_success_is_pooled_over_seeds_with_its_trials(trained: tuple[WorldModel, Dataset]) -> None:
    one, both = (OnePlan(horizon=2, starts=4, seeds=seeds).take(*trained) for seeds in ((0,), (0, 1)))
    assert (one["plans"].trials, both["plans"].trials, both["random"].trials) == (4, 8, 8)


def test_driving_counts_arrivals(trained: tuple[WorldModel, Dataset], monkeypatch: pytest.MonkeyPatch) -> None:
    from training.planning import settings

    monkeypatch.setitem(settings.PLANNERS, "lewm", settings.PlanConfig(candidates=4, elites=2, iterations=1))
    figures = Driving(starts=3).take(*trained)
    assert {name: figure.trials for name, figure in figures.items()} == {"plans": 3, "random": 3, "left out: solved": 0}


def test_distances_and_rank_of_latents(trained: tuple[WorldModel, Dataset]) -> None:
    figures = Correlation().take(*trained)
    assert {"control ball, position", "ball, position", POSITIONS, "rank"} <= set(figures)
    assert figures[POSITIONS] == figures["all, position"]
    assert 1 <= figures["rank"].value <= 16
    assert 0 < figures["spread"].value < 10


def test_probes_of_each_quantity_and_of_all(trained: tuple[WorldModel, Dataset]) -> None:
    figures = Probing(fitted=250, judged=200, epochs=1).take(*trained)
    for quantity in ("control ball, position", "ball, position", "everything"):
        for figure in ("linear error", "linear r", "network error", "network r"):
            assert np.isfinite(figures[f"{quantity}: {figure}"].value)


def test_the_only_kind_of_objects_has_probes_of_its_own_and_is_everything(tmp_path: Path) -> None:
    (training,) = TINY.trainings("judge", "two-room", "nball", (), "Two Room")
    dataset = open_dataset(Folder(tmp_path).make(training.data))
    boxes, present = np.random.default_rng(0).random((4, 1, 4)), np.ones((4, 1), bool)
    seen = Seen(np.zeros((4, 2)), np.arange(4), boxes, present, np.zeros((4, 1), int))
    known = _state(seen, dataset)
    assert list(known) == ["agent, position", "everything"]
    np.testing.assert_array_equal(known["agent, position"].values, known["everything"].values)


def test_clearance_compares_both_ways(trained: tuple[WorldModel, Dataset]) -> None:
    figures = Clearance(horizon=4, starts=4).take(*trained)
    assert set(figures) == {
        *(f"{way}: {figure}" for way in ("plain", "informed", "random") for figure in ("distance", "clear", "success")),
        "left out: solved",
        "left out: touching",
    }
    assert figures["plain: clear"].trials == 4
    assert figures["plain: distance"].trials == 0


@pytest.mark.parametrize("world", ["push-t", "reacher", "cube", "two-room"])
def test_every_quantity_of_the_probes_table_is_known(world: str, tmp_path: Path) -> None:
    """By its simulator: no number of the table will be missing for a misspelt name."""
    from training.envs import make
    from training.evaluation.latents import Telling
    from training.reproduction.tables.probes import PAPER

    data = TINY.worlds[world]
    environment = make(data.environment, **dict(data.options))
    told = environment.quantities_of(environment.state()[None]) if isinstance(environment, Telling) else {}
    assert {quantity for quantity, _ in PAPER[world].values()} - {"everything"} == set(told)
