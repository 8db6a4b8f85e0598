"""Which action sequence costs least?

The cross-entropy method: draw candidates around a mean, keep the cheapest, take their mean and spread, and draw again.
`plan` searches for all environments at once, with any function that says what candidates (B, S, H, A) cost, (B, S).
An environment's draws follow from the seed and its number alone, not from its company in the batch or the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from training.planning.settings import PlanConfig

Score = Callable[[Tensor], Tensor]  # candidates (B, S, H, A) -> costs (B, S)
Draws = Callable[[int], Tensor]  # number of the iteration -> standard normal numbers (B, S, H, A)
End = float | Sequence[float] | np.ndarray  # of a range, for all numbers of an action or one each
Limit = Callable[[Tensor], Tensor]  # actions (..., A) -> the nearest that are allowed


@dataclass(frozen=True)
class Round:
    """Where the search stands after an iteration."""

    mean: Tensor  # (B, H, A)
    std: Tensor  # (B, H, A)
    elites: Tensor  # (B, E), which candidates were the cheapest, cheapest first
    costs: Tensor  # (B, E), what they cost


@dataclass(frozen=True)
class Plan:
    """What was found."""

    actions: Tensor  # (B, H, A), the mean of the last elites
    cost: Tensor  # (B,), the mean cost of the last elites
    rounds: list[Round]


@torch.inference_mode()
def plan(
    score: Score,
    first: Tensor,
    config: PlanConfig | None = None,
    limit: Limit | None = None,
    draws: Draws | None = None,
) -> Plan:
    """Search for the cheapest action sequence of each environment.

    Args:
        score: What candidates cost.
        first: (B, H, A), the mean of the first draws: zeros, or a plan to go on from. Its device is where all happens.
        config: Numbers of candidates, elites and iterations, the first spread, the seed.
        limit: Makes candidates possible before they are judged; mean and spread are those of possible actions.
        draws: Standard normal numbers to use in place of the seed's.
    """
    config = config or PlanConfig()
    draws = draws or seeded(config, first)
    limit = limit or _anything
    mean, std = first, torch.full_like(first, config.std)
    rounds = []
    for iteration in range(config.iterations):
        candidates = torch.addcmul(mean[:, None], draws(iteration), std[:, None])
        candidates[:, 0] = mean
        candidates = limit(candidates)
        costs, chosen = score(candidates).topk(config.elites, largest=False)
        elites = candidates.gather(1, chosen[:, :, None, None].expand(-1, -1, *first.shape[1:]))
        mean, std = elites.mean(1), elites.std(1)
        rounds.append(Round(mean, std, chosen, costs))
    return Plan(mean, costs.mean(1), rounds)


def seeded(config: PlanConfig, like: Tensor, numbers: Sequence[int] | None = None) -> Draws:
    """Draws for action sequences shaped `like` (B, H, A): a stream of its own for each environment, by its number."""
    numbers = range(len(like)) if numbers is None else numbers
    streams = [np.random.SeedSequence([config.seed, number]) for number in numbers]
    generators = [torch.Generator().manual_seed(int(stream.generate_state(1, np.uint64)[0])) for stream in streams]
    shape = (config.candidates, *like.shape[1:])

    def draw(iteration: int) -> Tensor:
        numbers = torch.stack([torch.randn(shape, generator=generator) for generator in generators])
        return numbers.to(like.device, like.dtype)

    return draw


def within(longest: float | None = None, low: End | None = None, high: End | None = None) -> Limit:
    """Shorten actions (..., A) to a norm, then cut each of their numbers to its range."""

    def limit(actions: Tensor) -> Tensor:
        if longest is not None:
            norm = torch.linalg.vector_norm(actions, dim=-1, keepdim=True)
            actions = actions * (longest / norm.clamp_min(1e-12)).clamp_max(1.0)
        if low is not None:
            actions = actions.maximum(torch.as_tensor(low).to(actions))
        if high is not None:
            actions = actions.minimum(torch.as_tensor(high).to(actions))
        return actions

    return limit


def _anything(actions: Tensor) -> Tensor:
    return actions
