"""The search finds what the official planner finds, repeats itself, and finds cheap actions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from training.planning.cem import Score, plan, seeded, within
from training.planning.settings import PLANNERS, PlanConfig

FIXTURE = Path(__file__).parents[2] / "fixtures" / "cem" / "cem.npz"
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def expected() -> dict[str, Tensor]:
    with np.load(FIXTURE) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays}


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs.to(ours.dtype), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("start", ["", "warm_"])
def test_given_its_draws_it_finds_what_the_official_planner_finds(expected: dict[str, Tensor], start: str) -> None:
    target, weight = expected["target"], expected["weight"]
    first = torch.zeros_like(target)
    if start:
        first[:, :2] = expected["warm_init"]
    found = plan(
        lambda candidates: (weight * (candidates - target[:, None]).square()).sum((-2, -1)),
        first, PlanConfig(candidates=40, elites=6, iterations=6), draws=lambda number: expected["draws"][:, number],
    )  # fmt: skip
    close(torch.stack([one.mean for one in found.rounds], 1), expected[f"{start}mean"])
    close(torch.stack([one.std for one in found.rounds], 1), expected[f"{start}std"])
    close(found.actions, expected[f"{start}final_actions"])
    close(found.cost, expected[f"{start}final_cost"])
    if not start:
        assert torch.equal(torch.stack([one.elites for one in found.rounds], 1), expected["elite_indices"].long())
        close(torch.stack([one.costs for one in found.rounds], 1), expected["elite_costs"])


def bowl(target: Tensor) -> Score:
    return lambda candidates: (candidates - target[:, None]).square().sum((-2, -1))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 6))
def test_the_n_ball_protocol_reaches_targets_within_the_norm(seed: int, environments: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    limit = within(3.0)
    target = limit(2 * torch.randn(environments, 4, 2, generator=rng))
    found = plan(bowl(target), torch.zeros(environments, 4, 2), PLANNERS["nball"], limit)
    missed = (found.actions - target).square().sum((-2, -1))
    assert (missed < 0.1 * target.square().sum((-2, -1)) + 0.1).all()
    assert found.actions.norm(dim=-1).max() <= 3 + 1e-5


def test_a_seed_repeats_and_company_does_not_matter() -> None:
    target = torch.randn(5, 4, 2, generator=torch.Generator().manual_seed(1))
    config = PlanConfig(candidates=50, elites=5, iterations=8, seed=3)
    together = plan(bowl(target), torch.zeros(5, 4, 2), config).actions
    again = plan(bowl(target), torch.zeros(5, 4, 2), config).actions
    few = plan(bowl(target[:2]), torch.zeros(2, 4, 2), config).actions
    other = plan(bowl(target), torch.zeros(5, 4, 2), config.model_copy(update={"seed": 4})).actions
    assert torch.equal(together, again)
    assert torch.equal(together[:2], few)
    assert not torch.equal(together, other)


def test_environments_have_different_draws() -> None:
    draws = seeded(PlanConfig(candidates=10, elites=2), torch.zeros(2, 3, 1))
    one, two = draws(0), draws(1)
    assert not torch.equal(one[0], one[1])
    assert not torch.equal(one, two)


def test_the_mean_is_always_a_candidate_and_judged_actions_are_within_the_limits() -> None:
    seen: list[Tensor] = []

    def score(candidates: Tensor) -> Tensor:
        seen.append(candidates)
        return candidates.sum((-2, -1))

    config = PlanConfig(candidates=20, elites=4, iterations=3, std=5.0)
    found = plan(score, torch.zeros(2, 3, 2), config, within(low=[-1.0, -2.0], high=1.0))
    for before, candidates in zip([torch.zeros(2, 3, 2), *(one.mean for one in found.rounds)], seen, strict=False):
        assert torch.equal(candidates[:, 0], before)
        assert candidates[..., 0].min() >= -1
        assert candidates[..., 1].min() >= -2
        assert candidates.max() <= 1


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValidationError, match="30 elites cannot be chosen from 20"):
        PlanConfig(candidates=20)
