"""Shapes, sizes and behaviour of the networks, on one process and on several."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch import multiprocessing as mp

from tests.training.tiny_models import TINY
from training.models.encoder import Encoder
from training.models.heads import AuxiliaryHead
from training.models.layers import GlobalBatchNorm, Projector, attend
from training.models.lewm import LeWM
from training.models.released import WeightsDoNotFit, save
from training.settings import MODELS


def frames(*shape: int, size: int = 16) -> Tensor:
    return torch.randint(0, 256, (*shape, size, size, 3), dtype=torch.uint8)


@pytest.fixture
def model() -> LeWM:
    torch.manual_seed(0)
    model = LeWM(TINY, actions=2)
    for parameter in model.parameters():  # away from the start, where actions do nothing yet
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def test_the_nball_model_is_that_of_the_paper() -> None:
    model = LeWM(MODELS["nball"], actions=2)
    encoder, predictor = model.encoder, model.predictor
    assert encoder.positions.shape == (1 + 8 * 8, 64)
    assert len(encoder.blocks) == len(predictor.blocks) == 4
    assert {block.fc1.out_features for block in (*encoder.blocks, *predictor.blocks)} == {256}  # type: ignore[union-attr]
    assert {block.heads for block in (*encoder.blocks, *predictor.blocks)} == {4}
    assert predictor.positions.shape == (3, 64)
    latents, predicted = model(frames(2, 4, size=64), torch.randn(2, 4, 2))
    assert latents.shape == (2, 4, 128)
    assert predicted.shape == (2, 3, 128)


def test_positions_begin_as_waves_but_for_lewm_as_released() -> None:
    assert Encoder(MODELS["lewm"].encoder).positions.detach().std() == pytest.approx(0.02, rel=0.2)  # the tails are cut
    encoder = Encoder(MODELS["nball"].encoder)
    places = encoder.positions[1:].detach().unflatten(0, (8, 8))
    empty = encoder.patch(encoder._patches(torch.zeros(1, 64, 64, 3, dtype=torch.uint8))).detach()
    assert places.std().item() == pytest.approx(empty.std().item(), rel=0.4)
    alike = torch.cosine_similarity(places[3, 3], places, dim=-1)
    assert alike[3, 3] > alike[3, 4] > alike[3, 5] > alike[3, 6]  # across
    assert alike[3, 3] > alike[4, 3] > alike[5, 3] > alike[6, 3]  # down


def test_pixels_are_normalised_as_chosen() -> None:
    black, white = torch.zeros(1, 16, 16, 3, dtype=torch.uint8), torch.full((1, 16, 16, 3), 255, dtype=torch.uint8)
    for name, low, high in (("symmetric", -1.0, 1.0), ("unit", 0.0, 1.0)):
        encoder = Encoder(TINY.encoder.model_copy(update={"pixels": name}))
        torch.testing.assert_close(encoder._patches(black), torch.full((1, 16, 48), low))
        torch.testing.assert_close(encoder._patches(white), torch.full((1, 16, 48), high))
    red = Encoder(TINY.encoder.model_copy(update={"pixels": "imagenet"}))._patches(white)[0, 0, :3]
    torch.testing.assert_close(red, (1 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225]))


def test_the_short_cut_for_the_class_token_gives_what_the_whole_block_gives(model: LeWM) -> None:
    block = model.encoder.blocks[-1]
    tokens = torch.randn(5, 17, 16, requires_grad=True)
    whole, short = block(tokens)[:, 0], block.first_token(tokens)  # type: ignore[operator]
    torch.testing.assert_close(short, whole)
    inputs = (tokens, *block.parameters())
    for ours, theirs in zip(*(torch.autograd.grad(out.square().sum(), inputs) for out in (short, whole)), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_half_precision_gives_nearly_the_same(model: LeWM) -> None:
    some, actions = frames(4, 4), torch.randn(4, 4, 2)
    exact = model(some, actions)
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(some, actions)
    for ours, theirs in zip(rough, exact, strict=True):
        assert (ours.float() - theirs).norm() < 0.05 * theirs.norm()


def test_attention_on_a_cpu_counts_with_32_bits_also_in_half_precision() -> None:
    packed = torch.randn(2, 5, 3 * 8).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = attend(packed, heads=2)
    assert mixed.dtype == torch.bfloat16
    torch.testing.assert_close(mixed, attend(packed.float(), heads=2).bfloat16(), rtol=0, atol=0)


def test_frames_of_another_size_or_type_are_refused(model: LeWM) -> None:
    with pytest.raises(ValueError, match=r"takes frames of 16 x 16 x 3 bytes; these are 32 x 32 x 3 of uint8"):
        model.encode(frames(2, size=32))
    with pytest.raises(ValueError, match=r"of float32"):
        model.encode(frames(2).float())


def test_a_prediction_knows_nothing_of_later_frames_and_actions(model: LeWM) -> None:
    latents, actions = torch.randn(2, 3, 12), torch.randn(2, 3, 2)
    before = model.predict(latents, actions)
    latents[:, 2] += 1
    actions[:, 2] += 1
    after = model.predict(latents, actions)
    torch.testing.assert_close(before[:, :2], after[:, :2])
    assert not torch.allclose(before[:, 2], after[:, 2])


def test_the_last_action_of_a_window_is_not_used(model: LeWM) -> None:
    some, actions = frames(2, 4), torch.randn(2, 4, 2)
    before = model(some, actions).predicted
    actions[:, 3] = torch.nan
    torch.testing.assert_close(model(some, actions).predicted, before)


def test_before_training_actions_have_no_influence() -> None:
    fresh = LeWM(TINY, actions=2).eval()
    latents = torch.randn(2, 3, 12)
    one, other = fresh.predict(latents, torch.randn(2, 3, 2)), fresh.predict(latents, torch.randn(2, 3, 2))
    torch.testing.assert_close(one, other)


def test_actions_are_normalised_by_statistics_that_are_saved(model: LeWM) -> None:
    latents, actions = torch.randn(2, 3, 12), torch.randn(2, 3, 2)
    expected = model.predict(latents, actions)
    mean, std = torch.tensor([3.0, -1.0]), torch.tensor([2.0, 5.0])
    model.expect_actions(mean, std)
    torch.testing.assert_close(model.predict(latents, actions * std + mean), expected, atol=1e-4, rtol=1e-4)
    restored = LeWM(TINY, actions=2).eval()
    restored.load_state_dict(model.state_dict())
    torch.testing.assert_close(restored.predict(latents, actions), model.predict(latents, actions))


def test_video_without_actions_makes_a_model_that_trains() -> None:
    model = LeWM(TINY, actions=0)
    latents, predicted = model(frames(3, 4), torch.zeros(3, 4, 0))
    (predicted - latents[:, 1:]).square().mean().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    with pytest.raises(ValueError, match="takes 0 numbers per action; these have 2"):
        model.predict(latents, torch.zeros(3, 4, 2))


@pytest.mark.parametrize("context", [1, 2, 3])
def test_a_rollout_is_one_prediction_after_another(model: LeWM, context: int) -> None:
    start, actions = torch.randn(2, context, 12), torch.randn(2, 5, 6, 2)
    paths = model.rollout(start, actions)
    assert paths.shape == (2, 5, 7, 12)
    path = start[1]
    for step in range(context, 7):
        first = max(0, step - 3)
        following = model.predict(path[None, first:step], actions[1, 4][None, first:step])[0, -1]
        path = torch.cat([path, following[None]])
    torch.testing.assert_close(paths[1, 4], path, atol=1e-5, rtol=1e-5)


def test_the_cost_is_the_squared_distance_from_each_starts_own_goal(model: LeWM) -> None:
    start, goal, actions = torch.randn(3, 1, 12), torch.randn(3, 12), torch.randn(3, 3, 4, 2)
    costs = model.cost(start, goal, actions)
    end = model.rollout(start, actions)[:, :, -1]
    for number in range(3):
        torch.testing.assert_close(costs[number], (end[number] - goal[number]).square().sum(-1))


def test_too_few_actions_and_too_many_frames_are_named(model: LeWM) -> None:
    with pytest.raises(ValueError, match="3 frames of context need at least as many actions; there are 2"):
        model.rollout(torch.randn(1, 3, 12), torch.randn(1, 1, 2, 2))
    with pytest.raises(ValueError, match="sees at most 3 frames; these are 4"):
        model.predict(torch.randn(1, 4, 12), torch.randn(1, 4, 2))


def test_only_models_built_like_lewm_have_official_names(model: LeWM) -> None:
    with pytest.raises(WeightsDoNotFit, match="built like LeWM"):
        save(model)


def test_dropout_is_for_training_only() -> None:
    config = TINY.model_copy(update={"predictor": TINY.predictor.model_copy(update={"dropout": 0.5})})
    model = LeWM(config, actions=2)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    latents, actions = torch.randn(4, 3, 12), torch.randn(4, 3, 2)
    assert not torch.equal(model.predict(latents, actions), model.predict(latents, actions))
    model.eval()
    assert torch.equal(model.predict(latents, actions), model.predict(latents, actions))


def test_a_frozen_head_says_the_same_and_learns_nothing() -> None:
    head = AuxiliaryHead(12, 64, 18)
    latents = torch.randn(5, 12, requires_grad=True)
    answers = head.frozen(latents)
    torch.testing.assert_close(answers, head(latents))
    answers.sum().backward()  # type: ignore[no-untyped-call]
    assert latents.grad is not None
    assert latents.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in head.parameters())


def test_on_one_process_the_batchnorm_is_torchs_own() -> None:
    ours, theirs = GlobalBatchNorm(7), nn.BatchNorm1d(7)
    rows = torch.randn(10, 7) * 3 + 1
    for _ in range(2):
        assert torch.equal(ours(rows), theirs(rows))
    assert all(torch.equal(ours.state_dict()[name], value) for name, value in theirs.state_dict().items())


def _project(rank: int, count: int, port: int, out: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=count)
    projector, rows = _projector_and_rows()
    part = rows.chunk(count)[rank].requires_grad_()
    # Each process has a loss of its own, as in training; DDP averages their gradients.
    (projector(part) * (1 + torch.arange(24).chunk(count)[rank][:, None])).square().mean().backward()
    gradients = [parameter.grad for parameter in projector.parameters()]
    torch.save((part.grad, gradients, projector.state_dict()), Path(out) / f"{rank}.pt")
    torch.distributed.destroy_process_group()


def _projector_and_rows() -> tuple[Projector, Tensor]:
    torch.manual_seed(1)
    return Projector(6, 10, 4), torch.randn(24, 6) * 2 + 1


@pytest.mark.slow
def test_a_batch_shared_by_processes_is_normalised_as_one(tmp_path: Path, free_port: int) -> None:
    count = 2
    mp.spawn(_project, (count, free_port, str(tmp_path)), nprocs=count)  # type: ignore[no-untyped-call]
    projector, rows = _projector_and_rows()
    rows.requires_grad_()
    (projector(rows) * (1 + torch.arange(24)[:, None])).square().mean().backward()
    parts = [torch.load(tmp_path / f"{rank}.pt") for rank in range(count)]
    torch.testing.assert_close(torch.cat([part[0] for part in parts]) / count, rows.grad, rtol=1e-5, atol=1e-5)
    for number, parameter in enumerate(projector.parameters()):
        averaged = torch.stack([part[1][number] for part in parts]).mean(0)
        torch.testing.assert_close(averaged, parameter.grad, rtol=1e-4, atol=1e-4)
    for name, value in projector.state_dict().items():
        for part in parts:
            torch.testing.assert_close(part[2][name], value, rtol=1e-5, atol=1e-6)
