"""Do plans lead to their goals?

Starts and goals are frames of recorded episodes, a few steps apart, so every goal can be reached. Two protocols: one
plan carried out to its end, judged where it ends (n-ball), and planning again and again within a budget, judged by
whether the goal was ever reached (the others). Beside each rate stands that of random actions, each drawn with the mean
and spread of the training data's; starts that count as reached already are left out, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from training.dataset import Dataset, DatasetError
from training.dataset_format import SplitName
from training.envs import Environment, make
from training.envs.visitor import Visitor
from training.evaluation.latents import Say
from training.planning.planner import find_actions, trained_range
from training.planning.receding import Goal, drive
from training.planning.settings import PLANNERS, DriveConfig, PlanConfig
from training.world_model import WorldModel

HORIZONS = (4, 6, 8)  # steps, n-ball
STARTS = 50  # as LeWM has it; each is planned for many times
NBALL_STARTS = 100  # for each of six ways to plan once
APART = 25  # actions from a start to its goal, where plans are made anew on the way

Trial = TypeVar("Trial")


class NoStartsLeft(DatasetError):
    """All places of the episodes are taken, or of no use."""


@dataclass(frozen=True)
class Rate:
    """How often something succeeded, with a 95 % interval (Wilson)."""

    successes: int
    trials: int
    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, outcomes: list[bool]) -> Rate:
        """Of trials."""
        return cls.counted(sum(outcomes), len(outcomes))

    @classmethod
    def counted(cls, won: int, trials: int) -> Rate:
        """Of so many trials."""
        from scipy.stats import binomtest

        interval = binomtest(won, trials).proportion_ci(method="wilson")
        return cls(won, trials, won / trials, float(interval.low), float(interval.high))

    @classmethod
    def pooled(cls, rates: Sequence[Rate]) -> Rate:
        """Of all trials together."""
        return cls.counted(sum(rate.successes for rate in rates), sum(rate.trials for rate in rates))


@dataclass(frozen=True)
class Success:
    """How often plans, and random actions, lead to the goal."""

    horizon: int  # actions from start to goal in the recording
    context: int  # frames that a plan starts from
    budget: int  # actions that may be taken
    replanned: bool
    plans: Rate
    random: Rate
    solved: int  # starts that were left out: they count as the goal
    seeds: int = 1  # of planning, each with starts of its own; all are counted together


@dataclass(frozen=True)
class Start:
    """A place in a recorded episode, and its goal."""

    frames: np.ndarray  # (C, H, W, 3), the newest last
    past: np.ndarray  # ((C - 1) * skip, A), the actions between them
    state: np.ndarray
    goal: Goal


def try_out(
    model: WorldModel, dataset: Dataset, split: SplitName, starts: int | None = None, seeds: int = 1,
    say: Say | None = None,
) -> list[Success]:  # fmt: skip
    """By the protocol of the paper for the world that a dataset comes from; `starts` for each of the seeds 0, 1, ...

    Without a number of starts, as many as is usual for the world. Seeds for which no starts are left are not counted.
    """
    say = say or (lambda what: None)
    if not of_nball(dataset):
        again = partial(many_plans, model, dataset, split, starts=starts or STARTS, say=say)
        return [_pooled(with_seeds(again, range(seeds)))]
    found, ways = [], [way for way, fits in nball_ways(model, dataset, split).items() if fits]
    if not ways:
        raise DatasetError(f"no {split} episode of {dataset.path} is long enough for {min(HORIZONS)} steps.")
    for number, way in enumerate(ways, 1):
        say(f"planning, {number} of {len(ways)}: {way[0]} steps ahead, frames seen: {way[1]}")
        once = partial(one_plan, model, dataset, split, *way, starts or NBALL_STARTS)
        found.append(_pooled(with_seeds(once, range(seeds))))
    return found


def nball_ways(model: WorldModel, dataset: Dataset, split: SplitName) -> dict[tuple[int, int], bool]:
    """Steps ahead and frames seen, for each way to plan in n-ball; and whether an episode is long enough for it."""
    longest = max((int(dataset.episode_length[episode]) for episode in dataset.split(split)), default=0)
    skip = model.config.skip
    ways = [(horizon, context) for horizon in HORIZONS for context in sorted({1, model.model.context})]
    return {way: (way[0] + way[1] - 1) * skip < longest for way in ways}


def with_seeds(trial: Callable[..., Trial], seeds: Iterable[int]) -> list[Trial]:
    """The same trial with several seeds, each with starts of its own; with fewer seeds if starts run out.

    A trial takes its `seed`, and as `taken` the rows that earlier ones looked at for starts, to which it adds its own.
    """
    found, taken = list[Trial](), set[int]()
    for seed in seeds:
        try:
            found.append(trial(seed=seed, taken=taken))
        except NoStartsLeft:
            if not found:
                raise
            break
    return found


def _pooled(trials: list[Success]) -> Success:
    """The same trial with several seeds as one."""
    plans, random = Rate.pooled([one.plans for one in trials]), Rate.pooled([one.random for one in trials])
    solved = sum(one.solved for one in trials)
    return replace(trials[0], plans=plans, random=random, solved=solved, seeds=len(trials))


def one_plan(
    model: WorldModel, dataset: Dataset, split: SplitName, horizon: int = 4, context: int = 1, starts: int = 200,
    seed: int = 0, planning: PlanConfig | None = None, taken: set[int] | None = None,
) -> Success:  # fmt: skip
    """Plan once, carry everything out, and look where it ended; `horizon` counts steps of the model."""
    world, skip = world_of(dataset), model.config.skip
    chosen, solved = draw_starts(world, model, dataset, split, horizon * skip, context, starts, seed, taken=taken)
    settings = (planning or PLANNERS["nball"]).model_copy(update={"horizon": horizon, "seed": seed})
    frames, goals = np.stack([one.frames for one in chosen]), np.stack([one.goal.frame for one in chosen])
    past = np.stack([one.past for one in chosen]) if context > 1 else None
    found = find_actions(model, frames, goals, past, settings).actions
    chance = random_actions(model, len(chosen), horizon * skip, seed)
    planned, random = (
        Rate.of([_ends_there(world, one, actions) for one, actions in zip(chosen, taken, strict=True)])
        for taken in (found, chance)
    )
    return Success(horizon * skip, context, horizon * skip, False, planned, random, solved)


def many_plans(
    model: WorldModel, dataset: Dataset, split: SplitName, horizon: int = APART, starts: int = STARTS, seed: int = 0,
    driving: DriveConfig | None = None, taken: set[int] | None = None, say: Say | None = None,
) -> Success:  # fmt: skip
    """Plan, act and look until the goal is reached or the budget is used up; `horizon` counts actions.

    As in LeWM, a plan looks as far ahead as the goal was in the recording, and is carried out whole.
    """
    planning, usual = anew(model, horizon, seed)
    world, driving = world_of(dataset), driving or usual
    chosen, solved = draw_starts(world, model, dataset, split, horizon, 1, starts, seed, taken=taken)
    visitors = [Visitor(world, one.state) for one in chosen]  # fifty open simulators may not fit into memory
    driven = drive(model, visitors, [one.goal for one in chosen], planning, driving, say=say)
    chance = random_actions(model, len(chosen), driving.budget, seed)
    random = [_passes_there(world, one, actions) for one, actions in zip(chosen, chance, strict=True)]
    rates = Rate.of([one.reached for one in driven]), Rate.of(random)
    return Success(horizon, driving.context, driving.budget, True, *rates, solved)


def anew(model: WorldModel, apart: int, seed: int) -> tuple[PlanConfig, DriveConfig]:
    """How plans are made again and again on the way to goals that are so many actions away."""
    steps = -(-apart // model.config.skip)
    return PLANNERS["lewm"].model_copy(update={"horizon": steps, "seed": seed}), DriveConfig(keep=steps)


def of_nball(dataset: Dataset) -> bool:
    """Whether episodes were played in n-ball; nothing is opened to tell."""
    return dataset.world is not None and dataset.world.environment == "nball"


def world_of(dataset: Dataset) -> Environment:
    """The simulator that a dataset comes from; DatasetError if it has none."""
    if dataset.world is None or "state" not in dataset.columns:
        raise DatasetError(f"{dataset.path} does not come from a simulator: plans cannot be tried out.")
    try:
        return make(dataset.world.environment, **dataset.world.options)
    except ValueError as error:
        raise DatasetError(f"{dataset.path} comes from a simulator that is not here. {error}") from error


def draw_starts(
    world: Environment, model: WorldModel, dataset: Dataset, split: SplitName, apart: int, context: int, count: int,
    seed: int, usable: Callable[[Start], bool] | None = None, taken: set[int] | None = None,
    solved: Callable[[Start], bool] | None = None,
) -> tuple[list[Start], int]:  # fmt: skip
    """Starts from all over the episodes of a split, and how many were left out because they are `solved` already.

    No two are the same. Goals lie `apart` rows later. Those that are not `usable` are passed over, and so are rows that
    are `taken`, to which all are added that are looked at. Solved means reached, as the world has it, unless said.
    """
    taken = set() if taken is None else taken
    skip = model.config.skip
    before = (context - 1) * skip
    rng = np.random.default_rng([seed, 0])
    places = [
        dataset.episode_offset[episode] + row
        for episode in dataset.split(split)
        for row in range(before, dataset.episode_length[episode] - apart)
    ]
    if not places:
        raise DatasetError(f"{dataset.path} has no {split} episode of {before + apart + 1} frames, which goals need.")
    found, left_out = list[Start](), 0
    for place in rng.permutation(len(places)):
        row = int(places[place])
        if row in taken:
            continue
        taken.add(row)
        one = _start(dataset, row, apart, before, skip, world.state().shape)
        if usable and not usable(one):
            continue
        world.set_state(one.state)
        if solved(one) if solved else world.reached(one.goal.state):
            left_out += 1
            continue
        found.append(one)
        if len(found) == count:
            break
    if not found:
        raise NoStartsLeft(
            f"In {dataset.path} every goal {apart} frames on counts as reached at its start, or cannot be used."
        )
    return found, left_out


def _start(dataset: Dataset, row: int, apart: int, before: int, skip: int, shape: tuple[int, ...]) -> Start:
    frames, states = dataset.array("frames"), dataset.array("state")
    goal = Goal(np.asarray(frames[row + apart]), np.asarray(states[row + apart]).reshape(shape).astype(float))
    seen = np.stack([np.asarray(frames[at]) for at in range(row - before, row + 1, skip)])
    past = np.asarray(dataset.array("actions")[row - before : row], np.float32)
    return Start(seen, past, np.asarray(states[row]).reshape(shape).astype(float), goal)


def _ends_there(world: Environment, one: Start, actions: np.ndarray) -> bool:
    world.set_state(one.state)
    for action in actions:
        world.step(action)
    return world.reached(one.goal.state)


def _passes_there(world: Environment, one: Start, actions: np.ndarray) -> bool:
    world.set_state(one.state)
    for action in actions:
        world.step(action)
        if world.reached(one.goal.state):
            return True
    return False


def random_actions(model: WorldModel, starts: int, steps: int, seed: int) -> np.ndarray:
    """(starts, steps, A), each for itself, within the range of the training data."""
    usual = model.data.arrays()["actions"]
    rng = np.random.default_rng([seed, 1])
    return np.clip(rng.normal(usual.mean, usual.std, (starts, steps, len(usual.mean))), *trained_range(model))
