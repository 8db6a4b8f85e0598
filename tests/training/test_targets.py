"""The Fourier target knows the boxes, not their order; slots are matched; what is masked counts for nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares
from torch import Tensor

from tests.training.batches import make_batch
from training.settings import TargetConfig
from training.targets import BoxTarget, FourierTarget, Truth, box_error

SEEDS = st.integers(0, 2**20)
OBJECTS = st.integers(1, 6)
PROPERTY = settings(max_examples=50, deadline=None)


def boxes_of(seed: int, count: int) -> Tensor:
    return torch.rand(count, 4, generator=torch.Generator().manual_seed(seed))


def everywhere(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.bool)


def test_the_target_is_the_papers_formula() -> None:
    target = FourierTarget(frequencies=9, sigma=4.0, seed=0)
    boxes = boxes_of(0, 3)
    phase = boxes.double() @ target.W.double()
    expected = torch.cat([phase.cos().sum(0), phase.sin().sum(0)])
    torch.testing.assert_close(target(boxes, everywhere(3)).double(), expected, atol=1e-5, rtol=0)
    assert target.size == 18


@PROPERTY
@given(SEEDS, OBJECTS)
def test_the_order_of_objects_does_not_matter(seed: int, count: int) -> None:
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed + 1))
    boxes, category = boxes_of(seed, count), torch.arange(count) % 2
    for target in (FourierTarget(), FourierTarget(categories=[0, 1])):
        before = target(boxes, everywhere(count), category)
        after = target(boxes[order], everywhere(count), category[order])
        torch.testing.assert_close(before, after, atol=1e-5, rtol=0)


@PROPERTY
@given(SEEDS, OBJECTS)
def test_objects_that_are_absent_change_nothing(seed: int, count: int) -> None:
    boxes, category = boxes_of(seed, count), torch.arange(count) % 2
    nowhere = torch.full((2, 4), torch.nan)
    for target in (FourierTarget(), FourierTarget(categories=[0, 1])):
        alone = target(boxes, everywhere(count), category)
        padded = target(
            torch.cat([boxes, nowhere]),
            torch.cat([everywhere(count), torch.tensor([False, False])]),
            torch.cat([category, torch.tensor([1, -1])]),
        )
        torch.testing.assert_close(alone, padded, atol=1e-6, rtol=0)


@PROPERTY
@given(SEEDS, OBJECTS)
def test_different_sets_of_boxes_have_different_targets(seed: int, count: int) -> None:
    """By a margin: one pixel of 64 changes the spectrum by far more than rounding."""
    target = FourierTarget()
    boxes = boxes_of(seed, count)
    before = target(boxes, everywhere(count))
    one_pixel = boxes.clone()
    one_pixel[seed % count, seed % 2] += 1 / 64
    assert (target(one_pixel, everywhere(count)) - before).norm() > 0.05
    assert (target(boxes_of(seed + 1, count), everywhere(count)) - before).norm() > 0.05
    twice = torch.cat([boxes, boxes[:1]])
    assert (target(twice, everywhere(count + 1)) - before).norm() > 0.5


@PROPERTY
@given(SEEDS)
def test_sets_with_the_same_sum_of_boxes_are_told_apart(seed: int) -> None:
    """A plain sum of positions is order-free too, but not unique."""
    boxes = boxes_of(seed, 2) * 0.5 + 0.25
    apart = boxes + torch.tensor([[0.1, 0, 0, 0], [-0.1, 0, 0, 0]])
    torch.testing.assert_close(apart.sum(0), boxes.sum(0))
    if (boxes[0, 0] + 0.1 - boxes[1, 0]).abs() > 0.02:  # else the two have only changed places
        target = FourierTarget()
        assert (target(apart, everywhere(2)) - target(boxes, everywhere(2))).norm() > 1e-3


@pytest.mark.parametrize("count", [1, 2, 4])
def test_boxes_can_be_found_again_from_their_spectrum(count: int) -> None:
    target = FourierTarget()
    boxes = boxes_of(7, count)
    spectrum, frequencies = target(boxes, everywhere(count)).double().numpy(), target.W.double().numpy()

    def wrong(guess: np.ndarray) -> np.ndarray:
        phase = guess.reshape(count, 4) @ frequencies
        return np.concatenate([np.cos(phase).sum(0), np.sin(phase).sum(0)]) - spectrum

    random = np.random.default_rng(0)
    tries = (least_squares(wrong, random.uniform(0, 1, count * 4), bounds=(0, 1)) for _ in range(60))
    found = next(solution.x for solution in tries if solution.cost < 1e-10).reshape(count, 4)
    distance = min(np.abs(found[list(order)] - boxes.numpy()).max() for order in itertools.permutations(range(count)))
    assert distance < 1e-3


def test_each_category_has_its_own_block_and_all_share_one_if_asked() -> None:
    boxes, category = boxes_of(1, 3), torch.tensor([4, 9, 4])
    grouped, single = FourierTarget(categories=[4, 9]), FourierTarget()
    blocks = grouped(boxes, everywhere(3), category).view(2, 18)
    torch.testing.assert_close(blocks[0], single(boxes[[0, 2]], everywhere(2)))
    torch.testing.assert_close(blocks[1], single(boxes[[1]], everywhere(1)))
    torch.testing.assert_close(blocks.sum(0), single(boxes, everywhere(3)), atol=1e-5, rtol=0)


def test_frequencies_follow_the_seed_and_sigma_and_are_saved() -> None:
    assert torch.equal(FourierTarget(seed=5).W, FourierTarget(seed=5).W)
    assert not torch.equal(FourierTarget(seed=5).W, FourierTarget(seed=6).W)
    wide = FourierTarget(frequencies=4000, sigma=[4, 4, 4, 4, 1], state_size=5).W
    np.testing.assert_allclose(wide.std(1), [4, 4, 4, 4, 1], rtol=0.05)
    restored = FourierTarget(seed=6)
    restored.load_state_dict(FourierTarget(seed=5).state_dict())
    assert torch.equal(restored.W, FourierTarget(seed=5).W)
    assert not list(FourierTarget().parameters())


def test_a_window_of_a_batch_gives_the_target_of_each_of_its_frames() -> None:
    batch = make_batch()
    truth = BoxTarget(TargetConfig(), [0, 1], 3)(batch)
    assert truth.known is None
    assert truth.values.shape == (6, 4, 36)
    one = FourierTarget(categories=[0, 1])(batch.boxes[2, 3], batch.present[2, 3], batch.category[2])
    torch.testing.assert_close(truth.values[2, 3], one)


def test_masked_numbers_change_neither_loss_nor_gradient() -> None:
    batch = make_batch()
    target = BoxTarget(TargetConfig(matching="none"), [0, 1], 3)
    truth = target(batch)
    assert truth.known is not None
    answers = torch.randn(6, 4, target.size, requires_grad=True)
    loss = box_error(answers, truth)
    loss.backward()  # type: ignore[no-untyped-call]
    assert answers.grad is not None
    assert (answers.grad[~truth.known] == 0).all()
    assert (answers.grad[truth.known] != 0).all()
    squares = (answers - truth.values).square()[truth.known]
    torch.testing.assert_close(loss, squares.mean())


def test_a_batch_without_any_object_has_no_error() -> None:
    answers = torch.randn(2, 4, 6, requires_grad=True)
    nothing = Truth(torch.zeros(2, 4, 6), torch.zeros(2, 4, 6, dtype=torch.bool))
    assert box_error(answers, nothing).item() == 0


def answers_in_order(truth: Truth, orders: list[list[int]]) -> Tensor:
    """What a perfect head would say that names the objects of frame t in `orders[t]`."""
    slots = truth.values.view(1, 4, 3, 4)
    return torch.stack([slots[:, frame, order] for frame, order in enumerate(orders)], 1).flatten(-2)


SWAPPED = [[0, 2, 1], [0, 1, 2], [0, 2, 1], [0, 1, 2]]


@pytest.mark.parametrize(
    ("matching", "orders", "perfect"),
    [
        ("none", [[0, 1, 2]] * 4, True),
        ("none", SWAPPED, False),
        ("frame", SWAPPED, True),
        ("sequence", SWAPPED, False),
        ("sequence", [[0, 2, 1]] * 4, True),
        ("frame", [[1, 0, 2]] * 4, False),  # the first is of another category
    ],
)
def test_answers_may_come_in_another_order_as_far_as_the_matching_allows(
    matching: str, orders: list[list[int]], perfect: bool
) -> None:
    batch = make_batch(windows=1)
    batch = replace(batch, present=torch.ones_like(batch.present))
    target = BoxTarget(TargetConfig(matching=matching), [0, 1], 3)  # type: ignore[arg-type]
    truth = target(batch)
    answers = answers_in_order(truth, orders)
    error = box_error(answers, target.matched(truth, answers, batch))
    assert (error.item() < 1e-12) == perfect


def test_grouping_all_lets_objects_of_different_categories_change_places() -> None:
    batch = make_batch(windows=1)
    batch = replace(batch, present=torch.ones_like(batch.present))
    target = BoxTarget(TargetConfig(matching="frame", grouping="all"), [0, 1], 3)
    truth = target(batch)
    answers = answers_in_order(truth, [[1, 0, 2]] * 4)
    assert box_error(answers, target.matched(truth, answers, batch)).item() < 1e-12


@PROPERTY
@given(SEEDS)
def test_no_other_order_fits_better_than_the_frame_wise_match(seed: int) -> None:
    batch = make_batch(windows=2, seed=seed % 997)
    target = BoxTarget(TargetConfig(matching="frame", grouping="all"), [0, 1], 3)
    truth = target(batch)
    answers = torch.rand(2, 4, 12, generator=torch.Generator().manual_seed(seed))
    matched = target.matched(truth, answers, batch)
    assert truth.known is not None
    assert matched.known is not None

    def errors(values: Tensor, known: Tensor) -> Tensor:
        return torch.where(known, (answers - values).square(), 0).sum(-1)

    best = errors(matched.values, matched.known)
    values, known = truth.values.view(2, 4, 3, 4), truth.known.view(2, 4, 3, 4)
    for order in itertools.permutations(range(3)):
        other = errors(values[:, :, list(order)].flatten(-2), known[:, :, list(order)].flatten(-2))
        assert (best <= other + 1e-5).all()


def test_noise_belongs_to_frames_so_overlapping_windows_agree() -> None:
    batch = make_batch(windows=2)
    boxes = batch.boxes.clone()
    boxes[1, :3] = boxes[0, 1:]
    shared = replace(
        batch, boxes=boxes, present=torch.ones_like(batch.present), rows=torch.tensor([10, 15]), frames=batch.frames
    )
    target = BoxTarget(TargetConfig(noise=0.01), [0, 1], 3, skip=5)
    noisy, clean = target(shared).values, BoxTarget(TargetConfig(), [0, 1], 3)(shared).values
    torch.testing.assert_close(noisy[0, 1:], noisy[1, :3])
    assert 0.01 < (noisy - clean).abs().mean() < 0.2


def test_fourier_sums_refuse_states_with_masked_parts() -> None:
    with pytest.raises(ValueError, match="compact7 has parts that may not apply"):
        TargetConfig(state="compact7")
    with pytest.raises(ValueError, match="no objects to match"):
        TargetConfig(state="exact", matching="frame")
