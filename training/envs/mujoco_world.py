"""The part that all MuJoCo worlds share: pictures, boxes and all else that follows from a state.

A world says how a state is put into MuJoCo (`_put`); everything here looks at states in a second copy of the data, so
that looking never disturbs the episode that is being played.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from training.envs.mujoco_scene import Scene, Thing
from training.envs.packages import needed

MANY = 4096  # states whose outlines are remembered


class MujocoWorld:
    """States in, pictures and labels out. Objects are described as in `training.envs.mujoco_scene`."""

    size = (224, 224)
    parts: dict[str, str]  # object -> the whole that it belongs to
    fps: float

    def __init__(self, model: Any, camera: str, things: dict[str, Thing], fine: bool) -> None:
        """The model, which of its cameras looks, and the objects by name."""
        self._mujoco = needed("mujoco", type(self).__name__)
        self._model = model
        self._looked = self._mujoco.MjData(model)
        self._scene = Scene(model, camera, self.size, things, fine)
        self.object_names = list(things)
        self._known: dict[bytes, np.ndarray] = {}

    def state(self) -> np.ndarray:
        """All that decides picture and future."""
        raise NotImplementedError

    def _put(self, data: Any, state: np.ndarray) -> None:
        """Bring MuJoCo's data into a state, up to `mj_forward`."""
        raise NotImplementedError

    def render(self) -> np.ndarray:
        """The present picture."""
        return np.asarray(self.draw(self.state()[None])[0])

    def draw(self, states: np.ndarray) -> np.ndarray:
        """Pictures (B, 224, 224, 3) of states (B, S)."""
        return self._each(self._scene.picture, states)

    def boxes(self) -> dict[str, np.ndarray]:
        """The box of each object, whole even where it is covered, cut where the picture ends; NaN out of view."""
        return dict(zip(self.object_names, self.boxes_of(self.state()[None])[0], strict=True))

    def boxes_of(self, states: np.ndarray) -> np.ndarray:
        """Boxes (T, n, 4) for states (T, S)."""
        return self._outlines(states)[..., :4]

    def oriented_of(self, states: np.ndarray) -> np.ndarray:
        """The smallest turned rectangle around each object, (T, n, 5): cx cy w h theta."""
        return self._outlines(states)[..., 4:9]

    def masses_of(self, states: np.ndarray) -> np.ndarray:
        """The middle of each object's silhouette, (T, n, 2)."""
        return self._outlines(states)[..., 9:]

    def velocities_of(self, states: np.ndarray) -> np.ndarray:
        """Pixels a step, (T, n, 2)."""
        return self._each(self._scene.velocities, states) / self.fps

    def depths_of(self, states: np.ndarray) -> np.ndarray:
        """Percentiles 5 25 50 75 95 of the distance from the camera where an object is seen, (T, n, 5)."""
        return self._each(self._scene.depths, states)

    def poses_of(self, states: np.ndarray) -> np.ndarray:
        """x y z, roll pitch yaw, (T, n, 6); the angles are NaN of what is not rigid."""
        return self._each(self._scene.poses, states)

    def pose_velocities_of(self, states: np.ndarray) -> np.ndarray:
        """Of x y z a step, (T, n, 3)."""
        return self._each(self._scene.pose_velocities, states) / self.fps

    def _outlines(self, states: np.ndarray) -> np.ndarray:
        """Boxes, oriented boxes and masses, (T, n, 11): they are asked for in turn, and made together."""
        if len(self._known) > MANY:
            self._known.clear()
        new = [state for state in states if state.tobytes() not in self._known]
        for state, outlines in zip(new, self._each(self._scene.outlines, np.array(new)) if new else (), strict=True):
            self._known[state.tobytes()] = outlines
        return np.stack([self._known[state.tobytes()] for state in states])

    def _each(self, look: Callable[[Any], np.ndarray], states: np.ndarray) -> np.ndarray:
        seen = []
        for state in states:
            self._put(self._looked, state)
            seen.append(look(self._looked))
        return np.stack(seen)
