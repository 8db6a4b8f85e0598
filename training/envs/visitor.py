"""How do many episodes share one simulator?

An open simulator may hold hundreds of megabytes, a state does not. A `Visitor` is one of several episodes in the same
world: it keeps its own state and brings it along whenever something is asked of it.
"""

from __future__ import annotations

import numpy as np

from training.envs import Environment


class Visitor:
    """An environment of its own to whoever uses it."""

    def __init__(self, world: Environment, state: np.ndarray) -> None:
        """An episode in `world`, which others visit as well, from a state on."""
        self._world, self._state = world, np.array(state, float)
        self.name, self.size, self.fps, self.action_size = world.name, world.size, world.fps, world.action_size

    def reset(self, seed: int) -> None:
        """Start an episode."""
        self._world.reset(seed)
        self._state = self._world.state()

    def step(self, action: np.ndarray) -> None:
        """Move on by one step."""
        self._here().step(action)
        self._state = self._world.state()

    def render(self) -> np.ndarray:
        """The present picture."""
        return self._here().render()

    def state(self) -> np.ndarray:
        """Where this episode is."""
        return self._state.copy()

    def set_state(self, state: np.ndarray) -> None:
        """Go on from a state."""
        self._state = np.array(state, float)

    def boxes(self) -> dict[str, np.ndarray]:
        """Box of every named object."""
        return self._here().boxes()

    def reached(self, goal: np.ndarray) -> bool:
        """Whether the present state counts as the state `goal`."""
        return self._here().reached(goal)

    def policy(self, rng: np.random.Generator) -> np.ndarray:
        """An action worth recording in the present state."""
        return self._here().policy(rng)

    def draw(self, states: np.ndarray) -> np.ndarray:
        """Pictures of states."""
        return self._world.draw(states)

    def _here(self) -> Environment:
        self._world.set_state(self._state)
        return self._world
