"""How often do plans succeed in n-ball worlds, with the auxiliary head and without it?"""

from __future__ import annotations

from training.reproduction.cells import Training
from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import Column, Entry, Row, Table

NAME = "nball-success"
HORIZONS = (4, 6, 8)
# Balls: with the head and without it, for each horizon.
PAPER = {
    1: ((0.924, 0.011), (0.787, 0.002), (0.621, 0.000)),
    3: ((0.812, 0.027), (0.594, 0.008), (0.294, 0.000)),
    6: ((0.672, 0.019), (0.437, 0.001), (0.130, 0.004)),
}


def table(scale: Scale) -> Table:
    """At a scale."""
    columns = tuple(
        Column(name, "percent", f"H = {horizon}") for horizon in HORIZONS for name in ("with the head", "LeWM")
    )
    rows = [row for balls in PAPER for row in _rows(scale, balls)]
    notes = (
        "Success: after H actions of one plan the red ball is within a pixel of its place in the goal.",
        "The paper does not say how many frames a plan starts from: both are shown, beside the same numbers of its.",
        "Random actions start where the plans with 3 frames do.",
    )
    return Table(NAME, "Planning success in n-ball worlds", "horizon_success_nball", scale, columns, tuple(rows), notes)


def trainings(scale: Scale, balls: int) -> tuple[tuple[Training, ...], tuple[Training, ...]]:
    """With the head and without it; other tables look at the same ones."""
    budget = "nball-1" if balls == 1 else "nball"
    head, plain = (
        scale.trainings(NAME, f"nball-{balls}", budget, settings, f"n = {balls}, {name}")
        for settings, name in ((HEAD, "with the head"), (LEWM, "LeWM"))
    )
    return head, plain


def _rows(scale: Scale, balls: int) -> list[Row]:
    runs = trainings(scale, balls)
    rows = []
    for seen, words in ((3, "3 frames"), (1, "1 frame")):
        entries = []
        for horizon, numbers in zip(HORIZONS, PAPER[balls], strict=True):
            there = f"{NAME}, {words}, H = {horizon}" not in scale.left_out
            measure = scale.one_plan(horizon, seen)
            entries += [
                Entry(one if there else (), measure, "plans", paper) for one, paper in zip(runs, numbers, strict=True)
            ]
        rows.append(Row(f"n = {balls}, {words} seen", tuple(entries)))
    chance = [Entry(one, scale.one_plan(horizon, 3), "random") for horizon in HORIZONS for one in runs]
    return [*rows, Row(f"n = {balls}, random actions", tuple(chance))]
