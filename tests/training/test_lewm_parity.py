"""With the official weights our LeWM gives what the official code gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.training.tiny_lewm import gradient_keys, keys, official_weights, recipe_tensor, reference
from training.models.lewm import LeWM
from training.models.released import WeightsDoNotFit, load, save
from training.settings import MODELS

TOLERANCE = 1e-4
COST_TOLERANCE = 1e-3
NO_DROPOUT = MODELS["lewm"].model_copy(
    update={"predictor": MODELS["lewm"].predictor.model_copy(update={"dropout": 0.0})}
)


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return official_weights()


@pytest.fixture(scope="module")
def expected() -> dict[str, Tensor]:
    return reference()


@pytest.fixture(scope="module")
def model(weights: dict[str, Tensor]) -> LeWM:
    return load(weights)


def close(ours: Tensor, theirs: Tensor, tolerance: float = TOLERANCE) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


def test_the_recipe_makes_the_tensors_that_the_reference_ran_with() -> None:
    for row in keys():
        tensor = recipe_tensor(row["key"], row["shape"])
        assert tensor.double().norm().item() == pytest.approx(row["l2"], rel=1e-6, abs=1e-6)


def test_it_has_as_many_parameters_as_the_released_model(model: LeWM) -> None:
    assert sum(parameter.numel() for parameter in model.parameters()) == 18_034_478


@torch.no_grad()
def test_class_tokens_latents_and_predictions_are_the_references(model: LeWM, expected: dict[str, Tensor]) -> None:
    frames, actions = expected["frames"], expected["actions"]
    close(model.encoder(frames.flatten(0, 1)).view(3, 4, -1), expected["eval_cls"])
    close(model.action_encoder(actions), expected["eval_act_emb"])
    latents, predicted = model(frames, actions)
    close(latents, expected["eval_z"])
    close(predicted, expected["eval_pred"])
    close((predicted - latents[:, 1:]).square().mean(), expected["eval_pred_loss"])


@pytest.mark.slow
def test_a_training_step_has_the_references_loss_gradients_and_statistics(
    weights: dict[str, Tensor], expected: dict[str, Tensor]
) -> None:
    model = load(weights, NO_DROPOUT).train()
    latents, predicted = model(expected["frames"], expected["actions"])
    loss = (predicted - latents[:, 1:]).square().mean()
    loss.backward()
    close(latents, expected["train_z"])
    close(predicted, expected["train_pred"])
    close(loss, expected["train_pred_loss"])

    state = save(model)
    for key in (f"{part}.net.1.running_{name}" for part in ("projector", "pred_proj") for name in ("mean", "var")):
        close(state[key][:64], expected[f"train_after_{key}"])

    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.data = parameter.grad  # so that `save` gives the gradients their official names
    gradients = save(model)
    norms = [gradients[key].double().norm().item() for key in gradient_keys()]
    assert norms == pytest.approx(expected["grad_norms"].tolist(), rel=TOLERANCE)


@torch.no_grad()
@pytest.mark.parametrize("context", [1, 3])
def test_all_starts_and_candidates_in_one_batch_cost_what_the_reference_says(
    context: int, model: LeWM, expected: dict[str, Tensor]
) -> None:
    latents = model.encode(expected["frames"][:2])
    goal, start, actions = latents[:, 3], latents[:, :context], expected["plan_actions"]
    close(goal, expected["plan_goal_emb"][:, 0])
    close(model.rollout(start, actions), expected[f"plan{context}_predicted_emb"])
    close(model.cost(start, goal, actions), expected[f"plan{context}_cost"], COST_TOLERANCE)


@pytest.mark.parametrize("names", ["transformers4", "transformers5"])
def test_weights_go_in_and_out_unchanged_under_old_and_new_names(names: str) -> None:
    official = official_weights(names)
    back = save(load(official), names)  # type: ignore[arg-type]
    assert back.keys() == official.keys()
    assert all(torch.equal(back[key], tensor) for key, tensor in official.items())


def test_old_and_new_names_make_the_same_model(model: LeWM) -> None:
    other = load(official_weights("transformers5")).state_dict()
    assert all(torch.equal(tensor, other[key]) for key, tensor in model.state_dict().items())


def test_a_missing_an_unknown_and_a_misshapen_tensor_are_named(weights: dict[str, Tensor]) -> None:
    key = "encoder.layernorm.bias"
    with pytest.raises(WeightsDoNotFit, match=r"encoder\.layernorm\.bias is missing"):
        load({name: tensor for name, tensor in weights.items() if name != key})
    with pytest.raises(WeightsDoNotFit, match=r"encoder\.pooler\.dense\.weight is unknown"):
        load({**weights, "encoder.pooler.dense.weight": torch.zeros(1)})
    with pytest.raises(WeightsDoNotFit, match=r"encoder\.layernorm\.bias is \(3,\), not \(192,\)"):
        load({**weights, key: torch.zeros(3)})
    with pytest.raises(WeightsDoNotFit, match="not LeWM's weights"):
        load({})
