"""Plans are tried out in the simulator that the dataset comes from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.training.evaluation.stand_in import planned, untrained
from tests.training.tiny_run import tiny_dataset
from training.dataset import Dataset, DatasetError, open_dataset
from training.envs import make
from training.evaluation import success
from training.evaluation.success import Rate, anew, draw_starts, many_plans, one_plan, try_out, world_of
from training.manifest import Split
from training.planning import receding
from training.planning.planner import Found
from training.planning.settings import DriveConfig
from training.simulate import simulate
from training.world_model import WorldModel


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("success") / "nball.zarr"
    return open_dataset(simulate("nball", out, 40, 16, split=Split(validation=0.5), size=16, balls=1, radius=2.0).path)


@pytest.fixture
def model(dataset: Dataset) -> WorldModel:
    return untrained(dataset)


def test_recorded_actions_lead_to_the_goal_and_others_do_not(
    dataset: Dataset, model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planner that knows the recording always succeeds; one that does nothing never does."""
    rows = np.asarray(dataset.array("frames")), np.asarray(dataset.array("actions"))

    def recorded(model: WorldModel, frames: np.ndarray, goals: np.ndarray, *rest: object) -> Found:
        places = [np.flatnonzero((rows[0] == one[-1]).all(axis=(1, 2, 3)))[0] for one in frames]
        return planned(np.stack([rows[1][place : place + 4] for place in places]))

    monkeypatch.setattr(success, "find_actions", recorded)
    found = one_plan(model, dataset, "validation", horizon=4, starts=50)
    assert found.plans.rate == 1
    assert found.random.rate < 0.5
    assert found.plans.trials == found.random.trials == 50

    monkeypatch.setattr(success, "find_actions", lambda *given: planned(np.zeros((50, 4, 2))))
    assert one_plan(model, dataset, "validation", horizon=4, starts=50).plans.rate == 0


def test_several_seeds_have_starts_of_their_own_and_are_counted_together(
    dataset: Dataset, model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[np.ndarray]()

    def stay(model: WorldModel, frames: np.ndarray, *rest: object) -> Found:
        seen.append(frames[:, -1])
        return planned(np.zeros((len(frames), 8, 2)))

    monkeypatch.setattr(success, "find_actions", stay)
    told = list[str]()
    found = try_out(model, dataset, "validation", starts=5, seeds=2, say=told.append)
    assert len(found) == 6
    assert len(seen) == 12
    assert all((one.plans.trials, one.random.trials, one.seeds) == (10, 10, 2) for one in found)
    assert len({frame.tobytes() for frame in (*seen[0], *seen[1])}) == 10
    assert told[0] == "planning, 1 of 6: 4 steps ahead, frames seen: 1"


def test_seeds_without_starts_of_their_own_are_not_counted(
    dataset: Dataset, model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(success, "find_actions", lambda model, frames, *_: planned(np.zeros((len(frames), 8, 2))))
    found = try_out(model, dataset, "validation", starts=10_000, seeds=3)
    assert {one.seeds for one in found} == {1}
    world = make("nball", balls=1, radius=2.0)
    assert found[0].plans.trials == len(draw_starts(world, model, dataset, "validation", 4, 1, 10_000, seed=0)[0])


def test_plans_look_as_far_ahead_as_the_goal_is_whatever_the_frame_skip(model: WorldModel) -> None:
    for skip, steps in ((1, 25), (5, 5), (4, 7)):
        other = replace(model, config=model.config.model_copy(update={"skip": skip}))
        planning, driving = anew(other, 25, seed=3)
        assert (planning.horizon, driving.keep, driving.budget, planning.seed) == (steps, steps, 50, 3)


def test_starts_are_held_out_distinct_and_not_solved_yet(dataset: Dataset, model: WorldModel) -> None:
    world = make("nball", balls=1, size=64, radius=2.0)
    starts, solved = draw_starts(world, model, dataset, "validation", 4, 3, 10_000, seed=0)
    episodes = dataset.split("validation")
    assert len(starts) + solved == len(episodes) * (16 - 4 - 2)
    held_out = {tuple(row) for e in episodes for row in _states(dataset, e)}
    for one in starts:
        assert one.frames.shape == (3, *dataset.size, 3)
        assert one.past.shape == (2, 2)
        assert tuple(one.state.ravel()) in held_out
        world.set_state(one.state)
        assert not world.reached(one.goal.state)


def test_the_same_seed_gives_the_same_rates(dataset: Dataset, model: WorldModel) -> None:
    first, second = (one_plan(model, dataset, "train", horizon=3, context=3, starts=8, seed=4) for _ in range(2))
    assert first == second
    assert first.horizon == 3


def test_many_plans_see_what_the_model_was_trained_on(
    dataset: Dataset, model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The world draws 64 pixels, the model takes 16: plans start from the very frames of the dataset."""
    shown = []

    def stay(model: WorldModel, frames: np.ndarray, *rest: object, **more: object) -> Found:
        shown.append(frames)
        return planned(np.zeros((len(frames), 5, 2)))

    monkeypatch.setattr(receding, "find_actions", stay)
    found = many_plans(model, dataset, "validation", horizon=4, starts=4, driving=DriveConfig(budget=7, keep=5))
    chosen, _ = draw_starts(make("nball", balls=1, radius=2.0), model, dataset, "validation", 4, 1, 4, seed=0)
    np.testing.assert_array_equal(shown[0], np.stack([one.frames for one in chosen]))
    assert len(shown) == 2
    assert (found.budget, found.plans.trials, found.plans.rate) == (7, 4, 0)


def test_video_has_no_world_to_try_plans_in(tmp_path: Path, model: WorldModel) -> None:
    with pytest.raises(DatasetError, match="does not come from a simulator"):
        one_plan(model, tiny_dataset(tmp_path / "tiny.zarr"), "validation")


def test_a_world_that_is_not_here_is_named(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dataset.world is not None
    elsewhere = dataset.world.model_copy(update={"environment": "mylab"})
    monkeypatch.setattr(Dataset, "world", property(lambda _: elsewhere))
    with pytest.raises(DatasetError, match=r"a simulator that is not here. There is no environment 'mylab'"):
        world_of(dataset)


def test_intervals_hold_the_rate() -> None:
    rate = Rate.of([True] * 30 + [False] * 70)
    assert (rate.successes, rate.trials, rate.rate) == (30, 100, 0.3)
    assert 0.21 < rate.low < 0.3 < rate.high < 0.4
    assert Rate.of([False] * 10).low == 0


def _states(dataset: Dataset, episode: int) -> np.ndarray:
    offset = dataset.episode_offset[episode]
    return np.asarray(dataset.array("state")[offset : offset + 16]).astype(float)
