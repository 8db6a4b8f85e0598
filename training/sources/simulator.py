"""Episodes straight from a simulator, with exact boxes, states and actions.

Episodes are played in groups with a random generator each, so the first thousand of ten thousand episodes are the same
as a thousand of their own. A simulator that offers `play` plays a group at once, others one episode after another.
What else it knows of its objects it offers by the methods of `OFFERED`, each from states (T, ...) to (T, n, ...) in the
units of the dataset, but places in pixels; without them objects are taken for upright and their middle for their mass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from labeling.recipe import digest
from training.dataset_format import OBJECT_COLUMNS
from training.envs import Environment, make
from training.manifest import PrepareConfig, SimulatorSource
from training.sources import Report
from training.sources.framing import Framing
from training.sources.labels import groups_of_names
from training.sources.players import side_by_side
from training.sources.reading import BLOCK
from training.takes import Layout, Take

# Column of the dataset -> the method of a simulator that knows it.
OFFERED = {
    "oriented": "oriented_of", "mass": "masses_of", "velocity": "velocities_of", "depth": "depths_of",
    "heading": "headings_of", "pose": "poses_of", "pose_velocity": "pose_velocities_of",
}  # fmt: skip
VERSION = 2  # raise it when the same seed gives other episodes
GROUP = 64  # episodes that share a random generator


@runtime_checkable
class Batched(Protocol):
    """A simulator that plays many episodes at once."""

    object_names: list[str]

    def play(self, rng: np.random.Generator, episodes: int, frames: int) -> tuple[np.ndarray, np.ndarray]:
        """States (E, T, ...) and actions (E, T, A)."""

    def boxes_of(self, states: np.ndarray) -> np.ndarray:
        """Boxes (..., n, 4) of all objects, x1 y1 x2 y2."""


class Episodes:
    """The episodes of a simulator as takes."""

    def __init__(self, source: SimulatorSource, seed: int, config: PrepareConfig, workers: int = 1) -> None:
        """Episodes for a dataset; where they are played one after another, in so many processes (`players`)."""
        self._source, self._seed, self._config, self._workers = source, seed, config, workers
        self._world: Environment = make(source.environment, **source.options)
        options = "".join(f" {name}={value}" for name, value in sorted(source.options.items()))
        self.name = f"{source.environment}{options} seed={seed}"
        self.origin = f"{self.name}, {source.episodes} episodes of {source.frames} frames"
        self._framing = Framing(*self._world.size, config.size, config.letterbox)
        names = [kind_of(name) for name in self._world.boxes()]
        grouping, self._kept, self._category = groups_of_names(names, source.episodes, config)
        self.categories, self.notes = grouping.categories, grouping.notes
        self.frames = source.episodes * source.frames
        self._knows: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            column: getattr(self._world, method) for column, method in OFFERED.items() if hasattr(self._world, method)
        }
        self.recipe = digest(
            kind="simulator", version=VERSION, source=source.model_dump(mode="json"), seed=seed,
            settings=config.model_dump(mode="json", exclude={"camera"}),
            **({"heading": True} if "heading" in self._knows else {}),  # which datasets of old lack
        )  # fmt: skip
        extra = {"oriented": 5, "mass": 2, "state": self._world.state().size}
        extra |= {name: OBJECT_COLUMNS[name] for name in self._knows}
        self.layout = Layout((config.size, config.size), self._world.action_size, len(self._kept), extra)

    def takes(self, report: Report) -> Iterator[Take]:
        """One take an episode."""
        return self.takes_from(0, report)

    def takes_from(self, first: int, report: Report) -> Iterator[Take]:
        """One take an episode, from number `first` on."""
        if self._workers > 1 and not isinstance(self._world, Batched):
            rest = range(first, self._source.episodes)
            yield from side_by_side(self._source, self._seed, self._config, rest, self._workers)
            return
        while first < self._source.episodes:
            after = min(first - first % GROUP + GROUP, self._source.episodes)
            for states, actions, boxes in self._played(first, after):
                yield self._take(states, actions, boxes)
            first = after

    def whole(self, number: int) -> Take:
        """One episode, with its pictures drawn."""
        (played,) = self._played(number, number + 1)
        take = self._take(*played)
        return replace(take, pictures=list(take.pictures))

    def _played(self, first: int, after: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """States (T, ...), actions (T, A) and boxes (T, n, 4) of some episodes of a group."""
        frames, world = self._source.frames, self._world
        group, some = first // GROUP, range(first % GROUP, (after - 1) % GROUP + 1)
        if isinstance(world, Batched):
            states, actions = world.play(np.random.default_rng([self._seed, group]), GROUP, frames)
            states, actions = states[some.start : some.stop], actions[some.start : some.stop]
            yield from zip(states, actions, world.boxes_of(states), strict=True)
            return
        for number in some:
            yield _one_by_one(world, np.random.default_rng([self._seed, group, number]), frames)

    def _take(self, states: np.ndarray, actions: np.ndarray, corners: np.ndarray) -> Take:
        boxes = self._framing.boxes(corners[:, self._kept])
        columns = {
            "actions": actions, "boxes": boxes, "mass": boxes[..., :2], "state": states.reshape(len(states), -1),
            "oriented": np.concatenate([boxes, np.zeros_like(boxes[..., :1])], axis=-1),
        }  # fmt: skip
        for name, known in self._knows.items():
            columns[name] = self._framing.column(name, known(states)[:, self._kept])
        return Take(self.name, 0, self._pictures(states), columns, self._category, self._kept)

    def _pictures(self, states: np.ndarray) -> Iterator[np.ndarray]:
        for first in range(0, len(states), BLOCK):
            drawn = self._world.draw(states[first : first + BLOCK])
            alike = drawn.shape[1:3] == self.layout.size
            yield drawn if alike else np.stack([self._framing.picture(image) for image in drawn])


def kind_of(name: str) -> str:
    """The kind of thing that an object is: `ball 3` is a ball."""
    return re.sub(r"[ _-]?\d+$", "", name)


def _one_by_one(world: Environment, rng: np.random.Generator, frames: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    world.reset(int(rng.integers(2**31)))
    states, actions, boxes = [], [], []
    for _ in range(frames):
        states.append(world.state())
        boxes.append(np.stack(list(world.boxes().values())))
        actions.append(world.policy(rng))
        world.step(actions[-1])
    return np.stack(states), np.stack(actions), np.stack(boxes)
