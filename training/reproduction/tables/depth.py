"""Does depth in the target help in a world in space?"""

from __future__ import annotations

from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import Column, Entry, Row, Table

NAME = "depth"
PAPER = {
    "LeWM": (LEWM, 0.664),
    "BB": (HEAD, 0.704),
    "BB + log(median depth)": (("target.state=bb+depth50",), 0.696),
    "BB + log(z25) + log(z75)": (("target.state=bb+depth25-75",), 0.708),
    "BB + log(z05) + log(z95)": (("target.state=bb+depth05-95",), 0.696),
}


def table(scale: Scale) -> Table:
    """At a scale."""
    driving = scale.driving("cube")
    runs = {
        label: scale.trainings(NAME, "cube", NAME, settings, f"OG-Bench Cube, {label}")
        for label, (settings, _) in PAPER.items()
    }
    rows = [Row(label, (Entry(runs[label], driving, "plans", paper),)) for label, (_, paper) in PAPER.items()]
    chance = Row("random actions", (Entry(runs["BB"], driving, "random"),))
    columns = (Column("OG-Bench Cube", "percent"),)
    return Table(NAME, "Depth in the target", "depth_ablation", scale, columns, (*rows, chance))
