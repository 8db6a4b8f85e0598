"""How do plans succeed in worlds other than n-ball, and do latents follow the objects there?"""

from __future__ import annotations

from training.reproduction.cells import Training
from training.reproduction.judge import POSITIONS
from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import Column, Entry, Row, Table

NAME = "environments"
NAMES = {"push-t": "Push-T", "two-room": "Two Room", "reacher": "Reacher", "cube": "OG-Bench Cube"}
# Success with the head and without it, Spearman with the head and without it.
PAPER = {
    "push-t": ((0.952, 0.912), (0.144, 0.138)),
    "two-room": ((0.860, 0.840), (0.425, 0.410)),
    "reacher": ((0.896, 0.848), (0.008, 0.010)),
    "cube": ((0.700, 0.664), (0.003, 0.020)),
}


def trainings(scale: Scale, world: str) -> list[tuple[Training, ...]]:
    """The models of a world, with the head and without it."""
    variants = ((HEAD, "with the head"), (LEWM, "LeWM"))
    return [scale.trainings(NAME, world, NAME, one, f"{NAMES[world]}, {name}") for one, name in variants]


def table(scale: Scale) -> Table:
    """At a scale."""
    columns = (
        Column("with the head", "percent", "success"), Column("LeWM", "percent", "success"),
        Column("with the head", "correlation", "Spearman"), Column("LeWM", "correlation", "Spearman"),
    )  # fmt: skip
    rows = []
    for world, (success, spearman) in PAPER.items():
        runs = trainings(scale, world)
        driving, distances = scale.driving(world), scale.correlation()
        entries = [Entry(one, driving, "plans", paper) for one, paper in zip(runs, success, strict=True)]
        entries += [Entry(one, distances, POSITIONS, paper) for one, paper in zip(runs, spearman, strict=True)]
        rows.append(Row(NAMES[world], tuple(entries)))
        chance = [Entry(one, driving, "random") for one in runs]
        rows.append(Row(f"{NAMES[world]}, random actions", (*chance, Entry(), Entry())))
    notes = (
        "Success: the goal, 25 actions away in a recorded episode, is reached within 50 actions. Starts are held-out; "
        "the paper's are not said to be.",
        "Spearman: of the positions of all objects that move, as one vector; the paper does not say of what.",
    )
    title = "Success and latent distances in other worlds"
    return Table(NAME, title, "horizon_success", scale, columns, tuple(rows), notes)
