"""Checkpoints: complete or not there, without pickle, last and best kept, and opened by `training.load`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

import training
from tests.training.tiny_run import tiny_config
from training import checkpoint
from training.config import TrainConfig, TrainError
from training.dataset import Windows
from training.dataset_format import Dataset
from training.objective import Objective
from training.world_model import DataFacts, build


def trained(dataset: Dataset, config: TrainConfig) -> tuple[Objective, torch.optim.AdamW]:
    """A model after two steps, so that the optimiser has moments."""
    objective = build(config, DataFacts.of(dataset))
    optimiser = torch.optim.AdamW(objective.parameters(), 1e-3, fused=True)
    for step, batch in zip(range(2), Windows(dataset, batch=8).batches(0), strict=False):
        optimiser.zero_grad()
        objective(batch, step).total.backward()
        optimiser.step()
    return objective, optimiser


def facts(dataset: Dataset, config: TrainConfig, step: int, best: int | None = None) -> checkpoint.Facts:
    return checkpoint.Facts(
        version="0", step=step, steps=100, seconds=1.5, best_step=best, best_loss=0.1 + 0.2 if best else None,
        sums=[0.1] * 6, summed=1, config=config, data=DataFacts.of(dataset), order=Windows(dataset).order,
        validation={"total": 1.0},
    )  # fmt: skip


def test_what_is_saved_comes_back_bit_for_bit(dataset: Dataset, tmp_path: Path) -> None:
    config = tiny_config()
    objective, optimiser = trained(dataset, config)
    place = checkpoint.save(tmp_path, objective, optimiser, facts(dataset, config, 7))
    other = build(config, DataFacts.of(dataset))
    moments = torch.optim.AdamW(other.parameters(), 1e-3, fused=True)
    checkpoint.restore(place, other, moments)
    assert objective.state_dict().keys() == other.state_dict().keys()
    for name, tensor in objective.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
    for mine, theirs in zip(objective.parameters(), other.parameters(), strict=True):
        assert optimiser.state[mine].keys() == moments.state[theirs].keys() == {"step", "exp_avg", "exp_avg_sq"}
        for key, value in optimiser.state[mine].items():
            assert torch.equal(value, moments.state[theirs][key])
    assert checkpoint.read(place) == facts(dataset, config, 7)


def test_a_checkpoint_holds_config_frequencies_statistics_hash_and_version_and_no_pickle(
    dataset: Dataset, tmp_path: Path
) -> None:
    config = tiny_config()
    place = checkpoint.save(tmp_path, *trained(dataset, config), facts(dataset, config, 7))
    assert {file.suffix for file in place.iterdir()} == {".safetensors", ".json"}
    table = json.loads((place / "checkpoint.json").read_text())
    assert table["config"] == config.model_dump(mode="json")
    assert table["data"]["fingerprint"] == dataset.fingerprint
    assert table["data"]["statistics"]["actions"]["std"] == dataset.statistics["actions"].std.tolist()
    assert {"version", "step", "order"} <= table.keys()
    with safe_open(place / "model.safetensors", "pt") as file:
        assert file.get_tensor("target.fourier.W").shape == (4, 9)
        assert torch.allclose(
            file.get_tensor("model.action_encoder.mean").double(), torch.tensor(dataset.statistics["actions"].mean)
        )


def test_the_last_and_the_best_are_kept(dataset: Dataset, tmp_path: Path) -> None:
    config = tiny_config()
    parts = trained(dataset, config)
    for step, best in ((10, None), (20, 20), (30, 20), (40, 20)):
        checkpoint.save(tmp_path, *parts, facts(dataset, config, step, best))
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-00000020", "step-00000040"]
    assert training.load(tmp_path).step == 20
    assert training.load(tmp_path, "last").step == 40
    assert training.load(tmp_path / "checkpoints" / "step-00000040").step == 40
    with pytest.raises(TrainError, match="choose best or last"):
        training.load(tmp_path, "first")


@pytest.mark.parametrize("moment", ["save_file", "_to_disk"])
def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    config = tiny_config()
    parts = trained(dataset, config)
    checkpoint.save(tmp_path, *parts, facts(dataset, config, 10))
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, moment, lambda *given: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            checkpoint.save(tmp_path, *parts, facts(dataset, config, 20))
    assert training.load(tmp_path, "last").step == 10
    checkpoint.save(tmp_path, *parts, facts(dataset, config, 30))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000030"]


def test_numbers_that_are_none_are_not_saved(dataset: Dataset, tmp_path: Path) -> None:
    config = tiny_config()
    objective, optimiser = trained(dataset, config)
    with torch.no_grad():
        objective.model.projector.fc1.weight[0, 0] = torch.nan
    with pytest.raises(TrainError, match=r"no longer numbers at step 10 \(model.projector.fc1.weight\)"):
        checkpoint.save(tmp_path, objective, optimiser, facts(dataset, config, 10))
    assert checkpoint.last(tmp_path) is None


def test_a_loaded_model_is_ready_for_use(dataset: Dataset, tmp_path: Path) -> None:
    config = tiny_config()
    objective, optimiser = trained(dataset, config)
    checkpoint.save(tmp_path, objective, optimiser, facts(dataset, config, 10))
    before = torch.random.get_rng_state()
    world = training.load(tmp_path)
    assert torch.equal(before, torch.random.get_rng_state())
    batch = next(Windows(dataset, batch=3).batches(0))
    expected = objective.eval().model.encode(batch.frames)
    latents = world.encode(batch.frames.numpy())
    assert torch.equal(latents, expected)
    assert world.head is not None
    assert world.target is not None
    assert world.head(latents).shape == world.target(batch).values.shape == (3, 4, 36)
    actions = np.zeros((3, 5, 4, 2), np.float32)
    assert world.rollout(latents[:, :1], actions).shape == (3, 5, 5, 16)
    assert world.cost(latents[:, :1], latents[:, 3], actions).shape == (3, 5)
    assert not any(parameter.requires_grad for parameter in world.model.parameters())
    assert (world.config, world.data.categories) == (config, {0: "red", 1: "white"})


def test_a_folder_without_a_run_and_a_damaged_checkpoint_are_named(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="has no checkpoint"):
        training.load(tmp_path / "nowhere")
    config = tiny_config()
    place = checkpoint.save(tmp_path, *trained(dataset, config), facts(dataset, config, 10))
    (place / "model.safetensors").write_bytes(b"half")
    with pytest.raises(TrainError, match="step-00000010 cannot be used"):
        training.load(tmp_path)
    known = json.loads((place / "checkpoint.json").read_text())
    (place / "checkpoint.json").write_text(json.dumps(known | {"schema_version": 99}))
    with pytest.raises(TrainError, match="step-00000010 has schema 99, this version reads 1"):
        training.load(tmp_path)
    (place / "checkpoint.json").write_text("{}")
    with pytest.raises(TrainError, match="step-00000010 is not a checkpoint"):
        training.load(tmp_path)


def test_a_model_without_boxes_to_learn_from_is_refused(dataset: Dataset) -> None:
    data = DataFacts.of(dataset).model_copy(update={"objects": 0, "categories": {}})
    with pytest.raises(TrainError, match=r"no boxes .*encoded_weight=0"):
        build(tiny_config(), data)
