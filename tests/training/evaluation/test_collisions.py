"""Plans are carried out and judged by the balls that they meet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.evaluation.stand_in import planned, untrained
from tests.training.tiny_run import tiny_dataset
from training.dataset import Dataset, DatasetError, open_dataset
from training.envs.nball import NBall
from training.evaluation import collisions
from training.evaluation.collisions import keep_clear, touching
from training.manifest import Split
from training.planning.costs import Collision
from training.planning.planner import Found
from training.simulate import simulate
from training.world_model import WorldModel

STARTS = 30


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("collisions") / "nball.zarr"
    return open_dataset(simulate("nball", out, 60, 16, split=Split(validation=0.5), size=16, balls=6).path)


def test_balls_touch_within_two_radii() -> None:
    world = NBall(2)
    state = world.state()
    state[:, :2] = [[20, 20], [28.1, 20], [20, 50]]
    assert not touching(world, state)
    state[1, :2] = [27.9, 20]
    assert touching(world, state)
    state[1, :2], state[2, :2] = [50, 50], [57, 50]  # white balls may meet
    assert not touching(world, state)


def test_collisions_on_the_way_spoil_success_and_starts_are_free(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planner that knows the recording ends at the goal, but meets whom the recording met."""
    frames, actions = np.asarray(dataset.array("frames")), np.asarray(dataset.array("actions"))
    states = np.asarray(dataset.array("state")).reshape(-1, 7, 4)
    world, met = NBall(6), list[bool]()

    def recorded(model: WorldModel, seen: np.ndarray, *rest: object) -> Found:
        rows = [int(np.flatnonzero((frames == one[-1]).all(axis=(1, 2, 3)))[0]) for one in seen]
        met[:] = [any(touching(world, states[row + step]) for step in range(1, 11)) for row in rows]
        assert not any(touching(world, states[row]) or touching(world, states[row + 10]) for row in rows)
        ways = np.linalg.norm([states[row + 10, 0, :2] - states[row, 0, :2] for row in rows], axis=1)
        assert (ways > world.radius + 1).all()  # nobody succeeds by standing still
        return planned(np.stack([actions[row : row + 10] for row in rows]))

    monkeypatch.setattr(collisions, "find_actions", recorded)
    found = keep_clear(untrained(dataset, matching="none"), dataset, "validation", 10, 1, STARTS)
    assert 0 < sum(met) < STARTS
    assert found.plain == found.informed
    assert found.touching > 0  # starts that were passed over are counted
    assert found.solved > 0
    assert found.random.success.successes < found.plain.success.successes
    assert found.random.distance > 1
    assert found.plain.distance == pytest.approx(0, abs=1e-4)
    assert found.plain.clear.successes == found.plain.success.successes == STARTS - sum(met)


def test_the_second_plan_pays_for_overlap_in_the_models_own_pixels(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def stay(
        model: WorldModel, frames: np.ndarray, goals: object, past: object, settings: object, rules: object
    ) -> Found:
        asked.append(rules)
        return planned(np.zeros((len(frames), 3, 2)))

    monkeypatch.setattr(collisions, "find_actions", stay)
    keep_clear(untrained(dataset, matching="none"), dataset, "validation", 3, 3, 4, weight=2.5)
    (), ((weight, rule),) = asked
    assert weight == 2.5
    assert isinstance(rule, Collision)
    assert rule.distance == 2.0  # two radii of 4 pixels, of which the model sees every fourth
    assert rule.read.categories == (rule.control, *[1 - rule.control] * 6)
    latents = torch.randn(1, 5, 3, 16)
    assert rule(latents).shape == (1, 5)


def test_other_worlds_have_no_balls(tmp_path: Path, dataset: Dataset) -> None:
    with pytest.raises(DatasetError, match="does not come from a simulator"):
        keep_clear(untrained(dataset), tiny_dataset(tmp_path / "tiny.zarr"), "validation")
    rooms = open_dataset(simulate("two_room", tmp_path / "rooms.zarr", 4, 8, size=16).path)
    with pytest.raises(DatasetError, match="not of an n-ball world"):
        keep_clear(untrained(dataset), rooms, "validation")
