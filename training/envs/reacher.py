"""A planar arm of two links, seen from above: dm_control's `reacher`, moved by the torques of its two joints.

States are (6,): angles and angular velocities of shoulder and wrist, and the place of the red ball, which is scenery.
Boxes of arm, hand and finger are exact projections, whole even where they cover one another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from training.envs.mujoco_scene import Thing
from training.envs.mujoco_world import MujocoWorld
from training.envs.packages import needed

GOAL_ANGLE = 0.05  # radians, of each joint
MEMORY = 0.95  # of the policy's torques from step to step: it swings for about half a second
TORQUE_SPREAD = 0.5


class Reacher(MujocoWorld):
    """The Reacher environment: bring both joints to the angles of the goal."""

    name = "reacher"
    fps = 50.0
    action_size = 2
    parts = dict.fromkeys(("arm", "hand", "finger"), "robot")

    def __init__(self, fine: int = 0) -> None:
        """`fine` 1: shadows and smooth edges, at half of the speed."""
        self._episodes = needed("dm_control.suite.reacher", "Reacher").easy()
        model = self._episodes.physics.model.ptr
        things = {name: Thing([model.geom(name).id], model.body(name).id) for name in ("arm", "hand", "finger")}
        super().__init__(model, "fixed", things, bool(fine))
        self._target = model.geom("target").id
        self._data = self._mujoco.MjData(model)
        self._torque = np.zeros(2)  # of the policy
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Turn the joints anyhow and put the red ball somewhere, as the suite does."""
        self._episodes.task.random.seed(seed)
        self._episodes.reset()
        physics = self._episodes.physics
        place = physics.model.geom_pos[self._target, :2]
        self._state = np.concatenate([physics.data.qpos, physics.data.qvel, place])
        self._torque = np.zeros(2)

    def step(self, action: np.ndarray) -> None:
        """Apply torques (2,), each cut to [-1, 1], for a fiftieth of a second."""
        self._put(self._data, self._state)
        self._data.ctrl[:] = np.clip(action, -1, 1)
        self._mujoco.mj_step(self._model, self._data)
        self._state = np.concatenate([self._data.qpos, self._data.qvel, self._state[4:]])

    def state(self) -> np.ndarray:
        """Angles, angular velocities, place of the red ball, (6,)."""
        return self._state.copy()

    def set_state(self, state: np.ndarray) -> None:
        """Go on from a state; the policy begins anew."""
        self._state = np.array(state, float)
        self._torque = np.zeros(2)

    def reached(self, goal: np.ndarray) -> bool:
        """Whether both joints are within 0.05 radians of their angles in `goal`."""
        apart = (self._state[:2] - goal[:2] + np.pi) % (2 * np.pi) - np.pi
        return bool((np.abs(apart) <= GOAL_ANGLE).all())

    def policy(self, rng: np.random.Generator) -> np.ndarray:
        """Random torques that change slowly, so that the arm swings instead of trembling."""
        fresh = rng.normal(0, TORQUE_SPREAD, 2)
        self._torque = MEMORY * self._torque + np.sqrt(1 - MEMORY**2) * fresh
        return np.clip(self._torque, -1, 1)

    def quantities_of(self, states: np.ndarray) -> dict[str, np.ndarray]:
        """What a latent may be asked for, by name, (T, k) each."""
        return {"joint angles": states[:, :2], "finger location": self.poses_of(states)[:, 2, :2]}

    def _put(self, data: Any, state: np.ndarray) -> None:
        data.qpos[:], data.qvel[:] = state[:2], state[2:4]
        data.qacc_warmstart[:] = 0  # a step depends on the state alone, not on the one before
        self._model.geom_pos[self._target, :2] = state[4:]
        self._mujoco.mj_forward(self._model, data)
