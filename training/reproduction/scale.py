"""What does a scale decide?

On how much, how long and how often models are trained, and from how many starts they are judged. A table says what is
trained and asks the scale for the rest. The sizes themselves are in `training.reproduction.scales`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from training.planning.settings import Way
from training.reproduction.cells import Data, Simulated, Training
from training.reproduction.judge import Clearance, Correlation, Driving, Foresight, OnePlan, Probing

ScaleName = Literal["cpu", "paper"]

HEAD: tuple[str, ...] = ()  # the presets have the auxiliary head
LEWM = ("objective.encoded_weight=0", "objective.predicted_weight=0")

# Seconds on one core with the other one busy, nball-cpu's model.
STEP = 0.2  # of training, 24 windows
PLANNED = {1: 0.08, 3: 0.135}  # one step ahead from one n-ball start, by the frames that are seen; the whole search
DRIVEN = {"push-t": 5.0, "two-room": 5.0, "reacher": 5.0, "cube": 6.5}  # one start, plans and pictures
PROBED = 30.0  # one quantity, 10,000 frames
COMPARED = 20.0  # distances of latents


@dataclass(frozen=True)
class Budget:
    """How long a kind of training is."""

    preset: str
    steps: int = 0  # 0: the preset's epochs
    settings: tuple[str, ...] = ()

    @property
    def minutes(self) -> float:
        """Of one core; only the CPU's steps were timed."""
        return self.steps * STEP / 60


@dataclass(frozen=True)
class Scale:
    """All sizes."""

    name: ScaleName
    worlds: Mapping[str, Simulated]
    budgets: Mapping[str, Budget]
    seeds: Mapping[str, tuple[int, ...]]  # of training, by table or `table, world`; otherwise seed 0 alone
    nested: tuple[int, ...]  # episodes, from which data efficiency is judged
    nested_world: str = "push-t"  # of this world, the paper's
    starts: int = 200  # of n-ball plans, 4 steps ahead from 3 frames
    other_starts: int = 200  # of all other n-ball plans
    drives: int = 50  # starts in other worlds
    plan_seeds: tuple[int, ...] = (0,)  # of planning
    probed: tuple[int, int] = (50_000, 5_000)  # frames that probes are fitted on, and judged by
    probe_epochs: int = 100
    reductions: tuple[tuple[str, tuple[str, ...]], ...] = ()  # sentences, each with the tables that it is about
    left_out: tuple[str, ...] = ()  # rows of tables, as `aux-cem, 50K`
    every: tuple[str, ...] = ()  # settings of every training
    threads: int = 0  # of a cell; 0: as many as it likes
    timed: bool = False  # whether minutes are declared
    clips: str = ""  # a folder of videos with true boxes, which a table asks for

    def trainings(
        self, table: str, world: str, budget: str, settings: tuple[str, ...], label: str, data: Data | None = None
    ) -> tuple[Training, ...]:
        """A world model for each of the seeds that are declared for this table and world.

        Args:
            table: For the seeds.
            world: What it is trained on.
            budget: How long it is trained.
            settings: What makes it the one that it is, as `HEAD` or `LEWM`.
            label: What a reader calls it.
            data: In place of the world's own dataset.
        """
        chosen = self.budgets[budget]
        steps = (f"steps={chosen.steps}",) if chosen.steps else ()
        every = (*steps, *chosen.settings, *self.every, *settings)
        seeds = self.seeds.get(f"{table}, {world}", self.seeds.get(table, (0,)))
        source = data or self.worlds[world]
        minutes = chosen.minutes if self.timed else 0.0
        return tuple(Training(source, chosen.preset, every, seed, label, minutes) for seed in seeds)

    def one_plan(self, horizon: int = 4, context: int = 3) -> OnePlan:
        """Success in n-ball worlds."""
        starts = self.starts if (horizon, context) == (4, 3) else self.other_starts
        return OnePlan(
            horizon=horizon, context=context, starts=starts, seeds=self.plan_seeds,
            minutes=self._plans(starts, horizon, context),
        )  # fmt: skip

    def driving(self, world: str, on: Data | None = None) -> Driving:
        """Success in other worlds."""
        minutes = self._declared(DRIVEN[world] * self.drives * len(self.plan_seeds))
        return Driving(starts=self.drives, seeds=self.plan_seeds, on=on, minutes=minutes)

    def success(self, world: str) -> OnePlan | Driving:
        """By the protocol for a world; n-ball: 4 steps ahead, from 3 frames."""
        return self.one_plan() if world.startswith("nball") else self.driving(world)

    def clearance(self, price: float = 2.0, way: Way | None = None) -> Clearance:
        """Collisions in n-ball worlds; a `price` of 2 for two plans, more where boxes are read back from spectra."""
        minutes = price * self._plans(self.other_starts, 8, 3)
        return Clearance(starts=self.other_starts, seeds=self.plan_seeds, way=way, minutes=minutes)

    def foresight(self, way: Way | None = None) -> Foresight:
        """Places that are imagined in n-ball worlds, as far ahead as plans that keep clear look."""
        return Foresight(way=way, minutes=self._declared(COMPARED))

    def correlation(self) -> Correlation:
        """Distances of latents."""
        return Correlation(minutes=self._declared(COMPARED))

    def probing(self, quantities: int) -> Probing:
        """What can be read off latents: so many quantities."""
        fitted, judged = self.probed
        minutes = self._declared(PROBED * quantities + COMPARED)
        return Probing(fitted=fitted, judged=judged, epochs=self.probe_epochs, minutes=minutes)

    def reductions_of(self, table: str) -> tuple[str, ...]:
        """The sentences about a table."""
        return tuple(sentence for sentence, tables in self.reductions if table in tables)

    def _plans(self, starts: int, horizon: int, context: int) -> float:
        """Minutes of a plan from each start."""
        return self._declared(PLANNED.get(context, PLANNED[3]) * starts * len(self.plan_seeds) * horizon)

    def _declared(self, seconds: float) -> float:
        """As minutes; 0 where nothing was timed."""
        return seconds / 60 if self.timed else 0.0
