"""What should be done to get from these frames to that one?

`Task` holds what a plan starts from: start and goal are encoded once, then candidates are imagined and judged, all
environments together, in pieces that fit into memory. `find_actions` searches and gives actions in the user's units.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from training.planning.asked import finite, in_order, one_goal_each, pictures
from training.planning.cem import Draws, End, Limit, Plan, plan, seeded, within
from training.planning.costs import Cost, GoalDistance, total
from training.planning.settings import PlanConfig
from training.planning.side_by_side import Each, side_by_side

if TYPE_CHECKING:
    from training.world_model import WorldModel

Limits = tuple[End, End]  # lowest and highest action
FLOATS = 4  # bytes each
ON_A_CPU, ON_A_GPU = 256, 1024  # megabytes: more is no faster on one, so much keeps the other busy
WORTHWHILE = 32 << 20  # bytes for each core: where there is less to imagine, one has it done sooner
COPIES = 4  # of a layer's activations, alive at once
USUAL = 3.0  # standard deviations around the mean: the range of training data whose extremes were not kept


@dataclass(frozen=True)
class Found:
    """Actions and how they were found."""

    actions: np.ndarray  # (B, H * skip, A), in the user's units
    plan: Plan


class Task:
    """Starts, goals and rules: says what candidate actions cost."""

    def __init__(
        self, model: WorldModel, frames: Tensor | np.ndarray, goal: Tensor | np.ndarray, past: np.ndarray | None,
        rules: Sequence[tuple[float, Cost]] = (), memory: int | None = None,
    ) -> None:  # fmt: skip
        """Encode frames (B, C, H, W, 3) and goals (B, H, W, 3); actions (B, (C - 1) * skip, A) lie in between."""
        self.model, self.skip = model, model.config.skip
        frames = pictures(frames, "frames", model.data.size, ("B C H W 3",))
        goal = pictures(goal, "goal", model.data.size, ("B H W 3",))
        one_goal_each(frames, goal)
        self.start = model.encode(frames)
        self.goal = model.encode(goal)
        self.past = self._blocks(past)
        self.cost = total([(1.0, GoalDistance(self.goal)), *rules])
        self.memory = (memory or (ON_A_CPU if self.start.device.type == "cpu" else ON_A_GPU)) << 20

    def score(self, actions: Tensor, each: Each = map) -> Tensor:
        """Costs (B, S) of candidates (B, S, H, skip * A) in the user's units; `each` imagines the pieces."""
        pieces = torch.split(actions, self._piece(actions), dim=1)
        return torch.cat([self.cost(latents) for latents in each(self.imagine, pieces)], dim=1)

    def at_once(self, candidates: int, horizon: int) -> int:
        """How many pieces can be imagined side by side: on a CPU one for each core that has enough to do."""
        if self.start.device.type != "cpu":
            return 1
        needed = self._needed(horizon)
        return max(1, min(torch.get_num_threads(), self.memory // needed, candidates * needed // WORTHWHILE))

    def imagine(self, actions: Tensor) -> Tensor:
        """Latents (B, S, H, D) to which candidates lead, without the frames that are there already."""
        context = self.start.shape[1]
        past = self.past[:, None].expand(-1, actions.shape[1], -1, -1)
        return self.model.rollout(self.start, torch.cat([past, actions.to(past)], dim=2))[:, :, context:]

    def _blocks(self, past: np.ndarray | None) -> Tensor:
        """Past actions as the model takes them, (B, C - 1, skip * A)."""
        batch, context = self.start.shape[:2]
        if context > self.model.model.context:
            raise ValueError(f"The model looks at {self.model.model.context} frames at most; these are {context}.")
        wanted = (batch, (context - 1) * self.skip, self.model.data.action_dim)
        values = np.zeros(wanted, np.float32) if past is None and context == 1 else past
        if values is None or values.shape != wanted:
            raise ValueError(
                f"{context} frames need the {wanted[1]} actions that led from each to the next, {wanted}; "
                f"{'none are given' if past is None else f'these are {past.shape}'}."
            )
        finite(values)
        blocks = torch.as_tensor(values, dtype=self.start.dtype, device=self.start.device)
        return blocks.reshape(batch, context - 1, self.skip * wanted[2])

    def _piece(self, actions: Tensor) -> int:
        """How many candidates of each environment are imagined at once: as many pieces for each core."""
        _, candidates, horizon, _ = actions.shape
        cores, needed = self.at_once(candidates, horizon), self._needed(horizon)
        turns = -(-candidates // (cores * max(1, self.memory // (cores * needed))))
        return -(-candidates // (turns * cores))

    def _needed(self, horizon: int) -> int:
        """Bytes to imagine one candidate of every environment."""
        shape = self.model.config.model
        widest = max(shape.projector, shape.predictor.ffn, 3 * shape.predictor.heads * shape.predictor.head_size)
        steps = horizon + self.start.shape[1]
        floats = COPIES * shape.predictor.context * widest
        floats += steps * (shape.latent + 6 * shape.predictor.width * shape.predictor.depth)
        return FLOATS * floats * len(self.start)


def find_actions(
    model: WorldModel,
    frames: Tensor | np.ndarray,
    goal: Tensor | np.ndarray,
    past: np.ndarray | None = None,
    config: PlanConfig | None = None,
    rules: Sequence[tuple[float, Cost]] = (),
    limits: Limits | None = None,
    draws: Draws | None = None,
    numbers: Sequence[int] | None = None,
) -> Found:
    """Search for actions that lead from the last of B x C frames to B goals; see `WorldModel.plan`.

    Draws follow from the `numbers` of the environments, by default 0 to B - 1, unless `draws` are given.
    """
    if not model.data.action_dim:
        raise ValueError("This model was trained without actions: it can imagine what comes, but not plan.")
    in_order(limits, model.data.action_dim)
    config = config or PlanConfig()
    with torch.inference_mode(), ExitStack() as stack:
        task = Task(model, frames, goal, past, rules, config.memory)
        each = stack.enter_context(side_by_side(task.at_once(config.candidates, config.horizon)))
        units = _Units(model, config)
        # The range of the training data cuts what is found; limits that were asked for also hold while searching.
        allowed = within(config.longest, *(limits or (None, None)))
        searched = units.limited(allowed) if limits or config.longest else None
        precision = torch.promote_types(task.start.dtype, torch.float32)  # a search with 16 bits would hardly move
        first = torch.zeros(len(task.start), config.horizon, units.size, dtype=precision, device=model.device)
        draws = draws or seeded(config, first, numbers)
        found = plan(lambda candidates: task.score(units.actions(candidates), each), first, config, searched, draws)
        possible = within(config.longest, *(limits or trained_range(model)))
        actions = possible(units.single(units.actions(found.actions)).flatten(1, 2))
    return Found(actions.cpu().numpy(), found)


def trained_range(model: WorldModel) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest value of each number of an action in training, (A,) each."""
    usual = model.data.arrays()["actions"]
    low = usual.mean - USUAL * usual.std if usual.low is None else usual.low
    high = usual.mean + USUAL * usual.std if usual.high is None else usual.high
    return low, high


class _Units:
    """Between the numbers that are searched and actions in the user's units; a step has `skip` actions."""

    def __init__(self, model: WorldModel, config: PlanConfig) -> None:
        usual, self.skip = model.data.statistics["actions"], model.config.skip
        self.size = self.skip * model.data.action_dim
        mean, spread = (torch.tensor(row, device=model.device).repeat(self.skip) for row in (usual.mean, usual.std))
        own = config.units == "actions"
        self.mean = torch.zeros_like(mean) if own else mean
        self.spread = torch.ones_like(spread) if own else spread

    def actions(self, searched: Tensor) -> Tensor:
        """(..., skip * A) to actions (..., skip * A)."""
        return searched * self.spread + self.mean

    def single(self, actions: Tensor) -> Tensor:
        """(..., skip * A) to (..., skip, A)."""
        return actions.view(*actions.shape[:-1], self.skip, -1)

    def limited(self, allowed: Limit) -> Limit:
        """The same limit for numbers that are searched."""
        return lambda searched: (allowed(self.single(self.actions(searched))).flatten(-2) - self.mean) / self.spread
