"""Balls in a box: a red one that obeys actions, white ones that fly and bounce off the walls.

Balls pass through one another; meeting is something to measure, not to simulate. States are (1 + n, 4): x, y and
velocity in pixels a step, the control ball first: it rests without an action, so its velocity is how far the last step
took it, and 0 at the beginning. `advance` and `draw` take batches of states, `play` plays many episodes at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import cv2
import numpy as np

RED, WHITE = 0xFF0000, 0xFFFFFF
MAX_ACTION = 3.0  # pixels a step
ACTION_SPREAD = 2.0
SLOWEST, FASTEST = 1.0, 3.0  # pixels a step
GOAL_DISTANCE = 1.0
SUBPIXELS = 64  # a disc is drawn at most 1/128 px from its place: two grey levels at its edge
_STRIPS = 16  # per pixel, when coverage is integrated


class NBall:
    """The n-ball environment of the paper."""

    name = "nball"
    fps = 15.0
    action_size = 2
    goal_objects: ClassVar = ["control ball"]

    def __init__(
        self, balls: int = 1, size: int = 64, radius: float = 4.0, slowest: float = SLOWEST, fastest: float = FASTEST,
        longest: float = MAX_ACTION, spread: float = ACTION_SPREAD, slip: float = 0.0, control_colour: int = RED,
        ball_colour: int = WHITE,
    ) -> None:  # fmt: skip
        """A square world; without further options it is that of the paper.

        Args:
            balls: White balls beside the red one.
            size: Of the world, in pixels.
            radius: Of a ball.
            slowest: Speed of a white ball, in pixels a step, at least.
            fastest: The same, at most.
            longest: Actions are cut to this norm.
            spread: Standard deviation of random actions, before they are cut.
            slip: Standard deviation of what is added to the way of the control ball, in pixels; no action tells of it.
            control_colour: As 0xRRGGBB.
            ball_colour: The same of the others.
        """
        # In less room, a bounce would end in the other wall.
        if balls < 0 or radius <= 0 or size < 2 * radius + fastest:
            raise ValueError(f"{balls} balls of radius {radius} do not fit a world of {size} pixels.")
        if not 0 <= slowest <= fastest or longest <= 0 or spread < 0 or slip < 0:
            raise ValueError(
                f"Speeds {slowest} to {fastest}, actions up to {longest} with a spread of {spread}, a slip of {slip}: "
                "the fastest must not be slower than the slowest, and nothing may be below 0."
            )
        self.balls, self.radius = balls, radius
        self.slowest, self.fastest, self.longest, self.spread, self.slip = slowest, fastest, longest, spread, slip
        self.control_colour, self.ball_colour = _rgb(control_colour), _rgb(ball_colour)
        self.size = (size, size)
        self.object_names = ["control ball", *(f"ball {number}" for number in range(1, balls + 1))]
        self._state = np.zeros((1 + balls, 4))
        self._chance = np.random.default_rng(0)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Put all balls somewhere and send the white ones off."""
        self._chance = np.random.default_rng(seed)
        self._state = self._beginnings(self._chance, 1)[0]

    def step(self, action: np.ndarray) -> None:
        """Move the control ball by `action` (2,), cut to norm 3, and the others by their velocity."""
        slips = self._slips(self._chance, 1)
        self._state = self.advance(self._state[None], np.asarray(action, float)[None], slips)[0]

    def render(self) -> np.ndarray:
        """The present picture."""
        return np.asarray(self.draw(self._state[None])[0])

    def state(self) -> np.ndarray:
        """Positions and velocities, (1 + n, 4)."""
        return self._state.copy()

    def set_state(self, state: np.ndarray) -> None:
        """Go on from a state."""
        self._state = np.array(state, float)

    def boxes(self) -> dict[str, np.ndarray]:
        """The square around each disc."""
        return dict(zip(self.object_names, self.boxes_of(self._state), strict=True))

    def reached(self, goal: np.ndarray) -> bool:
        """Whether the control ball is within a pixel of its place in `goal`."""
        return bool(np.linalg.norm(self._state[0, :2] - goal[0, :2]) <= GOAL_DISTANCE)

    def policy(self, rng: np.random.Generator) -> np.ndarray:
        """A random action."""
        return limited(rng.normal(0, self.spread, 2), self.longest)

    def play(self, rng: np.random.Generator, episodes: int, frames: int) -> tuple[np.ndarray, np.ndarray]:
        """States (E, T, 1 + n, 4) and random actions (E, T, 2) of many episodes; the last action is not carried out."""
        actions = limited(rng.normal(0, self.spread, (episodes, frames, 2)), self.longest)
        states = np.empty((episodes, frames, 1 + self.balls, 4))
        states[:, 0] = self._beginnings(rng, episodes)
        for step in range(1, frames):
            slips = self._slips(rng, episodes)
            states[:, step] = self.advance(states[:, step - 1], actions[:, step - 1], slips)
        return states, actions

    def boxes_of(self, states: np.ndarray) -> np.ndarray:
        """The square around each disc, (..., 1 + n, 4), for states (..., 1 + n, 4)."""
        centre = states[..., :2]
        return np.concatenate([centre - self.radius, centre + self.radius], axis=-1)

    def velocities_of(self, states: np.ndarray) -> np.ndarray:
        """Pixels a step, (..., 1 + n, 2)."""
        return states[..., 2:]

    def advance(self, states: np.ndarray, actions: np.ndarray, slips: np.ndarray | float = 0.0) -> np.ndarray:
        """States (B, 1 + n, 4) one step after actions (B, 2); `slips` (B, 2) are added to the control balls' way."""
        states = states.copy()
        low, high = self.radius, self.size[0] - self.radius
        place, velocity = states[..., :2], states[..., 2:]
        before = place[:, 0].copy()
        place[:, 0] = np.clip(before + limited(actions, self.longest) + slips, low, high)
        velocity[:, 0] = place[:, 0] - before
        place[:, 1:] += velocity[:, 1:]
        outside = (place < low) | (place > high)
        velocity[outside] *= -1
        np.copyto(place, np.where(place < low, 2 * low - place, place))
        np.copyto(place, np.where(place > high, 2 * high - place, place))
        return states

    def draw(self, states: np.ndarray) -> np.ndarray:
        """Pictures (B, H, W, 3) of states (B, 1 + n, 4): anti-aliased discs on black, the red one on top."""
        height, width = self.size
        count = len(states) * height * width
        grey = len(set(self.ball_colour)) == 1  # these balls then need one channel only
        under = np.zeros(count if grey else (count, 3), np.uint8)
        for ball in range(self.balls, 0, -1):
            spot, cover = self._disc(states[:, ball, :2])
            if grey:
                under[spot] = _over(under[spot], self.ball_colour[0], cover)
            else:
                under[spot] = _over(under[spot], np.array(self.ball_colour, np.uint16), cover[..., None])
        pixels = np.asarray(cv2.cvtColor(under.reshape(len(states), -1), cv2.COLOR_GRAY2RGB)) if grey else under
        pixels = pixels.reshape(-1, 3)
        spot, cover = self._disc(states[:, 0, :2])
        pixels[spot] = _over(pixels[spot], np.array(self.control_colour, np.uint16), cover[..., None])
        return pixels.reshape(-1, height, width, 3)

    def _disc(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pixels that discs at `place` (B, 2) touch, numbered through all pictures, and how much they cover of them."""
        height, width = self.size
        table = _coverage(self.radius)
        patch = table.shape[-1]
        edge = place - self.radius
        # At the far wall the patch would stand out by columns that the disc does not touch.
        corner = np.clip(np.floor(edge), 0, height - patch).astype(np.intp)
        part = np.rint((edge - corner) * SUBPIXELS).astype(np.intp)
        cover = table[part[:, 1], part[:, 0]].reshape(len(place), -1)
        first = corner[:, 1] * width + corner[:, 0] + np.arange(len(place)) * (height * width)
        return first[:, None] + (np.arange(patch)[:, None] * width + np.arange(patch)).ravel(), cover

    def _slips(self, rng: np.random.Generator, episodes: int) -> np.ndarray | float:
        """What is added to the way of the control ball, (E, 2); nothing is drawn in a world without it."""
        return rng.normal(0, self.slip, (episodes, 2)) if self.slip else 0.0

    def _beginnings(self, rng: np.random.Generator, episodes: int) -> np.ndarray:
        """First states (E, 1 + n, 4)."""
        shape = (episodes, 1 + self.balls)
        place = rng.uniform(self.radius, self.size[0] - self.radius, (*shape, 2))
        speed = rng.uniform(self.slowest, self.fastest, shape)
        angle = rng.uniform(0, 2 * np.pi, shape)
        velocity = speed[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        velocity[:, 0] = 0
        return np.concatenate([place, velocity], axis=-1)


def limited(actions: np.ndarray, longest: float) -> np.ndarray:
    """Actions (..., 2), those longer than `longest` shortened to it."""
    norm = np.linalg.norm(actions, axis=-1, keepdims=True)
    return np.asarray(actions * np.minimum(1.0, longest / np.maximum(norm, 1e-12)))


def _rgb(colour: int) -> tuple[int, int, int]:
    """Red, green and blue of 0xRRGGBB."""
    if not 0 <= colour <= WHITE:
        raise ValueError(f"{colour:#x} is no colour: it goes from 0 to {WHITE:#x}.")
    return colour >> 16, colour >> 8 & 255, colour & 255


def _over(under: np.ndarray, colour: np.ndarray | int, cover: np.ndarray) -> np.ndarray:
    """A colour over what is there already; `cover` is uint16, 0 to 255."""
    return np.asarray((under * (255 - cover) + colour * cover + np.uint16(127)) // np.uint16(255))


@lru_cache(maxsize=8)
def _coverage(radius: float) -> np.ndarray:
    """How much of each pixel a disc covers, 0 to 255, by the place of its left and top edge within a pixel.

    Returns:
        (K, K, P, P) uint16, indexed by vertical and horizontal place in 1/S pixels, up to where the disc ends with the
        patch: S + 1 places for whole diameters, more for others. Exact in y, integrated in thin strips in x.
    """
    patch = int(np.ceil(2 * radius)) + 1
    count = int(np.ceil((patch - 2 * radius) * SUBPIXELS)) + 1
    places = np.arange(count) / SUBPIXELS + radius  # of the centre
    strips = (np.arange(patch * _STRIPS) + 0.5) / _STRIPS
    half = np.sqrt(np.maximum(0, radius**2 - (strips - places[:, None]) ** 2))  # (K, strips)
    tops = np.arange(patch)[:, None]
    table = np.empty((count, count, patch, patch), np.uint16)
    for index, centre in enumerate(places):
        inside = np.clip(centre + half[:, None], tops, tops + 1) - np.clip(centre - half[:, None], tops, tops + 1)
        share = inside.reshape(count, patch, patch, _STRIPS).mean(axis=-1)
        table[index] = np.rint(share * 255)
    return table
