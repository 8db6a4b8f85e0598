"""How does a plan become deeds?

Model predictive control: plan, carry out the first part of the plan, look, and plan anew, until the goal is reached or
the budget is used up. `drive` does that with many environments at once, and plans for all of them in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from training.envs import Environment
from training.planning.costs import Cost
from training.planning.planner import Limits, find_actions
from training.planning.settings import DriveConfig, PlanConfig
from training.sources.framing import Framing

if TYPE_CHECKING:
    from training.world_model import WorldModel


@dataclass(frozen=True)
class Goal:
    """Where an environment should get to."""

    frame: np.ndarray  # (H, W, 3) uint8, what the model sees
    state: np.ndarray  # what `Environment.reached` is asked about


@dataclass
class Drive:
    """What happened in one environment."""

    frames: list[np.ndarray]  # (H, W, 3) each, before the first action and after every action
    actions: list[np.ndarray]  # (A,) each
    reached_after: int | None = None  # actions until the goal was reached for the first time

    @property
    def reached(self) -> bool:
        """Whether the goal was ever reached."""
        return self.reached_after is not None


def drive(
    model: WorldModel,
    environments: Sequence[Environment],
    goals: Sequence[Goal],
    planning: PlanConfig | None = None,
    driving: DriveConfig | None = None,
    rules: Sequence[tuple[float, Cost]] = (),
    limits: Limits | None = None,
    say: Callable[[str], None] | None = None,
) -> list[Drive]:
    """Drive environments, from the state in which each is, to their goals.

    Args:
        model: Plans from what it sees; pictures of another size are brought to its own, as `prepare` does.
        environments: Each is stepped until its goal is reached or the budget is used up.
        goals: One for each environment, with a picture as it draws them or as the model takes them.
        planning: How plans are searched; the seed counts on from plan to plan.
        driving: Budget, steps of a plan that are carried out, and past observations that a plan looks at.
        rules: Further costs with their weights.
        limits: Lowest and highest action.
        say: Hears how far it is.
    """
    if len(goals) != len(environments):
        raise ValueError(f"Each environment needs a goal: there are {len(environments)} and {len(goals)} goals.")
    planning, driving = planning or PlanConfig(), driving or DriveConfig()
    wanted = [_as_taken(goal.frame, one, model) for goal, one in zip(goals, environments, strict=True)]
    drives = [Drive([_seen(environment, model)], []) for environment in environments]
    for number, environment in enumerate(environments):
        _look(drives[number], environment, goals[number])
    skip = model.config.skip
    kept = min(driving.keep, planning.horizon) * skip  # actions of a plan
    for turn in range(-(-driving.budget // kept)):
        left = [number for number, one in enumerate(drives) if not one.reached]
        if not left:
            break
        if say:
            arrived = len(drives) - len(left)
            say(f"planning, {arrived} of {len(drives)} goals reached after {turn * kept} of {driving.budget} actions")
        frames, past = _context([drives[number] for number in left], min(driving.context, model.model.context), skip)
        found = find_actions(
            model, frames, np.stack([wanted[number] for number in left]), past,
            planning.model_copy(update={"seed": planning.seed + turn}), rules, limits, numbers=left,
        )  # fmt: skip
        for number, actions in zip(left, found.actions[:, :kept], strict=True):
            left_over = driving.budget - len(drives[number].actions)
            _carry_out(actions[:left_over], drives[number], environments[number], goals[number], model)
    return drives


def _carry_out(actions: np.ndarray, one: Drive, environment: Environment, goal: Goal, model: WorldModel) -> None:
    for action in actions:
        environment.step(action)
        one.actions.append(action)
        one.frames.append(_seen(environment, model))
        _look(one, environment, goal)
        if one.reached:
            return


def _seen(environment: Environment, model: WorldModel) -> np.ndarray:
    """The present picture as the model takes it."""
    return _as_taken(environment.render(), environment, model)


def _as_taken(frame: np.ndarray, environment: Environment, model: WorldModel) -> np.ndarray:
    """A picture that the environment drew, in the size of the model's."""
    if frame.shape[:2] != environment.size:
        return frame  # it was brought to that size already; if not, the planner will say so
    return Framing(*environment.size, model.data.size[0]).picture(frame)


def _look(one: Drive, environment: Environment, goal: Goal) -> None:
    if not one.reached and environment.reached(goal.state):
        one.reached_after = len(one.actions)


def _context(drives: Sequence[Drive], context: int, skip: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The last observations (B, C, H, W, 3) of drives that went equally far, `skip` apart, and the actions between."""
    gone = len(drives[0].actions)
    count = min(context, gone // skip + 1)
    frames = np.stack([np.stack(one.frames[gone - (count - 1) * skip :: skip]) for one in drives])
    past = np.stack([np.array(one.actions[gone - (count - 1) * skip :]) for one in drives]) if count > 1 else None
    return frames, past
