"""What happens when plans are carried out?

`make_trips` takes the first starts that plans are tried out from (`training.evaluation.success`), plans as there, and
keeps what the simulator shows on the way: the same plans as behind the rates, none picked for their outcome.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from training.dataset import Dataset
from training.dataset_format import SplitName
from training.envs import Environment
from training.envs.visitor import Visitor
from training.evaluation.success import APART, Start, anew, draw_starts, nball_ways, world_of
from training.planning.planner import Task, find_actions
from training.planning.receding import Goal, drive
from training.planning.settings import PLANNERS
from training.world_model import WorldModel

SHOWN = 4  # trips


@dataclass(frozen=True)
class Trip:
    """One way from a start towards its goal."""

    frames: np.ndarray  # (T, H, W, 3) uint8, at the start and after every action
    goal: np.ndarray  # (H, W, 3) uint8
    wanted: np.ndarray  # (K, 4) boxes cx cy w h, 0 to 1, of the objects that the goal is about, where they should be
    reached: bool
    imagined: np.ndarray | None = None  # (S, D) latents that the plan counted on, every `skip` actions; of one plan


def make_trips(model: WorldModel, dataset: Dataset, split: SplitName, count: int = SHOWN, seed: int = 0) -> list[Trip]:
    """The first trips of the trial for the world that a dataset comes from; n-ball: those of the longest plans."""
    world = world_of(dataset)
    if world.name != "nball":
        starts, _ = draw_starts(world, model, dataset, split, APART, 1, count, seed)
        return _driven(model, world, starts, seed)
    *_, (horizon, context) = [way for way, fits in nball_ways(model, dataset, split).items() if fits]
    starts, _ = draw_starts(world, model, dataset, split, horizon * model.config.skip, context, count, seed)
    return _planned(model, world, starts, horizon, seed)


def _planned(model: WorldModel, world: Environment, starts: list[Start], horizon: int, seed: int) -> list[Trip]:
    """One plan each, carried out to its end."""
    settings = PLANNERS["nball"].model_copy(update={"horizon": horizon, "seed": seed})
    frames, goals = np.stack([one.frames for one in starts]), np.stack([one.goal.frame for one in starts])
    past = np.stack([one.past for one in starts])
    actions = find_actions(model, frames, goals, past, settings).actions
    blocks = torch.as_tensor(actions).reshape(len(starts), 1, horizon, -1)
    imagined = Task(model, frames, goals, past).imagine(blocks)[:, 0].float().cpu().numpy()
    trips = []
    for one, taken, latents in zip(starts, actions, imagined, strict=True):
        world.set_state(one.state)
        seen = [world.render()]
        for action in taken:
            world.step(action)
            seen.append(world.render())
        reached = world.reached(one.goal.state)
        trips.append(Trip(np.stack(seen), *_sought(world, one.goal), reached, latents))
    return trips


def _driven(model: WorldModel, world: Environment, starts: list[Start], seed: int) -> list[Trip]:
    """Planned anew on the way, until the goal is reached or the budget used up."""
    visitors = [Visitor(world, one.state) for one in starts]
    driven = drive(model, visitors, [one.goal for one in starts], *anew(model, APART, seed))
    return [
        Trip(np.stack(way.frames), *_sought(world, one.goal), way.reached)
        for one, way in zip(starts, driven, strict=True)
    ]


def _sought(world: Environment, goal: Goal) -> tuple[np.ndarray, np.ndarray]:
    """The goal's picture, and boxes (K, 4) of the objects that it is about."""
    world.set_state(goal.state)
    boxes = world.boxes()
    edges = np.stack([boxes[name] for name in getattr(world, "goal_objects", boxes)])
    height, width = world.size
    first, second = edges[:, :2] / (width, height), edges[:, 2:] / (width, height)
    return world.render(), np.concatenate([(first + second) / 2, second - first], axis=1)
