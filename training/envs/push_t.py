"""A round agent that pushes a T about: gym-pusht, with actions relative to where the agent is.

The world is 512 units wide, its pictures 224 pixels. States are (10,): place of the agent, place and angle of the
block, then the velocities of all five. Boxes are those of the drawn shapes, whole even where the agent covers the T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from training.envs.packages import needed

SIDE = 224
WORLD = 512.0
SCALE = SIDE / WORLD
REACH = 100.0  # units from the agent to where an action of 1 leads it
GOAL_DISTANCE = 20.0  # units, of agent and block together
GOAL_ANGLE = np.pi / 9
AGENT_RADIUS = 15.0
WITHIN = (22.0, 489.0)  # where actions may lead the agent: between the walls
APART = (50.0, 50.0, 256.0, 256.0, 0.0)  # agent and block do not touch
OUTLINE = 2.0  # units that the block's drawn border stands out
# The T in its own frame: a bar of 120 by 30 and below it a stem of 30 by 90, as gym-pusht builds it.
CORNERS = np.array([[-60, 0], [60, 0], [60, 30], [15, 120], [-15, 120], [-60, 30]], float)
SQUARE = np.array([0.0, 60.0])  # the middle of the square around it
MIDDLE = np.array([0.0, (3600 * 15 + 2700 * 75) / 6300])  # of its area
INWARDS = (156.0, 356.0)  # where the policy pushes the block to
MARGIN = 50.0  # from the walls, in which it does not push the block on
AROUND = 95.0  # units from the block's middle at which the policy goes round it
TURN = 0.6  # radians that it goes round in a step
IN_PLACE = 0.3  # radians from the side it wants to push from
AIM_SPREAD, STRAY = 25.0, 0.12  # of the policy: units beside the block's middle, and what is added to its actions
PATIENCE = (12, 30)  # steps that it pushes before it chooses another side


@dataclass
class _Plan:
    """What the policy is about: to push from one side of the block, an angle, at a place beside its middle."""

    side: float
    aim: np.ndarray
    left: int  # steps of pushing
    steps: int = 0  # spent on this plan
    pushing: bool = False


class PushT:
    """The Push-T environment: bring agent and block to their places in the goal."""

    name = "push_t"
    fps = 10.0
    action_size = 2
    size = (SIDE, SIDE)
    object_names: ClassVar = ["agent", "block"]

    def __init__(self) -> None:
        """gym-pusht's world."""
        module = needed("gym_pusht.envs.pusht", "Push-T")
        self._world = module.PushTEnv(observation_width=SIDE, observation_height=SIDE)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Put agent and block somewhere."""
        self._world.reset(seed=seed)
        self._state = self._read()
        self._plan: _Plan | None = None

    def step(self, action: np.ndarray) -> None:
        """Pull the agent by `action` (2,), in 100 units, each cut to [-1, 1], for a tenth of a second."""
        # pymunk remembers contacts: a world set up anew makes a step depend on the state alone.
        self._write(self._state, anew=True)
        target = self._state[:2] + REACH * np.clip(action, -1, 1)
        self._world.step(np.clip(target, *WITHIN))
        self._state = self._read()

    def render(self) -> np.ndarray:
        """The present picture."""
        return np.asarray(self.draw(self._state[None])[0])

    def state(self) -> np.ndarray:
        """Places, angle and velocities, (10,)."""
        return self._state.copy()

    def set_state(self, state: np.ndarray) -> None:
        """Go on from a state; the policy begins anew."""
        self._state = np.array(state, float)
        self._plan = None

    def boxes(self) -> dict[str, np.ndarray]:
        """The box of each object, cut where the picture ends."""
        return dict(zip(self.object_names, self.boxes_of(self._state[None])[0], strict=True))

    def reached(self, goal: np.ndarray) -> bool:
        """Whether agent and block are together within 20 units of their places in `goal`, and its turn within 20°."""
        turn = (self._state[4] - goal[4] + np.pi) % (2 * np.pi) - np.pi
        return bool(np.linalg.norm(self._state[:4] - goal[:4]) <= GOAL_DISTANCE and abs(turn) <= GOAL_ANGLE)

    def policy(self, rng: np.random.Generator) -> np.ndarray:
        """Go round the block to a side of it, push it on for a while, not quite straight, then choose another side."""
        place, block = self._state[:2], _in_world(self._state, MIDDLE)
        if self._plan is None or self._plan.left == 0 or (self._plan.pushing and self._at_wall(self._plan.side)):
            towards = rng.uniform(*INWARDS, 2) - block
            self._plan = _Plan(
                side=float(np.arctan2(-towards[1], -towards[0])),
                aim=rng.normal(0, AIM_SPREAD, 2),
                left=int(rng.integers(*PATIENCE)),
            )
        plan = self._plan
        side = float(np.arctan2(*(place - block)[::-1]))
        turn = (plan.side - side + np.pi) % (2 * np.pi) - np.pi
        plan.steps += 1
        if plan.pushing or abs(turn) <= IN_PLACE or plan.steps > PATIENCE[1]:
            plan.pushing = True
            plan.left -= 1
            way = block + plan.aim - place
        else:
            angle = side + np.clip(turn, -TURN, TURN)
            way = block + AROUND * np.array([np.cos(angle), np.sin(angle)]) - place
        return np.clip(way / REACH + rng.normal(0, STRAY, 2), -1, 1)

    def _at_wall(self, side: float) -> bool:
        """Whether a push from that side would drive the block into a wall, where nobody gets behind it."""
        corners = _in_world(self._state, CORNERS)
        heading = -np.array([np.cos(side), np.sin(side)])
        near = (corners.min(axis=0) < MARGIN) & (heading < -0.2) | (corners.max(axis=0) > WORLD - MARGIN) & (
            heading > 0.2
        )
        return bool(near.any())

    def draw(self, states: np.ndarray) -> np.ndarray:
        """Pictures (B, 224, 224, 3) of states (B, 10)."""
        self._world.reset(options={"reset_to_state": APART})  # no contact is left that would be drawn as a red line
        self._world.obs_type = "pixels"
        pictures = []
        for state in states:
            self._write(state)
            pictures.append(self._world.get_obs())
        self._world.obs_type = "state"
        return np.stack(pictures)

    def boxes_of(self, states: np.ndarray) -> np.ndarray:
        """Boxes (T, 2, 4) of agent and block for states (T, 10)."""
        agent = states[:, None, :2] + AGENT_RADIUS * np.array([[-1, -1], [1, 1]])
        corners = _in_world(states[:, None], CORNERS)
        block = np.stack(
            [corners.min(axis=1) - OUTLINE, corners.max(axis=1) + OUTLINE + 1], axis=1
        )  # pygame fills the last pixel
        return (np.stack([agent, block], axis=1) * SCALE).clip(0, SIDE).reshape(-1, 2, 4)

    def oriented_of(self, states: np.ndarray) -> np.ndarray:
        """Oriented boxes (T, 2, 5); around the T it is a square, which turns with it."""
        long = np.array([2 * AGENT_RADIUS, np.ptp(CORNERS[:, 0]) + 2 * OUTLINE]) * SCALE
        side = np.broadcast_to(long[:, None], (len(states), 2, 2))
        centre = np.stack([states[:, :2], _in_world(states, SQUARE)], axis=1) * SCALE
        angle = np.stack([np.zeros(len(states)), (states[:, 4] + np.pi / 2) % np.pi - np.pi / 2], axis=1)
        return np.concatenate([centre, side, angle[..., None]], axis=-1)

    def headings_of(self, states: np.ndarray) -> np.ndarray:
        """Where the T points, (T, 2, 1); the agent is round."""
        return np.stack([np.full(len(states), np.nan), states[:, 4]], axis=1)[..., None]

    def masses_of(self, states: np.ndarray) -> np.ndarray:
        """Centres of mass (T, 2, 2)."""
        return np.stack([states[:, :2], _in_world(states, MIDDLE)], axis=1) * SCALE

    def velocities_of(self, states: np.ndarray) -> np.ndarray:
        """Pixels a step, (T, 2, 2), as fast as agent and block are at that moment."""
        return np.stack([states[:, 5:7], states[:, 7:9]], axis=1) * SCALE / self.fps

    def quantities_of(self, states: np.ndarray) -> dict[str, np.ndarray]:
        """What a latent may be asked for, by name, (T, k) each; angles as sine and cosine."""
        yaw = np.stack([np.sin(states[:, 4]), np.cos(states[:, 4])], axis=1)
        return {"pusher location": states[:, :2], "block location": states[:, 2:4], "block yaw": yaw}

    def _read(self) -> np.ndarray:
        agent, block = self._world.agent, self._world.block
        places = (*agent.position, *block.position, block.angle)
        return np.array([*places, *agent.velocity, *block.velocity, block.angular_velocity])

    def _write(self, state: np.ndarray, anew: bool = False) -> None:
        if anew:
            self._world.reset(options={"reset_to_state": state[:5]})
        agent, block = self._world.agent, self._world.block
        agent.position, agent.velocity = tuple(state[:2]), tuple(state[5:7])
        block.angle = float(state[4])  # turns about the centre of gravity, so the place is set after it
        block.position, block.velocity = tuple(state[2:4]), tuple(state[7:9])
        block.angular_velocity = float(state[9])
        for body in (agent, block):
            self._world.space.reindex_shapes_for_body(body)


def _in_world(states: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points (..., 2) of the block's own frame where it stands in states (..., 10), in units."""
    cos, sin = np.cos(states[..., 4]), np.sin(states[..., 4])
    x, y = points[..., 0], points[..., 1]
    return states[..., 2:4] + np.stack([cos * x - sin * y, sin * x + cos * y], axis=-1)
