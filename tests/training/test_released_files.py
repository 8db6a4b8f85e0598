"""Weights go to LeWM's own format, as files, and come back to the same model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from training import load_released
from training.config import TrainConfig, TrainError
from training.models.lewm import LeWM
from training.models.released import WeightsDoNotFit, export_weights, import_weights
from training.planning.settings import PlanConfig
from training.settings import EncoderConfig, ModelConfig, PredictorConfig
from training.world_model import DataFacts, Usual, WorldModel

SMALL = ModelConfig(
    latent=8, projector=16, encoder=EncoderConfig(size=8, patch=4, width=8, heads=2, depth=2, ffn=16),
    predictor=PredictorConfig(width=8, depth=2, heads=2, head_size=4, ffn=16, inner_norm=True),
)  # fmt: skip


@pytest.fixture
def model() -> LeWM:
    torch.manual_seed(0)
    model = LeWM(SMALL, actions=4).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.expect_actions(torch.tensor([1.0, 2, 3, 4]), torch.tensor([0.5, 1, 2, 4]))
    return model


@torch.no_grad()
@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
def test_an_exported_model_comes_back_with_the_scale_of_its_actions(tmp_path: Path, model: LeWM, name: str) -> None:
    export_weights(model, tmp_path / name)
    again = import_weights(tmp_path / name, SMALL)
    latents, actions = torch.randn(2, 3, 8), 3 * torch.randn(2, 3, 4)
    torch.testing.assert_close(again.predict(latents, actions), model.predict(latents, actions))
    assert again.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(tensor, again.state_dict()[key]) for key, tensor in model.state_dict().items())


@torch.no_grad()
def test_released_files_have_no_scale_and_take_normalised_actions(tmp_path: Path, model: LeWM) -> None:
    export_weights(model, tmp_path / "weights.pt")
    (tmp_path / "weights.actions.json").unlink()
    again = import_weights(tmp_path / "weights.pt", SMALL)
    latents, actions = torch.randn(2, 3, 8), torch.randn(2, 3, 4)
    usual = model.action_encoder
    torch.testing.assert_close(
        again.predict(latents, (actions - usual.mean) / usual.std), model.predict(latents, actions)
    )


def test_exported_weights_open_as_a_world_model_that_plans_in_the_units_of_its_actions(
    tmp_path: Path, model: LeWM
) -> None:
    export_weights(model, tmp_path / "weights.safetensors")
    world = load_released(tmp_path / "weights.safetensors", skip=2, model=SMALL)
    frames = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    actions = world.plan(*frames, config=PlanConfig(candidates=20, elites=4, iterations=3, horizon=3))
    assert actions.shape == (6, 2)
    assert abs(actions.mean(axis=0) - (1, 2)).max() < 1.5  # around the mean of the actions
    assert load_released(tmp_path / "weights.safetensors", skip=1, model=SMALL).config.skip == 1
    with pytest.raises(TrainError, match="which 3 actions cannot share"):
        load_released(tmp_path / "weights.safetensors", skip=3, model=SMALL)


def test_a_trained_model_comes_back_with_its_frame_skip_and_the_range_of_its_actions(
    tmp_path: Path, model: LeWM
) -> None:
    usual = Usual(mean=[1.0, 2], std=[0.5, 1], low=[0.9, 1.8], high=[1.1, 2.2])
    facts = DataFacts(
        name="robot", fingerprint="", size=(8, 8), action_dim=2, objects=0, categories={}, statistics={"actions": usual}
    )
    config = TrainConfig.model_validate({"preset": "lewm", "skip": 2, "model": SMALL.model_dump()})
    WorldModel(model, None, None, config, facts, step=1).export(tmp_path / "weights.pt")
    again = load_released(tmp_path / "weights.pt", model=SMALL)
    assert again.config.skip == 2
    assert again.data.statistics["actions"] == usual
    frames = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    actions = again.plan(*frames, config=PlanConfig(candidates=20, elites=4, iterations=3, horizon=3))
    assert (actions >= np.float32(usual.low)).all()
    assert (actions <= np.float32(usual.high)).all()
    with pytest.raises(TrainError, match="has a range for 2 actions"):
        load_released(tmp_path / "weights.pt", skip=1, model=SMALL)


@pytest.mark.parametrize(
    ("beside", "complaint"),
    [("{", "does not say how actions"), ('{"mean": [0.0], "std": [1.0]}', "actions of 4 numbers")],
)
def test_a_damaged_file_beside_the_weights_is_named(tmp_path: Path, model: LeWM, beside: str, complaint: str) -> None:
    export_weights(model, tmp_path / "weights.pt")
    (tmp_path / "weights.actions.json").write_text(beside)
    with pytest.raises(WeightsDoNotFit, match=rf"weights\.actions\.json .*{complaint}"):
        import_weights(tmp_path / "weights.pt", SMALL)


def test_models_built_otherwise_have_no_official_names(tmp_path: Path) -> None:
    with pytest.raises(WeightsDoNotFit, match="Only models built like LeWM"):
        export_weights(LeWM(), tmp_path / "weights.pt")


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
def test_a_file_that_holds_no_weights_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"junk")
    with pytest.raises(WeightsDoNotFit, match=f"{name}: it cannot be read as weights"):
        import_weights(tmp_path / name)


def test_weights_of_something_else_are_named_with_their_file(tmp_path: Path) -> None:
    torch.save({"layer.weight": torch.zeros(2, 2)}, tmp_path / "other.pt")
    with pytest.raises(WeightsDoNotFit, match=r"other\.pt: These are not LeWM's weights"):
        import_weights(tmp_path / "other.pt")
