"""Roll-outs without repeated work end where the predictor says."""

from __future__ import annotations

import pytest
import torch

from training.models.lewm import LeWM
from training.settings import EncoderConfig, ModelConfig, PredictorConfig


@pytest.mark.parametrize("inner_norm", [False, True])
@pytest.mark.parametrize("context", [1, 2, 3, 4])
@torch.no_grad()
def test_each_step_is_the_predictors_answer_to_its_window(context: int, inner_norm: bool) -> None:
    torch.manual_seed(0)
    config = ModelConfig(
        latent=12, projector=16, encoder=EncoderConfig(size=8, patch=8, width=8, heads=2, depth=1),
        predictor=PredictorConfig(context=3, width=8, depth=3, heads=2, head_size=4, ffn=16, inner_norm=inner_norm),
    )  # fmt: skip
    model = LeWM(config, actions=2).eval()
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))  # before training, actions have no effect
    start, actions = torch.randn(2, context, 12), torch.randn(2, 5, 6, 2)
    rolled = model.rollout(start, actions)
    assert rolled.shape == (2, 5, 7, 12)
    path = start.repeat_interleave(5, dim=0)
    for step in range(context, 7):
        first = max(0, step - 3)
        latest = model.predict(path[:, first:step], actions.flatten(0, 1)[:, first:step])[:, -1:]
        path = torch.cat([path, latest], dim=1)
    torch.testing.assert_close(rolled.flatten(0, 1), path, atol=1e-5, rtol=1e-4)
