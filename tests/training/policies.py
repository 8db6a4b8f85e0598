"""What every simulator's policy promises."""

from __future__ import annotations

import numpy as np

from training.envs import Environment


def check_that_it_begins_anew(world: Environment, state: np.ndarray) -> None:
    """From a state that is set, the policy does the same whatever it did before."""
    actions: list[np.ndarray] = []
    for seed in (1, 2):
        world.reset(seed)
        world.policy(np.random.default_rng(seed))
        world.set_state(state)
        rng = np.random.default_rng(0)
        for _ in range(5):
            actions.append(world.policy(rng))
            world.step(actions[-1])
    np.testing.assert_array_equal(actions[:5], actions[5:])
