"""Two rooms, a wall and a door: an agent, drawn as a soft red blob, goes where its actions lead.

States are (2,): the agent's place in the rooms, which are 224 wide; pictures may be smaller. `advance` and
`draw` take batches of states, `play` plays many episodes at once.
"""

from __future__ import annotations

from typing import ClassVar

import cv2
import numpy as np

from training.envs.nball import limited

SIDE = 224
SIGMA = 7.0  # of the blob
VISIBLE = 2.15 * SIGMA  # where its opacity falls to a tenth: the edge of its box
SMALLEST = 16  # pixels of a picture
REACH = 25  # further out its opacity is less than one grey level in two
RADIUS = 7.0  # the agent keeps this far from walls
FRAME_OUTER, FRAME_INNER = 10, 14  # the line around both rooms
WALL = (107, 117)  # its left and right side
DOOR_HALF = 14.0
MAX_ACTION = 5.0  # pixels a step
GOAL_DISTANCE = 16.0
ARRIVED = 8.0  # the policy then chooses its next target
TURN_SPREAD = 0.35  # radians by which the policy strays
SLOWEST = 3.5  # pixels a step, of the policy
AGENT_COLOUR = (255, 0, 0)


class TwoRoom:
    """The Two Room environment: find the door, then the target."""

    name = "two_room"
    fps = 10.0
    action_size = 2
    object_names: ClassVar = ["agent"]

    def __init__(self, door: float = 49.0, size: int = SIDE) -> None:
        """Two rooms whose door has its middle `door` from the top, in pictures of `size` pixels."""
        lowest, highest = FRAME_INNER + DOOR_HALF, SIDE - FRAME_INNER - DOOR_HALF
        if not lowest <= door <= highest:
            raise ValueError(f"A door at {door} does not fit the wall: choose {lowest} to {highest}.")
        if size < SMALLEST:
            raise ValueError(f"In pictures of {size} pixels nobody sees the door: choose {SMALLEST} or more.")
        self.door, self.size = door, (size, size)
        self._scale = size / SIDE
        self._background = np.asarray(cv2.resize(_rooms(door), self.size, interpolation=cv2.INTER_AREA))
        self._place = np.zeros(2)
        self.target = np.zeros(2)  # where the policy is going
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Put the agent into one room and its target into the other."""
        rng = np.random.default_rng(seed)
        room = rng.integers(2, size=1)
        self._place = _somewhere(rng, room)[0]
        self.target = _somewhere(rng, 1 - room)[0]

    def step(self, action: np.ndarray) -> None:
        """Move the agent by `action` (2,), cut to norm 5, as far as the walls let it."""
        self._place = self.advance(self._place[None], np.asarray(action, float)[None])[0]

    def render(self) -> np.ndarray:
        """The present picture."""
        return np.asarray(self.draw(self._place[None])[0])

    def state(self) -> np.ndarray:
        """The agent's place, (2,)."""
        return self._place.copy()

    def set_state(self, state: np.ndarray) -> None:
        """Go on from a state; the policy begins anew."""
        self._place = np.array(state, float)
        self.target = self._place.copy()  # arrived: the policy chooses another one

    def boxes(self) -> dict[str, np.ndarray]:
        """The box of the agent, where its opacity is above a tenth."""
        return {"agent": self.boxes_of(self._place)[0]}

    def reached(self, goal: np.ndarray) -> bool:
        """Whether the agent is within 16 pixels of the place `goal`."""
        return bool(np.linalg.norm(self._place - goal) <= GOAL_DISTANCE)

    def policy(self, rng: np.random.Generator) -> np.ndarray:
        """Go to the door, through it, to the target, not quite straight; then to a new target in either room."""
        action, target = _heading(rng, self._place[None], self.target[None], self.door)
        self.target = target[0]
        return np.asarray(action[0])

    def play(self, rng: np.random.Generator, episodes: int, frames: int) -> tuple[np.ndarray, np.ndarray]:
        """States (E, T, 2) and actions (E, T, 2) of many episodes; the last action is not carried out."""
        room = rng.integers(2, size=episodes)
        states, actions = np.empty((episodes, frames, 2)), np.empty((episodes, frames, 2))
        states[:, 0], target = _somewhere(rng, room), _somewhere(rng, 1 - room)
        for step in range(frames):
            actions[:, step], target = _heading(rng, states[:, step], target, self.door)
            if step + 1 < frames:
                states[:, step + 1] = self.advance(states[:, step], actions[:, step])
        return states, actions

    def boxes_of(self, states: np.ndarray) -> np.ndarray:
        """The agent's box, (..., 1, 4), for states (..., 2)."""
        corners = np.concatenate([states - VISIBLE, states + VISIBLE], axis=-1).clip(0, SIDE)
        return corners[..., None, :] * self._scale

    def velocities_of(self, states: np.ndarray) -> np.ndarray:
        """How far the last step took the agent, (T, 1, 2) pixels of the picture, in the states (T, 2) of an episode."""
        return np.diff(states, axis=0, prepend=states[:1])[:, None] * self._scale

    def advance(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """States (B, 2) one step after actions (B, 2)."""
        # A step is shorter than the wall is thick, so nobody can jump it.
        low, high = FRAME_INNER + RADIUS, SIDE - FRAME_INNER - RADIUS
        moved: np.ndarray = np.clip(states + limited(actions, MAX_ACTION), low, high)
        left, right = WALL[0] - RADIUS, WALL[1] + RADIUS
        opening = DOOR_HALF - RADIUS
        x, y = moved[:, 0], moved[:, 1]
        inside = (x > left) & (x < right)
        blocked = inside & (np.abs(y - self.door) > opening)
        was_inside = (states[:, 0] > left) & (states[:, 0] < right)
        moved[:, 1] = np.where(blocked & was_inside, np.clip(y, self.door - opening, self.door + opening), y)
        side = np.where(states[:, 0] < (left + right) / 2, left, right)
        moved[:, 0] = np.where(blocked & ~was_inside, side, x)
        return moved

    def draw(self, states: np.ndarray) -> np.ndarray:
        """Pictures (B, size, size, 3) of states (B, 2)."""
        side, sigma, reach = self.size[0], SIGMA * self._scale, int(np.ceil(REACH * self._scale))
        place = states * self._scale
        corner = np.clip(np.rint(place).astype(int) - reach, 0, side - 2 * reach)
        pixel = corner[..., None] + np.arange(2 * reach)  # (B, 2, P)
        fall = np.exp(-((pixel + 0.5 - place[..., None]) ** 2) / (2 * sigma**2)).astype(np.float32)
        opacity = fall[:, 1, :, None] * fall[:, 0, None]
        spot = np.arange(len(states))[:, None, None] * side**2 + pixel[:, 1, :, None] * side + pixel[:, 0, None]
        frames = np.empty((len(states), *self._background.shape), np.uint8)
        frames[:] = self._background
        pixels = frames.reshape(-1, 3)
        under = pixels[spot]
        pixels[spot] = under + opacity[..., None] * (np.array(AGENT_COLOUR, np.float32) - under) + np.float32(0.5)
        return frames


def _heading(
    rng: np.random.Generator, place: np.ndarray, target: np.ndarray, door: float
) -> tuple[np.ndarray, np.ndarray]:
    """Actions (E, 2) towards targets (E, 2), and the targets: new ones where the agents have arrived."""
    count = len(place)
    arrived = np.linalg.norm(place - target, axis=1) <= ARRIVED
    if arrived.any():
        target = target.copy()
        target[arrived] = _somewhere(rng, rng.integers(2, size=int(arrived.sum())))
    way = _waypoints(place, target, door) - place
    angle = np.arctan2(way[:, 1], way[:, 0]) + rng.normal(0, TURN_SPREAD, count)
    length = np.minimum(rng.uniform(SLOWEST, MAX_ACTION, count), np.linalg.norm(way, axis=1) + 1.0)
    return length[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1), target


def _waypoints(place: np.ndarray, target: np.ndarray, door: float) -> np.ndarray:
    """Where to go next to get to the targets (E, 2): the door's near side, its far side, or the target itself."""
    left, right = WALL[0] - RADIUS, WALL[1] + RADIUS
    x, y = place[:, 0], place[:, 1]
    to_the_right = target[:, 0] > (left + right) / 2
    same_room = np.where(to_the_right, x >= right, x <= left)
    beyond = np.where(to_the_right, right + 1, left - 1)
    near = np.where(x <= left, left - 2, right + 2)
    passing = ((x > left) & (x < right)) | (np.abs(y - door) <= DOOR_HALF - RADIUS - 2)
    to_door = np.stack([np.where(passing, beyond, near), np.full(len(place), door)], axis=1)
    return np.where(same_room[:, None], target, to_door)


def _somewhere(rng: np.random.Generator, room: np.ndarray) -> np.ndarray:
    """Free places (E, 2) in left (0) or right (1) rooms (E,)."""
    low, high = FRAME_INNER + RADIUS, SIDE - FRAME_INNER - RADIUS
    nearest = np.where(room == 0, low, WALL[1] + RADIUS)
    furthest = np.where(room == 0, WALL[0] - RADIUS, high)
    return np.stack([rng.uniform(nearest, furthest), rng.uniform(low, high, len(room))], axis=1)


def _rooms(door: float) -> np.ndarray:
    """The picture without the agent: black lines on white."""
    picture = np.full((SIDE, SIDE, 3), 255, np.uint8)
    line, far = slice(FRAME_OUTER, FRAME_INNER), slice(SIDE - FRAME_INNER, SIDE - FRAME_OUTER)
    for lines in (line, far):
        picture[lines] = 0
        picture[:, lines] = 0
    picture[:, WALL[0] : WALL[1]] = 0
    picture[round(door - DOOR_HALF) : round(door + DOOR_HALF), WALL[0] : WALL[1]] = 255
    return picture
