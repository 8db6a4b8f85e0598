"""Plans are carried out before one's eyes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tests.training.evaluation.stand_in import planned, untrained
from training.dataset import Dataset, open_dataset
from training.envs import make
from training.evaluation import success, trips
from training.evaluation.latents import encoded
from training.evaluation.strips import ALONG, GREEN, Reader, trips_to_goals
from training.evaluation.trips import Trip, make_trips
from training.manifest import Split
from training.planning.planner import Found, find_actions
from training.simulate import simulate
from training.world_model import WorldModel


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("trips") / "nball.zarr"
    return open_dataset(simulate("nball", out, 40, 16, size=16, split=Split(validation=0.5), balls=1).path)


@pytest.fixture
def model(dataset: Dataset) -> WorldModel:
    return untrained(dataset)


def knowing(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are what was done in the recording."""
    frames, actions = np.asarray(dataset.array("frames")), np.asarray(dataset.array("actions"))

    def recorded(model: WorldModel, seen: np.ndarray, *rest: object) -> Found:
        places = [np.flatnonzero((frames == one[-1]).all(axis=(1, 2, 3)))[0] for one in seen]
        return planned(np.stack([actions[place : place + 8] for place in places]))

    monkeypatch.setattr(trips, "find_actions", recorded)


def test_a_trip_shows_what_the_actions_of_its_plan_lead_to(
    dataset: Dataset, model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowing(dataset, monkeypatch)
    for trip in make_trips(model, dataset, "validation"):
        assert trip.frames.shape == (9, 64, 64, 3)  # as the world draws itself, not as the model sees it
        assert trip.reached
        np.testing.assert_array_equal(trip.frames[-1], trip.goal)
        assert not (trip.frames[0] == trip.goal).all()
        assert trip.imagined is not None
        assert trip.imagined.shape == (8, 16)
        (box,) = trip.wanted  # of the control ball alone: red, in the middle of it
        x, y = (box[:2] * 64).astype(int)
        np.testing.assert_array_equal(trip.goal[y, x], [255, 0, 0])
        np.testing.assert_allclose(box[2:], 8 / 64)


def test_the_trips_shown_are_the_first_of_those_that_are_counted(
    dataset: Dataset, model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[np.ndarray] = []

    def remembered(*given: Any) -> Found:
        found = find_actions(*given)
        plans.append(found.actions)
        return found

    monkeypatch.setattr(success, "find_actions", remembered)
    monkeypatch.setattr(trips, "find_actions", remembered)
    success.one_plan(model, dataset, "validation", horizon=8, context=3, starts=5)
    make_trips(model, dataset, "validation", count=2)
    counted, shown = plans
    np.testing.assert_allclose(counted[:2], shown, atol=1e-4)


def test_where_plans_are_made_anew_the_whole_way_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"candidates": 8, "elites": 2, "iterations": 1}
    monkeypatch.setitem(trips.PLANNERS, "lewm", trips.PLANNERS["lewm"].model_copy(update=quick))
    rooms = open_dataset(simulate("two_room", tmp_path / "rooms.zarr", 6, 40, size=16).path)
    model = untrained(rooms)
    shown = make_trips(model, rooms, "validation", count=2)
    for trip in shown:
        assert len(trip.frames) == 51 or trip.reached
        assert trip.imagined is None
        (box,) = trip.wanted
        agent = trip.goal[..., 0].astype(float) - trip.goal[..., 1]  # red on white
        y, x = np.unravel_index(agent.argmax(), agent.shape)
        np.testing.assert_allclose(box[:2] * agent.shape[::-1], (x, y), atol=2)
    figure = trips_to_goals(shown, Reader(encoded(model, rooms, "train", 100), model.data.categories), skip=1)
    assert len(figure.axes) == 2 * (ALONG + 1)  # as many as there is room for, however long the way


def outlines(figure: Figure, place: int) -> list[tuple[str, tuple[float, ...]]]:
    patches = [patch for patch in figure.axes[place].patches if isinstance(patch, Rectangle)]
    return [(to_hex(one.get_edgecolor()), tuple(np.round([*one.get_xy(), one.get_width()], 3))) for one in patches]


def test_a_strip_says_what_was_reached_and_marks_the_target_in_every_picture(
    dataset: Dataset, model: WorldModel
) -> None:
    reader = Reader(encoded(model, dataset, "train", 200), model.data.categories)
    picture = make("nball", balls=1).render()
    target = np.array([[0.5, 0.25, 0.125, 0.125]])
    short = Trip(np.stack([picture] * 4), picture, target, True, np.zeros((3, 16), np.float32))
    long = Trip(np.stack([picture] * 31), picture, target, False)
    figure = trips_to_goals([short, long], reader, skip=1)
    assert [figure.axes[place].get_ylabel() for place in (0, 10)] == ["reached", "missed"]
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[:4] == ["start", "1", "2", "3"]
    assert titles[9:12] == ["goal", "start", "4"]
    assert titles[18:] == ["30", "goal"]
    mark = (GREEN, (0.438, 0.188, 0.125))
    for place, title in enumerate(titles):
        assert (mark in outlines(figure, place)) == bool(title)
    assert [len(outlines(figure, place)) for place in (0, 1, 9, 11)] == [1, 3, 1, 1]  # two balls are imagined
