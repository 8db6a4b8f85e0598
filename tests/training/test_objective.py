"""The loss has the paper's terms, and each term teaches whom it should."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch import multiprocessing as mp

from tests.training.batches import make_batch
from tests.training.tiny_models import TINY
from training.dataset import Batch
from training.models.lewm import LeWM
from training.objective import Objective, Terms
from training.regularizers import draw_directions, sigreg, visreg
from training.settings import ObjectiveConfig, TargetConfig
from training.targets import BoxTarget

FEW = 32  # directions


def make(target: TargetConfig | None = None, actions: int = 2, **settings: object) -> Objective:
    torch.manual_seed(0)
    model = LeWM(TINY, actions)
    boxes = BoxTarget(target or TargetConfig(), [0, 1], 3)
    objective = Objective(ObjectiveConfig(directions=FEW, **settings), model, boxes, seed=4)  # type: ignore[arg-type]
    torch.manual_seed(1)
    for name, parameter in objective.named_parameters():
        if "modulation" in name:  # which starts at zero, where nothing comes through
            nn.init.normal_(parameter, std=0.3)
    return objective


def test_the_loss_is_the_sum_of_the_papers_terms() -> None:
    objective, batch = make(), make_batch()
    terms = objective(batch, step=7)
    latents, predicted = objective.model(batch.frames, batch.actions)
    assert objective.head is not None
    assert objective.target is not None
    y = objective.target(batch).values
    expected = Terms(
        total=terms.total,
        prediction=((predicted - latents[:, 1:]) ** 2).mean(),
        regularizer=sigreg(latents.transpose(0, 1), draw_directions(12, FEW, seed=4, step=7)),
        encoded=((objective.head(latents) - y) ** 2).mean(),
        predicted=((objective.head(predicted) - y[:, 1:]) ** 2).mean(),
    )
    for ours, theirs in zip(terms, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    weighted = expected.prediction + 0.09 * expected.regularizer + 0.1 * expected.encoded + 0.1 * expected.predicted
    torch.testing.assert_close(terms.total, weighted)


# Which parts learn from a term: its gradient reaches them, and only them.
LEARNS = {
    "prediction": {"encoder", "projector", "predictor", "action_encoder", "predicted_projector"},
    "regularizer": {"encoder", "projector"},
    "encoded": {"encoder", "projector", "head"},
    "predicted": {"encoder", "projector", "predictor", "action_encoder", "predicted_projector"},
    "total": {"encoder", "projector", "predictor", "action_encoder", "predicted_projector", "head"},
}


@pytest.mark.parametrize("term", LEARNS)
@pytest.mark.parametrize("matching", ["fourier", "none", "frame", "sequence"])
def test_each_term_teaches_just_the_parts_that_it_should(term: str, matching: str) -> None:
    objective = make(TargetConfig(matching=matching))  # type: ignore[arg-type]
    getattr(objective(make_batch(), 0), term).backward()
    taught = {
        name.removeprefix("model.").split(".")[0]
        for name, parameter in objective.named_parameters()
        if parameter.grad is not None and parameter.grad.abs().sum() > 0
    }
    assert taught == LEARNS[term]


def test_the_head_learns_the_same_with_and_without_the_term_on_predicted_latents() -> None:
    gradients = []
    for weight in (0.1, 0.0):
        objective = make(predicted_weight=weight)
        objective(make_batch(), 0).total.backward()
        assert objective.head is not None
        gradients.append([parameter.grad for parameter in objective.head.parameters()])
    for both, encoded_only in zip(*gradients, strict=True):
        torch.testing.assert_close(both, encoded_only)


def test_encoded_only_leaves_the_predictor_to_the_prediction_loss() -> None:
    def predictor_gradients(**settings: float) -> list[Tensor | None]:
        objective = make(**settings)
        terms = objective(make_batch(), 0)
        terms.total.backward()
        return [parameter.grad for parameter in objective.model.predictor.parameters()]

    plain = predictor_gradients(encoded_weight=0.0, predicted_weight=0.0)
    encoded_only, both = predictor_gradients(predicted_weight=0.0), predictor_gradients()
    for theirs, ours in zip(plain, encoded_only, strict=True):
        torch.testing.assert_close(theirs, ours)
    assert any(not torch.allclose(theirs, ours) for theirs, ours in zip(plain, both, strict=True))  # type: ignore[arg-type]


def test_no_gradient_is_stopped_at_the_predictions_target() -> None:
    objective, batch = make(), make_batch()
    latents = objective.model.encode(batch.frames)
    latents.retain_grad()
    predicted = objective.model.predict(latents[:, :-1], batch.actions[:, :-1])
    (predicted - latents[:, 1:]).square().mean().backward()
    assert latents.grad is not None
    assert latents.grad[:, -1].abs().sum() > 0  # the last frame is a target and nothing else


def test_the_regularizer_can_be_visreg_or_none() -> None:
    batch = make_batch()
    objective = make(regularizer="visreg")
    latents = objective.model(batch.frames, batch.actions).latents
    value = visreg(latents.transpose(0, 1), draw_directions(12, FEW, seed=4, step=3))
    torch.testing.assert_close(objective(batch, 3).regularizer, value)
    assert make(regularizer="none")(batch, 3).regularizer.item() == 0


def test_plain_lewm_has_no_head_and_needs_no_boxes() -> None:
    config = ObjectiveConfig(directions=FEW, encoded_weight=0, predicted_weight=0)
    objective = Objective(config, LeWM(TINY, actions=2))
    terms = objective(make_batch(), 0)
    terms.total.backward()
    assert objective.head is None
    assert terms.encoded.item() == terms.predicted.item() == 0
    assert all(parameter.grad is not None for parameter in objective.parameters())


def test_a_weight_on_predicted_latents_alone_is_refused() -> None:
    with pytest.raises(ValidationError, match="would stay untrained"):
        ObjectiveConfig(encoded_weight=0, predicted_weight=0.1)


def test_boxes_in_the_loss_without_a_target_are_refused() -> None:
    with pytest.raises(ValueError, match="there is no target"):
        Objective(ObjectiveConfig(), LeWM(TINY, actions=2))


def test_frequencies_and_statistics_are_saved_with_the_weights() -> None:
    state = make().state_dict()
    assert state["target.fourier.W"].shape == (4, 9)
    other = make(TargetConfig(seed=9))
    other.load_state_dict(state)
    batch = make_batch()
    torch.testing.assert_close(other(batch, 0).total, make()(batch, 0).total)


def test_video_without_actions_has_the_same_loss() -> None:
    terms = make(actions=0)(make_batch(actions=0), 0)
    assert all(term.isfinite() and term > 0 for term in terms)


@pytest.mark.slow
def test_a_hundred_steps_bring_the_boxes_into_the_latents() -> None:
    objective, batch = make(), make_batch(windows=16)
    optimiser = torch.optim.AdamW(objective.parameters(), lr=3e-3)
    first = objective(batch, 0)
    for step in range(100):
        optimiser.zero_grad()
        objective(batch, step).total.backward()
        optimiser.step()
    last = objective(batch, 0)
    assert last.encoded < 0.4 * first.encoded
    assert last.predicted < 0.5 * first.predicted


def _share(rank: int, count: int, port: int, out: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=count)
    results = []
    for target, regularizer in CASES:
        objective = make(target, regularizer=regularizer)
        whole = make_batch(windows=8)
        part = Batch(**{name: tensor.chunk(count)[rank] for name, tensor in whole.tensors().items()})
        together = nn.parallel.DistributedDataParallel(objective)
        terms = together(part, 5)
        terms.total.backward()
        results.append((terms.total.detach(), {name: p.grad for name, p in objective.named_parameters()}))
    torch.save(results, Path(out) / f"{rank}.pt")
    torch.distributed.destroy_process_group()


CASES = [(TargetConfig(), "sigreg"), (TargetConfig(matching="sequence"), "visreg")]


@pytest.mark.slow
def test_two_processes_learn_the_same_as_one_from_the_same_batch(tmp_path: Path, free_port: int) -> None:
    mp.spawn(_share, (2, free_port, str(tmp_path)), nprocs=2)  # type: ignore[no-untyped-call]
    parts = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for number, (target, regularizer) in enumerate(CASES):
        objective = make(target, regularizer=regularizer)
        terms = objective(make_batch(windows=8), 5)
        terms.total.backward()
        torch.testing.assert_close(torch.stack([part[number][0] for part in parts]).mean(), terms.total.detach())
        for part in parts:
            for name, parameter in objective.named_parameters():
                torch.testing.assert_close(part[number][1][name], parameter.grad, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("matching", ["fourier", "frame"])
def test_boxes_keep_all_their_bits_where_networks_compute_in_16(matching: str) -> None:
    objective, batch = make(TargetConfig.model_validate({"matching": matching})), make_batch()
    assert objective.target is not None
    truth, seen = objective.target(batch).values, list[Tensor]()
    objective.target.register_forward_hook(lambda module, given, found: seen.append(found.values))
    with torch.autocast("cpu", torch.bfloat16):
        terms = objective(batch, step=7)
    assert torch.equal(seen[0], truth)
    assert terms.encoded.dtype == terms.predicted.dtype == torch.float32
