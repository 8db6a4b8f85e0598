"""Costs about boxes are what one works out by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from training.planning.costs import Boundary, Collision, GoalDistance, KeepOut, total


@dataclass
class Plainly:
    """A reader for latents that are boxes in pixels."""

    categories: tuple[int, ...] = (0, 1, 1)
    size: tuple[int, int] = (64, 128)

    def __call__(self, latents: Tensor) -> Tensor:
        height, width = self.size
        return latents.unflatten(-1, (-1, 4)) / torch.tensor([width, height, width, height])


def futures(*steps: list[tuple[float, float]]) -> Tensor:
    """One candidate of one start: the centres of three objects of 8 pixels, step by step."""
    boxes = [[value for x, y in step for value in (x, y, 8.0, 8.0)] for step in steps]
    return torch.tensor(boxes)[None, None]


def test_collision_is_the_papers_sum_over_steps_and_pairs() -> None:
    latents = futures([(10, 10), (15, 10), (30, 30)], [(10, 10), (16, 10), (10, 13)])
    expected = (8 - 5) ** 2 + (8 - 6) ** 2 + (8 - 3) ** 2
    cost = Collision(Plainly(), control=0, distance=8)(latents)
    torch.testing.assert_close(cost, torch.tensor([[float(expected)]]))


def test_two_others_that_meet_cost_nothing() -> None:
    assert Collision(Plainly(), 0, 8)(futures([(10, 10), (50, 50), (50, 50)])).item() == 0


def test_only_what_stands_out_of_the_frame_costs() -> None:
    inside = futures([(4, 4), (200, 200), (0, 0)], [(124, 60), (0, 0), (0, 0)])
    assert Boundary(Plainly(), 0)(inside).item() == pytest.approx(0, abs=1e-6)
    outside = futures([(3, 4), (0, 0), (0, 0)], [(124, 62), (0, 0), (0, 0)])
    assert Boundary(Plainly(), 0)(outside).item() == pytest.approx(1 + 4, rel=1e-4)
    assert Boundary(Plainly(), 0, margin=1)(inside).item() == pytest.approx(4, rel=1e-4)


def test_forbidden_boxes_cost_the_shortest_way_out() -> None:
    forbidden = torch.tensor([[20.0, 20, 40, 40], [100, 0, 128, 64]])
    cost = KeepOut(Plainly(), 0, forbidden)
    assert cost(futures([(10, 30), (30, 30), (30, 30)])).item() == 0
    for given in (forbidden.numpy(), forbidden.tolist()):
        assert KeepOut(Plainly(), 0, given)(futures([(18, 30), (0, 0), (0, 0)])).item() == pytest.approx(4, rel=1e-4)
    assert cost(futures([(18, 30), (0, 0), (0, 0)])).item() == pytest.approx(4, rel=1e-4)  # 2 px of its edge are inside
    assert cost(futures([(18, 30), (0, 0), (0, 0)], [(30, 17), (0, 0), (0, 0)])).item() == pytest.approx(5, rel=1e-4)


def test_costs_add_up_with_their_weights() -> None:
    latents = futures([(10, 10), (15, 10), (30, 30)])
    goal = GoalDistance(torch.zeros(1, 12))
    meeting = Collision(Plainly(), 0, 8)
    torch.testing.assert_close(total([(1.0, goal), (0.5, meeting)])(latents), goal(latents) + 0.5 * meeting(latents))


def test_a_rule_about_meeting_needs_somebody_to_meet() -> None:
    alone = Plainly()
    alone.categories = (1, 1, 1)
    with pytest.raises(ValueError, match="there is nothing to meet"):
        Collision(alone, 1, 8)(futures([(0, 0), (0, 0), (0, 0)]))


def test_a_category_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="No object of category 7"):
        Boundary(Plainly(), 7)(futures([(0, 0), (0, 0), (0, 0)]))
