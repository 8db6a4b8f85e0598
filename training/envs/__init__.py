"""Simulators: worlds with actions, pictures and exact boxes.

Each simulator is one file with a class that keeps to `Environment`; `make` opens one by its name. The same state
always gives the same picture, so that frames can be drawn for many states at once (`draw`), now or later.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import Any, Protocol, runtime_checkable

import numpy as np

# Named, not imported: a simulator's own dependencies are needed only by those who use it.
_REGISTRY = {
    "cube": "training.envs.cube:Cube",
    "nball": "training.envs.nball:NBall",
    "push_t": "training.envs.push_t:PushT",
    "reacher": "training.envs.reacher:Reacher",
    "two_room": "training.envs.two_room:TwoRoom",
}


@runtime_checkable
class Environment(Protocol):
    """One world, one episode at a time."""

    name: str
    size: tuple[int, int]  # height, width of its pictures
    fps: float  # at which its pictures are shown
    action_size: int

    def reset(self, seed: int) -> None:
        """Start an episode; the seed decides it entirely."""

    def step(self, action: np.ndarray) -> None:
        """Move on by one step; `action` (A,) is cut to what the world allows."""

    def render(self) -> np.ndarray:
        """The present picture, (H, W, 3) uint8, RGB."""

    def state(self) -> np.ndarray:
        """All that decides picture and future, as floats."""

    def set_state(self, state: np.ndarray) -> None:
        """Go on from a state."""

    def boxes(self) -> dict[str, np.ndarray]:
        """Box (4,) of every named object: x1 y1 x2 y2 in continuous pixels, whole even where it is covered."""

    def reached(self, goal: np.ndarray) -> bool:
        """Whether the present state counts as the state `goal`."""

    def policy(self, rng: np.random.Generator) -> np.ndarray:
        """An action (A,) worth recording in the present state."""

    def draw(self, states: np.ndarray) -> np.ndarray:
        """Pictures (B, H, W, 3) uint8 of states (B, ...)."""


def names() -> list[str]:
    """The simulators there are."""
    return sorted(_REGISTRY)


def make(name: str, **options: Any) -> Environment:
    """Open a simulator by its name; ValueError if there is none of that name, or if it has no such option."""
    if name not in _REGISTRY:
        raise ValueError(f"There is no environment {name!r}. Choose one of: {', '.join(names())}.")
    module, _, kind = _REGISTRY[name].partition(":")
    opened = getattr(import_module(module), kind)
    known = list(signature(opened).parameters)
    unknown = [option for option in options if option not in known]
    if unknown:
        there = f"Those of {name} are: {', '.join(known)}." if known else f"{name} has none."
        raise ValueError(f"There is no option {', '.join(unknown)}. {there}")
    environment: Environment = opened(**options)
    return environment
