"""Which figures does a table ask of a trained model?

Each measure calls one part of `training.evaluation`, on held-out episodes, and names what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from training.reproduction.cells import Figure, Measure

if TYPE_CHECKING:
    from training.dataset import Dataset
    from training.evaluation.latents import Quantity, Seen
    from training.evaluation.success import Rate, Success
    from training.planning.settings import Way
    from training.world_model import WorldModel

EVERYTHING = "everything"  # all that a world has, as one quantity
PASSED_OVER = "left out: "  # what begins the names of figures that count starts which were passed over
POSITIONS = f"{EVERYTHING}, position"  # of all objects


@dataclass(frozen=True, kw_only=True)
class OnePlan(Measure):
    """How often one plan, carried out to its end, ends within a pixel of the goal: the protocol for n-ball.

    Figures: `plans`, `random` for random actions from the same starts, and how many starts were `left out: solved`.
    """

    horizon: int = 4
    context: int = 3  # frames that a plan starts from
    starts: int = 200
    seeds: tuple[int, ...] = (0,)  # of planning, each with starts of its own

    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Plan from each start."""
        from training.evaluation.success import one_plan, with_seeds

        trial = partial(one_plan, model, dataset, "validation", self.horizon, self.context, self.starts)
        return _arrived(with_seeds(trial, self.seeds))


@dataclass(frozen=True, kw_only=True)
class Driving(Measure):
    """How often the goal, 25 actions away, is reached within 50, planning anew: the protocol for the other worlds.

    Figures: `plans`, `random` for random actions from the same starts, and how many starts were `left out: solved`.
    """

    starts: int = 50
    seeds: tuple[int, ...] = (0,)

    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Drive from each start."""
        from training.evaluation.success import many_plans, with_seeds

        return _arrived(with_seeds(partial(many_plans, model, dataset, "validation", starts=self.starts), self.seeds))


@dataclass(frozen=True, kw_only=True)
class Clearance(Measure):
    """Do plans keep clear of other balls, without and with a price on imagined collisions?

    Figures: `plain: distance`, `plain: clear`, `plain: success`, and the same of `informed` and `random`; and how
    many starts were passed over: `left out: solved`, `left out: touching`.
    """

    version: ClassVar[int] = 2  # starts that succeed by standing still are left out
    horizon: int = 8
    context: int = 3
    starts: int = 200
    seeds: tuple[int, ...] = (0,)
    weight: float = 1.0  # the price
    way: Way | None = None  # boxes back from spectra, where the head says those; None: as `ImaginedBoxes` chooses

    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Plan from each start, twice."""
        from training.evaluation.collisions import keep_clear
        from training.evaluation.success import with_seeds

        sizes = self.horizon, self.context, self.starts
        trial = partial(keep_clear, model, dataset, "validation", *sizes, weight=self.weight, way=self.way)
        found = with_seeds(trial, self.seeds)
        figures = {}
        for way in ("plain", "informed", "random"):
            kept = [getattr(one, way) for one in found]
            figures[f"{way}: distance"] = Figure(sum(one.distance for one in kept) / len(kept))
            figures[f"{way}: clear"] = _pooled([one.clear for one in kept])
            figures[f"{way}: success"] = _pooled([one.success for one in kept])
        figures[f"{PASSED_OVER}solved"] = Figure(sum(one.solved for one in found))
        figures[f"{PASSED_OVER}touching"] = Figure(sum(one.touching for one in found))
        return figures


@dataclass(frozen=True, kw_only=True)
class Foresight(Measure):
    """How far off are places that a model imagines some steps ahead, in pixels?

    Figures: `NAME: off` for each kind of objects, and `NAME: blind` for the better of two guesses.
    """

    horizon: int = 8
    windows: int = 1000
    way: Way | None = None

    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Imagine and read places."""
        from training.evaluation.foresight import foreseen_places

        found = foreseen_places(model, dataset, "validation", self.horizon, self.windows, way=self.way)
        off = {f"{name}: off": Figure(one.off) for name, one in found.items()}
        return off | {f"{name}: blind": Figure(one.blind) for name, one in found.items()}


@dataclass(frozen=True, kw_only=True)
class Correlation(Measure):
    """Do distances between latents follow distances between objects? Spearman's, over all pairs of 2,000 frames.

    Figures: by quantity, as `control ball, position`; `everything, position` of all objects together; `rank`, the
    directions that latents vary in; and `spread`, the standard deviation of a component.
    """

    frames: int = 2000

    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Encode frames and compare."""
        from training.evaluation.geometry import distance_correlation
        from training.evaluation.latents import encoded, quantities
        from training.monitors import effective_rank, spread

        seen = encoded(model, dataset, "validation", self.frames, seed=1)
        names = dataset.category_names
        found = quantities(seen, names)
        figures = {
            name: Figure(distance_correlation(seen.latents[there.rows], there.values)) for name, there in found.items()
        }
        places = [name for name in found if name.endswith(", position")]
        if places:
            figures[POSITIONS] = figures[places[-1]]  # of the only kind, or of all of them, which come last
        latents = seen.latents.astype(float)
        return {**figures, "rank": Figure(effective_rank(latents)), "spread": Figure(spread(latents))}


@dataclass(frozen=True, kw_only=True)
class Probing(Measure):
    """What can be read off latents, by a linear map and by a small network?

    Figures: by quantity, as `block yaw: linear error`, `... linear r`, `... network error`, `... network r`. What the
    simulator itself says of its state counts over boxes; `everything` is all of it side by side.
    """

    fitted: int = 50_000  # frames that probes learn from
    judged: int = 5_000
    epochs: int = 100  # of the network

    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Fit on training frames, judge on others."""
        from training.evaluation.latents import encoded
        from training.evaluation.probes import Task, linear_probe, network_probe

        fitted = encoded(model, dataset, "train", self.fitted)
        held_out = encoded(model, dataset, "validation", self.judged, seed=1)
        known, figures = _state(fitted, dataset), {}
        for name, there in _state(held_out, dataset).items():
            latents = fitted.latents[known[name].rows], held_out.latents[there.rows]
            task = Task(latents[0], known[name].values, latents[1], there.values)
            readings = {"linear": linear_probe(task), "network": network_probe(task, model.device, self.epochs)}
            for kind, reading in readings.items():
                figures[f"{name}: {kind} error"] = Figure(reading.error)
                figures[f"{name}: {kind} r"] = Figure(reading.pearson)
        return figures


def _state(seen: Seen, dataset: Dataset) -> dict[str, Quantity]:
    """What the simulator tells, or else the positions of objects; and all of it together."""
    import numpy as np

    from training.evaluation.latents import Quantity, of_the_world, quantities
    from training.evaluation.success import world_of

    told = of_the_world(seen, world_of(dataset))
    if told:
        every = np.concatenate([one.values for one in told.values()], axis=1)
        return {**told, EVERYTHING: Quantity(np.arange(len(every)), every)}
    known = quantities(seen, dataset.category_names)
    places = {name: one for name, one in known.items() if name.endswith(", position")}
    together = [*places.values()][-1]  # of the only kind, or of all of them, which come last
    if len(places) > 1:
        places.popitem()
    return {**places, EVERYTHING: together}


def _arrived(found: list[Success]) -> dict[str, Figure]:
    return {
        "plans": _pooled([one.plans for one in found]), "random": _pooled([one.random for one in found]),
        f"{PASSED_OVER}solved": Figure(sum(one.solved for one in found)),
    }  # fmt: skip


def _pooled(rates: list[Rate]) -> Figure:
    trials = sum(rate.trials for rate in rates)
    return Figure(sum(rate.successes for rate in rates) / trials, trials)
