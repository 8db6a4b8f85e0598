"""Do plans keep clear of other balls?

In n-ball worlds plans are made twice, from the same starts and draws: by the distance from the goal alone, and with a
price on collisions that are imagined (the paper's auxiliary-informed search). Both are carried out and compared: how
far from the goal they end, and whether the red ball met another one on its way; beside them stand random actions.
Starts and goals where balls touch are left out, for nobody could keep clear there, and so are starts that are near
enough to the goal to succeed by standing still.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from training.dataset import Dataset, DatasetError
from training.dataset_format import SplitName
from training.envs.nball import NBall
from training.evaluation.success import Rate, Start, draw_starts, random_actions, world_of
from training.planning.costs import Collision, Cost
from training.planning.planner import find_actions
from training.planning.reading import ImaginedBoxes
from training.planning.settings import PLANNERS, Way
from training.world_model import WorldModel


@dataclass(frozen=True)
class Kept:
    """What came of plans."""

    distance: float  # from the goal in the end, pixels, mean
    clear: Rate  # met no ball after any of the actions
    success: Rate  # clear, and within the radius and a pixel of the goal in the end


class Comparison(NamedTuple):
    """The same starts twice."""

    plain: Kept  # by the distance from the goal alone
    informed: Kept  # with the price on collisions
    random: Kept  # no plans at all
    solved: int = 0  # starts that were left out: they are within the radius and a pixel of the goal
    touching: int = 0  # starts that were left out: balls touch there or at the goal


def keep_clear(
    model: WorldModel, dataset: Dataset, split: SplitName, horizon: int = 8, context: int = 3, starts: int = 200,
    seed: int = 0, weight: float = 1.0, way: Way | None = None, taken: set[int] | None = None,
) -> Comparison:  # fmt: skip
    """Plan once from each start, in both ways, and carry everything out.

    Args:
        model: With an auxiliary head from which boxes can be read.
        dataset: Of an n-ball world.
        split: Episodes that starts come from.
        horizon: Steps from start to goal.
        context: Frames that a plan starts from.
        starts: How many.
        seed: Of starts and draws.
        weight: Price of a squared pixel of imagined overlap, in squared distances of latents.
        way: Boxes back from spectra, if the head says those; see `ImaginedBoxes`.
        taken: Rows that are starts already; these are added.
    """
    world = world_of(dataset)
    if not isinstance(world, NBall):
        raise DatasetError(f"{dataset.path} is not of an n-ball world: collisions are judged there only.")

    passed = 0

    def free(one: Start) -> bool:
        nonlocal passed
        touched = touching(world, one.state) or touching(world, one.goal.state)
        passed += touched
        return not touched

    def solved(one: Start) -> bool:
        return _near(world, one.state, one.goal.state)

    apart = horizon * model.config.skip
    chosen, left_out = draw_starts(world, model, dataset, split, apart, context, starts, seed, free, taken, solved)
    settings = PLANNERS["nball"].model_copy(update={"horizon": horizon, "seed": seed})
    frames, goals = np.stack([one.frames for one in chosen]), np.stack([one.goal.frame for one in chosen])
    past = np.stack([one.past for one in chosen]) if context > 1 else None
    rule = (weight, _collision(world, model, dataset, way))
    plain, informed = (
        _carried_out(world, chosen, find_actions(model, frames, goals, past, settings, rules).actions)
        for rules in ((), (rule,))
    )
    random = _carried_out(world, chosen, random_actions(model, len(chosen), apart, seed))
    return Comparison(plain, informed, random, left_out, passed)


def touching(world: NBall, state: np.ndarray) -> bool:
    """Whether the red ball overlaps another one."""
    gaps = np.linalg.norm(state[1:, :2] - state[0, :2], axis=-1)
    return bool((gaps < 2 * world.radius).any())


def _near(world: NBall, state: np.ndarray, goal: np.ndarray) -> bool:
    """Whether the red ball is where it should be, by the paper's measure for plans that avoid others."""
    return _distance(state, goal) <= world.radius + 1


def _distance(state: np.ndarray, goal: np.ndarray) -> float:
    return float(np.linalg.norm(state[0, :2] - goal[0, :2]))


def _collision(world: NBall, model: WorldModel, dataset: Dataset, way: Way | None) -> Cost:
    objects = [int(category) for category in dataset.category[0]]  # the red ball is the first
    scale = model.data.size[0] / world.size[0]
    return Collision(ImaginedBoxes(model, objects, way), control=objects[0], distance=2 * world.radius * scale)


def _carried_out(world: NBall, starts: list[Start], plans: np.ndarray) -> Kept:
    distances, clear, near = [], [], []
    for one, actions in zip(starts, plans, strict=True):
        world.set_state(one.state)
        met = False
        for action in actions:
            world.step(action)
            met = met or touching(world, world.state())
        distances.append(_distance(world.state(), one.goal.state))
        near.append(_near(world, world.state(), one.goal.state))
        clear.append(not met)
    success = Rate.of([free and there for free, there in zip(clear, near, strict=True)])
    return Kept(float(np.mean(distances)), Rate.of(clear), success)
