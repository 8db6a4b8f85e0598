"""A robot arm that picks up a cube: OGBench's `cube-single`, driven by small moves of its gripper.

States are (42,): MuJoCo's positions (21) and velocities (20), and how hard the fingers touch something, 0 to 1. Boxes
of cube, gripper and arm are projections of their meshes, whole even where they cover one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from training.envs.mujoco_scene import Thing
from training.envs.mujoco_world import MujocoWorld
from training.envs.packages import needed

GOAL_DISTANCE = 0.04  # metres, of the cube
NOISE, MEMORY = 0.3, 0.8  # of the policy's actions: spread, and share kept from step to step
GRIPPER_COLOUR = (0.61, 0.28, 0.82)  # as in OGBench's visual tasks: black fingers are lost before a dark ground
WIDE_OPEN = 0.8  # radians of the gripper's driver
ARM, GRIPPER, CUBE = "ur5e/", "ur5e/robotiq/", "object_0"


class Cube(MujocoWorld):
    """The Cube environment: bring the cube to its place in the goal."""

    name = "cube"
    fps = 20.0
    action_size = 5
    goal_objects: ClassVar = ["cube"]
    parts = dict.fromkeys(("gripper", "arm"), "robot")

    def __init__(self, fine: int = 0) -> None:
        """`fine` 1: shadows and smooth edges, at an eighth of the speed."""
        module = needed("ogbench.manipspace.envs.cube_env", "Cube")
        self._oracles = needed("ogbench.manipspace.oracles.markov.cube_markov", "Cube")
        self._world = module.CubeEnv("single", mode="data_collection", visualize_info=False)
        self._world.reset(seed=0)
        model = self._world.model
        for material in ("black", "pad_gray"):
            model.material(GRIPPER + material).rgba[:3] = GRIPPER_COLOUR
        super().__init__(model, "front_pixels", _things(model), bool(fine))
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Put gripper and cube somewhere."""
        _, self._info = self._world.reset(seed=seed)
        self._oracle: Any = None
        self._noise = np.zeros(self.action_size)

    def step(self, action: np.ndarray) -> None:
        """Move the gripper by `action` (5,), x y z, turn and opening, each cut to [-1, 1], for 0.05 s."""
        self._world.data.qacc_warmstart[:] = 0  # a step depends on the state alone, not on the one before
        _, _, _, _, self._info = self._world.step(np.clip(action, -1, 1))
        self._mujoco.mj_forward(self._model, self._world.data)  # MuJoCo leaves places one small step behind

    def state(self) -> np.ndarray:
        """Positions, velocities, touch, (42,)."""
        data = self._world.data
        return np.concatenate([data.qpos, data.qvel, self._info["proprio/gripper_contact"]])

    def set_state(self, state: np.ndarray) -> None:
        """Go on from a state; the policy begins anew."""
        self._put(self._world.data, state)
        self._info = self._world.compute_ob_info() | {"proprio/gripper_contact": np.array(state[-1:], float)}
        self._oracle = None
        self._noise = np.zeros(self.action_size)
        # Where the policy carries the cube follows from the state, as it follows from the seed after a reset.
        self._world.np_random = np.random.default_rng(np.array(state, float).view(np.uint64))

    def reached(self, goal: np.ndarray) -> bool:
        """Whether the cube is within 4 cm of its place in `goal`."""
        return bool(np.linalg.norm(self.state()[14:17] - goal[14:17]) <= GOAL_DISTANCE)

    def policy(self, rng: np.random.Generator) -> np.ndarray:
        """Reach, grasp, carry to some place and let go, over and over: OGBench's oracle, with noise."""
        if self._oracle is None or self._oracle.done:
            touch = {"proprio/gripper_contact": self._info["proprio/gripper_contact"]}
            self._world.set_new_target(return_info=False)
            self._info = self._world.compute_ob_info() | touch
            self._oracle = self._oracles.CubeMarkovOracle(env=self._world)
            with _decided_by(rng):
                self._oracle.reset(None, self._info)
        action = self._oracle.select_action(None, self._info)
        self._noise = MEMORY * self._noise + np.sqrt(1 - MEMORY**2) * rng.normal(0, NOISE, self.action_size)
        return np.clip(action + self._noise, -1, 1)

    def quantities_of(self, states: np.ndarray) -> dict[str, np.ndarray]:
        """What a latent may be asked for, by name, (T, k) each; angles as sine and cosine."""
        pinch = self._model.site(GRIPPER + "pinch").id
        effector = self._each(lambda data: np.append(data.site_xpos[pinch], data.site_xmat[pinch]), states)
        qw, qx, qy, qz = states[:, 17:21].T
        return {
            "effector location": effector[:, :3],
            "effector yaw": _circle(np.arctan2(effector[:, 6], effector[:, 3])),
            "gripper opening": states[:, 6:7] / WIDE_OPEN,
            "gripper contact": states[:, 41:],
            "cube location": states[:, 14:17],
            "cube yaw": _circle(np.arctan2(2 * (qw * qz + qx * qy), 1 - 2 * (qy**2 + qz**2))),
        }

    def _put(self, data: Any, state: np.ndarray) -> None:
        data.qpos[:], data.qvel[:] = state[:21], state[21:41]
        data.qacc_warmstart[:] = 0
        self._mujoco.mj_forward(self._model, data)


def _things(model: Any) -> dict[str, Thing]:
    """Cube, gripper and arm; the foot of the arm is part of it."""
    owner = [model.body(model.geom_bodyid[geom]).name for geom in range(model.ngeom)]
    geoms = {
        "cube": [geom for geom, body in enumerate(owner) if body == CUBE],
        "gripper": [geom for geom, body in enumerate(owner) if body.startswith(GRIPPER)],
        "arm": [geom for geom, body in enumerate(owner) if body.startswith(ARM) and not body.startswith(GRIPPER)],
    }
    turning = {"cube": model.body(CUBE).id, "gripper": model.body(GRIPPER + "base").id}
    return {name: Thing(numbers, turning.get(name)) for name, numbers in geoms.items()}


def _circle(angles: np.ndarray) -> np.ndarray:
    return np.stack([np.sin(angles), np.cos(angles)], axis=1)


@contextmanager
def _decided_by(rng: np.random.Generator) -> Iterator[None]:
    """The oracle draws from numpy's global generator: let ours decide what it draws, and leave no trace."""
    before = np.random.get_state()
    np.random.seed(rng.integers(2**32))
    try:
        yield
    finally:
        np.random.set_state(before)
