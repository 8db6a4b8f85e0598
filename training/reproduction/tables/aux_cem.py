"""Does a price on imagined collisions keep plans clear of other balls?"""

from __future__ import annotations

from training.planning.settings import Way
from training.reproduction.cells import Training
from training.reproduction.judge import Clearance, Foresight
from training.reproduction.scale import HEAD, Scale
from training.reproduction.table import LEFT_OUT, Column, Entry, Row, Table, Unit

NAME = "aux-cem"
POSITIONS = ("target.matching=none",)  # the head says boxes outright: nothing has to be read back
MATCHED = ("target.matching=frame",)  # the same, with alike balls in the order in which the head names them
# Balls and thousands of episodes: distance, free of collisions, success; by the goal alone and with the price.
PAPER = {
    (1, 20): ((4.288, 4.317), (0.959, 0.988), (0.909, 0.930)),
    (1, 50): ((3.998, 4.009), (0.960, 0.990), (0.951, 0.979)),
    (3, 20): ((5.164, 5.481), (0.858, 0.934), (0.618, 0.641)),
    (3, 50): ((5.074, 5.347), (0.860, 0.929), (0.636, 0.662)),
    (5, 20): ((5.550, 6.278), (0.784, 0.883), (0.488, 0.491)),
    (5, 50): ((4.866, 5.497), (0.798, 0.906), (0.637, 0.653)),
}
FEWER = 20  # thousands of episodes, which both scales have
GROUPS: dict[str, Unit] = {"final distance, px": "pixels", "collision-free": "percent", "success, r + 1": "percent"}
FIGURES = ("distance", "clear", "success")
PLACES = {"control ball": "control ball: off", "white balls": "ball: off", "white balls, blindly": "ball: blind"}
WAYS = ("plain", "informed")
# Our own rows: balls, the way back from spectra, and as many plans as it takes the time of.
FOURIER: tuple[tuple[int, Way, float], ...] = (
    (1, "learned", 2.5), (1, "minimised", 4.0), (3, "refined", 3.5), (3, "minimised", 9.0)
)  # fmt: skip


def table(scale: Scale) -> Table:
    """At a scale."""
    columns = tuple(Column(way, unit, group) for group, unit in GROUPS.items() for way in ("CEM", "Aux-CEM"))
    columns += tuple(Column(name, "pixels", "imagined places, off by px") for name in PLACES)
    rows, chance = [], []
    for (balls, thousands), paper in PAPER.items():
        world = f"nball-{balls}, {thousands}K"
        there = f"{NAME}, {thousands}K" not in scale.left_out
        label = f"n = {balls}, {thousands}K episodes"
        runs = scale.trainings(NAME, world, NAME, POSITIONS, label) if there else ()
        rows.append(Row(label, _entries(runs, scale.clearance(), scale.foresight(), paper)))
        if thousands == FEWER:
            chance.append(Row(f"n = {balls}, random actions", _entries(runs, scale.clearance(), ways=("random",) * 2)))
    label = "n = 3, positions matched by frame"
    runs = scale.trainings(f"{NAME}, matched", "nball-3, 20K", NAME, MATCHED, label)
    rows.append(Row(label, _entries(runs, scale.clearance(), scale.foresight())))
    for balls, way, price in FOURIER:
        label = f"n = {balls}, Fourier head"
        runs = scale.trainings(f"{NAME}, Fourier", f"nball-{balls}, 20K", NAME, HEAD, label)
        rows.append(Row(f"{label}, boxes {way}", _entries(runs, scale.clearance(price, way), scale.foresight(way))))
    rows += chance
    measure = scale.clearance()
    notes = (
        f"Plans look {measure.horizon} steps ahead from {measure.context} frames; the paper does not say its horizon.",
        f"The price of imagined overlap is {measure.weight:g} a squared pixel; the paper does not say its own.",
        "Success: no collision on the way, and within radius + 1 pixels in the end. Starts and goals where balls touch "
        "are left out, and so are starts as near to the goal as that.",
        f"Imagined places: {measure.horizon} steps ahead, with the true actions; white balls in the order that fits "
        "best. Blindly: the better of two guesses, the middle of the frame and true places of another moment, in such "
        "an order. Ours; the paper has no such columns.",
        "The paper's head says positions; how it orders balls that look alike is not said. Ours takes the simulator's "
        "order, which no picture shows. The last rows are ours: positions that are matched, and the Fourier head, with "
        "boxes read back from spectra by a learned decoder, by one and a few steps of minimisation (refined), or by "
        "minimisation alone.",
    )
    return Table(NAME, "Plans that keep clear of other balls", "aux_cem", scale, columns, tuple(rows), notes)


def _entries(
    runs: tuple[Training, ...], measure: Clearance, foresight: Foresight | None = None,
    paper: tuple[tuple[float, float], ...] | None = None, ways: tuple[str, str] = WAYS,
) -> tuple[Entry, ...]:  # fmt: skip
    numbers = paper or ((None, None),) * len(FIGURES)
    places = tuple(Entry(runs, foresight, figure) if foresight else LEFT_OUT for figure in PLACES.values())
    plans = tuple(
        Entry(runs, measure, f"{way}: {figure}", number)
        for figure, pair in zip(FIGURES, numbers, strict=True)
        for way, number in zip(ways, pair, strict=True)
    )
    return (*plans, *places)
