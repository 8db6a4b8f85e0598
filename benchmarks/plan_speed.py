"""How fast is planning? Our batched search against a loop over environments, 50 of them.

    python benchmarks/plan_speed.py [--model nball lewm] [--environments 50] [--iterations N] [--run RUN] [--threads N]

The rival is a per-environment loop that does what the released planner does in each iteration: it encodes start and
goal anew, encodes all actions so far at every step, and asks the predictor at all places of every window. Model,
settings and random draws are the same, and so is the result: for some environments both search once more with 64
bits, and how many of these plans agree to 1e-9 is printed beside the times. (With 32, products of other sizes are
rounded otherwise, and where two candidates cost the same to the last digits another one becomes an elite, from which
the next are drawn: after 20 rounds hardly a plan is the same, nor is the rival's own with other kernels.) The rival's
products are torch's own; where ours are oneDNN's, what it would take with these stands beside it. Both have as many
threads as torch would take, or `--threads`, and keep the memory that they free; times are by the clock, the best of
`--repeats`, in turns. The random weights of a fresh model do as well as trained ones (`--run` takes a trained n-ball
run). The LeWM model is large: by default it plans for fewer environments.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from training.config import TrainConfig
from training.devices import keep_memory
from training.models import products
from training.models.lewm import LeWM
from training.planning.cem import plan, seeded, within
from training.planning.planner import find_actions
from training.planning.settings import PLANNERS, PlanConfig
from training.world_model import DataFacts, Usual, WorldModel, load

COMPARED = 10  # environments, with 64 bits
SMALLER = {"nball": (50, None), "lewm": (4, 3)}  # environments, iterations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=SMALLER, default=list(SMALLER))
    parser.add_argument("--environments", type=int)
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--run", type=Path, help="a trained run in place of the fresh n-ball model")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_memory()
    print(
        "| model | environments | iterations | threads | loop | with our products | ours | ratio | plans that agree |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in arguments.model:
        environments, iterations = SMALLER[name]
        environments, iterations = arguments.environments or environments, arguments.iterations or iterations
        config = PLANNERS[name]
        config = config.model_copy(update={"iterations": iterations}) if iterations else config
        model = load(arguments.run) if arguments.run and name == "nball" else fresh(name)
        print(compared(name, model, config, environments, arguments.repeats), flush=True)


def compared(name: str, model: WorldModel, config: PlanConfig, environments: int, repeats: int) -> str:
    """One line of the table."""
    rng = np.random.default_rng(0)
    side = model.data.size[0]
    frames = rng.integers(0, 256, (environments, 1, side, side, 3), dtype=np.uint8)
    goals = rng.integers(0, 256, (environments, side, side, 3), dtype=np.uint8)
    once = config.model_copy(update={"iterations": 1})
    find_actions(model, frames[:1], goals[:1], config=once)  # warms up

    def ours() -> Tensor:
        return find_actions(model, frames, goals, config=config).plan.actions

    def theirs() -> Tensor:
        return looped(model.model, torch.from_numpy(frames), torch.from_numpy(goals), config)

    def plain() -> Tensor:
        with torchs_own_products():
            return theirs()

    looped(model.model, torch.from_numpy(frames[:1]), torch.from_numpy(goals[:1]), once)
    times: dict[str, float] = {}
    for _ in range(repeats):
        for way in (ours, theirs, plain):
            began = time.perf_counter()
            way()
            seconds = time.perf_counter() - began
            times[way.__name__] = min(seconds, times.get(way.__name__, seconds))
    model.model.double()
    frames, goals = frames[:COMPARED], goals[:COMPARED]
    agree = int(((ours() - theirs()).abs().amax((1, 2)) < 1e-9).sum())
    sizes = f"| {name} | {environments} | {config.iterations} | {torch.get_num_threads()} |"
    took = " ".join(f"{times[way.__name__]:.2f} s |" for way in (plain, theirs, ours))
    return f"{sizes} {took} {times['plain'] / times['ours']:.1f} | {agree} of {len(frames)} |"


@contextmanager
def torchs_own_products() -> Iterator[None]:
    """As anybody's code has them."""
    found = products.there_are_faster
    products.there_are_faster = lambda: False
    try:
        yield
    finally:
        products.there_are_faster = found


@torch.inference_mode()
def looped(model: LeWM, frames: Tensor, goals: Tensor, config: PlanConfig) -> Tensor:
    """Plans (B, H, A), one environment after another, start and goal encoded in each iteration."""
    like = torch.zeros(len(frames), config.horizon, model.actions, dtype=next(model.parameters()).dtype)
    draw = seeded(config, like)
    draws = [draw(iteration) for iteration in range(config.iterations)]
    limit = within(config.longest) if config.longest else None
    found = []
    for number in range(len(frames)):
        one = slice(number, number + 1)

        def score(candidates: Tensor, one: slice = one) -> Tensor:
            return released_cost(model, frames[one], goals[one], candidates)

        mine = plan(score, like[one], config, limit, lambda iteration, one=one: draws[iteration][one])
        found.append(mine.actions)
    return torch.cat(found)


def released_cost(model: LeWM, frames: Tensor, goal: Tensor, actions: Tensor) -> Tensor:
    """What S candidates (1, S, H, A) cost, with the work that the released planner does."""
    target = model.encode(goal)
    path = model.encode(frames).expand(actions.shape[1], -1, -1)
    for step in range(1, actions.shape[2] + 1):
        first = max(0, step - model.context)
        conditioning = model.action_encoder(actions[0, :, :step])[:, first:]
        states = model.predictor(path[:, first:], conditioning)
        path = torch.cat([path, model.predicted_projector(states)[:, -1:]], dim=1)
    return (path[:, -1] - target).square().sum(-1)[None]


def fresh(name: str) -> WorldModel:
    """An untrained model whose actions are normalised by 0 and 1; its predictor heeds them."""
    config = TrainConfig.model_validate({"preset": name})
    torch.manual_seed(0)
    model = LeWM(config.model, 2 * config.skip).eval().requires_grad_(False)
    for block in model.predictor.blocks:
        torch.nn.init.normal_(block.modulation.weight, std=0.1)  # zero before training
    side = config.model.encoder.size
    facts = DataFacts(
        name=name, fingerprint="", size=(side, side), action_dim=2, objects=0, categories={},
        statistics={"actions": Usual(mean=[0.0, 0.0], std=[1.0, 1.0])},
    )  # fmt: skip
    return WorldModel(model, None, None, config, facts, 0)


if __name__ == "__main__":
    main()
