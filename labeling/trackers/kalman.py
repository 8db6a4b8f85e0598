"""Where will an object be on the next frame?

A constant-velocity Kalman filter of a point in the picture. Camera motion is taken out: the velocity is that against
the scene. How much an object swerves is learned from the object itself, so that a ball that flies straight through a
crossing is expected on its line, and one that is steered is looked for more widely.
"""

from __future__ import annotations

import math

import numpy as np

FIRST_SPEED = 0.5  # uncertainty of a new object's velocity, as a share of its size a frame
FIRST_SWERVE = 0.15  # expected change of velocity a frame, as a share of size, before anything was learned
LEAST_SWERVE = 0.01  # the same for the straightest of objects
LEARNING = 0.15  # how fast swerving is learned
JITTER = 0.03  # error of a clean measurement, as a share of the object's size
LEAST_JITTER = 0.15  # pixels
SURPRISE = 9.0  # squared deviations from which on a step is a turn and not an error


class PointFilter:
    """Position and velocity of one object; both axes share their uncertainty."""

    def __init__(self, position: np.ndarray, size: float) -> None:
        """Begin at `position` (2,), standing still as far as known; `size` is the side of a square of equal area."""
        self.position = np.asarray(position, np.float64).copy()
        self.velocity = np.zeros(2)
        self._last = self.position  # where it was on the frame before, in this frame's pixels
        self.size = size
        self._swerve = (FIRST_SWERVE * size) ** 2
        self._place, self._cross, self._speed = self._jitter**2, 0.0, (FIRST_SPEED * size) ** 2  # the covariance

    @property
    def _jitter(self) -> float:
        return max(LEAST_JITTER, JITTER * self.size)

    @property
    def deviation(self) -> float:
        """Standard deviation of the position along one axis, pixels."""
        return math.sqrt(self._place)

    def predict(self, camera: np.ndarray) -> None:
        """Go on by one frame; `camera` (3, 3) maps the last frame's pixels to this frame's."""
        here, ahead = project(camera, self.position), project(camera, self.position + self.velocity)
        self._last, self.position, self.velocity = here, ahead, ahead - here
        self._place += 2 * self._cross + self._speed + 0.25 * self._swerve
        self._cross += self._speed + 0.5 * self._swerve
        self._speed += self._swerve

    def update(self, measured: np.ndarray, doubt: float = 1.0, learn: bool = True) -> None:
        """Correct by a measured position (2,); `doubt` multiplies the expected error of the measurement."""
        innovation = np.asarray(measured, np.float64) - self.position
        error = (self._jitter * doubt) ** 2
        total = self._place + error
        surprise = float(innovation @ innovation) / 2
        if learn:
            swerve = min(surprise, SURPRISE * total) - error
            self._swerve += LEARNING * (max(swerve, (LEAST_SWERVE * self.size) ** 2) - self._swerve)
        if surprise > SURPRISE * total:
            self._turn(measured, error)
            return
        nearer, faster = self._place / total, self._cross / total
        self.position = self.position + nearer * innovation
        self.velocity = self.velocity + faster * innovation
        self._speed -= faster * self._cross
        self._cross -= nearer * self._cross
        self._place -= nearer * self._place

    def reflect(self, position: np.ndarray, axes: np.ndarray) -> None:
        """Go on from `position` (2,), turned back along `axes` (2,) bool."""
        self.position = position
        self.velocity = np.where(axes, -self.velocity, self.velocity)

    def _turn(self, measured: np.ndarray, error: float) -> None:
        """Take the last step as the new velocity: the object bounced off something or was pushed."""
        self.velocity = measured - self._last
        self.position = np.asarray(measured, np.float64).copy()
        self._place, self._cross, self._speed = error, error, 2 * error + self._swerve


def project(camera: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Where a point (2,) of the last frame lies on this one, by the homography `camera` (3, 3)."""
    x, y = point.tolist()
    (a, b, c), (d, e, f), (g, h, i) = camera.tolist()
    w = g * x + h * y + i
    return np.array([(a * x + b * y + c) / w, (d * x + e * y + f) / w])
