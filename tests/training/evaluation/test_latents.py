"""Frames through a model, and what they show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.tiny_run import tiny_config, tiny_dataset
from training.dataset import DatasetError
from training.dataset_format import SplitName
from training.envs.nball import NBall
from training.evaluation.latents import Seen, encoded, episode_of, of_the_world, quantities, to_fit_and_judge
from training.evaluation.prediction import prediction_errors
from training.evaluation.strips import Reader
from training.world_model import DataFacts, WorldModel, build

NAMES = {0: "red", 1: "white"}


@pytest.fixture
def model(tmp_path: Path) -> WorldModel:
    data = DataFacts.of(tiny_dataset(tmp_path / "tiny.zarr"))
    torch.manual_seed(0)
    objective = build(tiny_config(), data).eval()
    return WorldModel(objective.model, objective.head, objective.target, tiny_config(), data, 0)


def test_latents_stand_beside_what_their_frames_show(tmp_path: Path, model: WorldModel) -> None:
    dataset = tiny_dataset(tmp_path / "same.zarr")
    seen = encoded(model, dataset, "train", 100)
    assert len(seen.latents) == len(np.unique(seen.frames)) == 100
    for number in (0, 50, 99):
        row = int(seen.frames[number])
        picture = np.asarray(dataset.array("frames")[row])
        np.testing.assert_allclose(model.encode(picture[None])[0], seen.latents[number], atol=1e-5)
        np.testing.assert_array_equal(np.asarray(dataset.array("boxes")[row]), seen.boxes[number])


def test_where_all_frames_count_hardly_any_is_left_over(
    tmp_path: Path, model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = tiny_dataset(tmp_path / "same.zarr")
    there = int(dataset.episode_length[dataset.split("train")].sum())
    monkeypatch.setattr("training.evaluation.latents.BATCH", there - 1)
    seen = encoded(model, dataset, "train", 10_000)
    assert there - 1 <= len(np.unique(seen.frames)) == len(seen.latents) <= there


def test_objects_that_come_and_go_count_by_their_mean() -> None:
    boxes = np.arange(3 * 3 * 4, dtype=np.float32).reshape(3, 3, 4)
    present = np.array([[True, True, True], [True, False, True], [True, False, False]])
    category = np.array([[0, 1, 1]] * 3)
    found = quantities(Seen(np.zeros((3, 2)), np.arange(3), boxes, present, category), NAMES)
    np.testing.assert_array_equal(found["red, position"].values, boxes[:, 0, :2])
    np.testing.assert_array_equal(found["white, position"].rows, [0, 1])
    np.testing.assert_array_equal(found["white, position"].values, [boxes[0, 1:, :2].mean(axis=0), boxes[1, 2, :2]])
    assert found["all, position"].values.shape == (2, 4)
    assert not any(name.endswith("velocity") for name in found)


def test_several_without_an_order_count_by_their_mean() -> None:
    boxes = np.random.default_rng(0).random((5, 3, 4), np.float32)
    seen = Seen(np.zeros((5, 2)), np.arange(5), boxes, np.ones((5, 3), bool), np.array([[0, 1, 1]] * 5))
    assert quantities(seen, NAMES)["white, position"].values.shape == (5, 4)
    found = quantities(replace(seen, ordered=False), NAMES)
    np.testing.assert_allclose(found["white, position"].values, boxes[:, 1:, :2].mean(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(found["red, position"].values, boxes[:, 0, :2])
    assert seen.chosen(np.array([1, 2])).boxes.shape == (2, 3, 4)
    assert Reader(seen, NAMES).kinds.tolist() == [0, 1, 1]
    apart = Reader(replace(seen, ordered=False), NAMES)
    assert apart.kinds.tolist() == [0]
    assert list(apart.places(seen.latents)) == [1]


def test_a_kind_of_objects_called_all_is_not_all_of_them() -> None:
    boxes = np.random.default_rng(0).random((5, 2, 4), np.float32)
    seen = Seen(np.zeros((5, 2)), np.arange(5), boxes, np.ones((5, 2), bool), np.array([[0, 1]] * 5))
    found = quantities(seen, {0: "all", 1: "white"})
    np.testing.assert_array_equal(found["all, position"].values, boxes[:, 0, :2])
    np.testing.assert_array_equal(found["all objects, position"].values, boxes[..., :2].reshape(5, 4))
    assert "all objects objects, position" in quantities(seen, {0: "all", 1: "all objects"})


@pytest.mark.parametrize("split", ["train", "validation"])
def test_probes_are_judged_on_episodes_that_they_were_not_fitted_on(
    tmp_path: Path, model: WorldModel, split: SplitName
) -> None:
    dataset = tiny_dataset(tmp_path / "same.zarr")
    fitted, judged = to_fit_and_judge(model, dataset, split, 1000, 1000)
    learned, asked = (set(episode_of(dataset, seen.frames).tolist()) for seen in (fitted, judged))
    assert not learned & asked
    assert learned <= set(dataset.split("train").tolist())
    assert asked <= set(dataset.split(split).tolist())
    for seen in (fitted, judged):
        row = int(seen.frames[-1])
        np.testing.assert_array_equal(np.asarray(dataset.array("boxes")[row]), seen.boxes[-1])


def test_a_single_training_episode_cannot_be_learned_from_and_judged(
    tmp_path: Path, model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = tiny_dataset(tmp_path / "same.zarr")
    monkeypatch.setattr(dataset, "split", lambda name: np.array([3]))
    with pytest.raises(DatasetError, match="one training episode"):
        to_fit_and_judge(model, dataset, "train", 100, 100)


def test_a_simulator_tells_what_boxes_do_not() -> None:
    class World(NBall):
        def quantities_of(self, states: np.ndarray) -> dict[str, np.ndarray]:
            return {"half": states[:, :1] / 2}

    states = np.arange(6.0).reshape(3, 2)
    seen = Seen(
        np.zeros((3, 2)), np.arange(3), np.zeros((3, 0, 4)), np.zeros((3, 0), bool), np.zeros((3, 0)), None, states
    )
    np.testing.assert_array_equal(of_the_world(seen, World())["half"].values, [[0], [1], [2]])
    assert of_the_world(seen, NBall()) == of_the_world(seen, None) == {}


def test_a_model_that_stands_still_has_error_one(
    tmp_path: Path, model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stand(start: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        later = start[:, -1:].expand(-1, actions.shape[2] + 1 - start.shape[1], -1)
        return torch.cat([start, later], dim=1)[:, None]

    monkeypatch.setattr(model.model, "rollout", stand)
    errors = prediction_errors(model, tiny_dataset(tmp_path / "same.zarr"), "validation", horizon=4)
    np.testing.assert_allclose(errors, 1, rtol=1e-4)
