"""Do distances between latents follow distances between balls, with the auxiliary head and without it?"""

from __future__ import annotations

from training.reproduction.judge import POSITIONS
from training.reproduction.scale import Scale
from training.reproduction.table import Column, Entry, Row, Table
from training.reproduction.tables import nball_success

QUANTITIES = {
    "control ball": "control ball, position", "environment balls": "ball, position", "all balls": POSITIONS
}  # fmt: skip
# Balls: with the head and without it, for each quantity.
PAPER = {
    1: ((0.431, -0.010), (0.325, 0.423), (0.506, 0.247)),
    3: ((0.405, -0.004), (0.336, 0.417), (0.476, 0.351)),
    6: ((0.380, 0.017), (0.275, 0.004), (0.377, 0.007)),
}


def table(scale: Scale) -> Table:
    """At a scale."""
    columns = tuple(Column(name, "correlation", group) for group in QUANTITIES for name in ("with the head", "LeWM"))
    measure = scale.correlation()
    rows = []
    for balls, numbers in PAPER.items():
        runs = nball_success.trainings(scale, balls)
        entries = [
            Entry(one, measure, figure, paper)
            for figure, pair in zip(QUANTITIES.values(), numbers, strict=True)
            for one, paper in zip(runs, pair, strict=True)
        ]
        rows.append(Row(f"n = {balls}", tuple(entries)))
    notes = ("Spearman's rank correlation over all pairs of 2,000 held-out frames; several balls count as one vector.",)
    return Table(
        "nball-spearman", "Latent and pixel distances in n-ball worlds", "rho_nball", scale, columns, tuple(rows), notes
    )
