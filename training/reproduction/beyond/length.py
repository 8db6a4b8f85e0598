"""Does the auxiliary head pay off with three white balls when training is longer?"""

from __future__ import annotations

from training.reproduction.cells import Training
from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import Column, Entry, Row, Table

NAME = "length"
BALLS = 3
# What is trained: seeds and length are those that are declared for these tables; the first runs are theirs.
LENGTHS = {"n = 3": ("nball-success", "nball"), "longer": (NAME, NAME)}
KINDS = {"with the head": HEAD, "LeWM": LEWM}
DISTANCES = {"Spearman, control ball": "control ball, position", "Spearman, white balls": "ball, position"}


def table(scale: Scale) -> Table:
    """At a scale."""
    columns = [Column(kind, "percent", "plans that succeed") for kind in KINDS]
    columns += [Column(kind, "correlation", group) for group in DISTANCES for kind in KINDS]
    rows = []
    for label, (seeds, budget) in LENGTHS.items():
        runs = [
            scale.trainings(seeds, f"nball-{BALLS}", budget, settings, f"{label}, {kind}")
            for kind, settings in KINDS.items()
        ]
        entries = [Entry(one, scale.one_plan(), "plans") for one in runs]
        entries += [Entry(one, scale.correlation(), what) for what in DISTANCES.values() for one in runs]
        rows.append(Row(_how_long(runs[0][0]), tuple(entries)))
    chance = [Entry(one, scale.one_plan(), "random") for one in runs]
    rows.append(Row("random actions", (*chance, *[Entry()] * (len(columns) - len(chance)))))
    notes = (
        "Plans look 4 steps ahead from 3 frames and end within a pixel of the goal.",
        "White balls: of each by itself, in the simulator's order, as in `nball-spearman`.",
    )
    title = f"{BALLS} white balls, trained longer"
    return Table(NAME, title, "", scale, tuple(columns), tuple(rows), notes)


def _how_long(training: Training) -> str:
    config = training.config()
    return f"{config.steps:,} steps" if config.steps else f"{config.epochs} epochs"
