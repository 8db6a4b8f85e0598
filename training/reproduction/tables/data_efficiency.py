"""How much data does it take, with the auxiliary head and without it?"""

from __future__ import annotations

from dataclasses import replace

from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import Column, Entry, Row, Table
from training.reproduction.tables.environments import NAMES

NAME = "data-efficiency"
ITS_WORLD = "push-t"  # the paper's
FULL = (0.952, 0.912)  # the paper's numbers with all of its data; of the others it has a figure alone
JUDGED = 40  # episodes of their own
IN_THE_FIGURE = "in a figure"


def table(scale: Scale) -> Table:
    """At a scale."""
    name = scale.nested_world
    world = scale.worlds[name]
    # All are judged on the same episodes, which none of them is trained on.
    judged = replace(world, episodes=JUDGED, seed=world.seed + 1000, validation=0.95, minutes=world.minutes / 5)
    driving = scale.driving(name, on=judged)
    rows = []
    for episodes in scale.nested:
        data = replace(world, episodes=episodes, minutes=world.minutes * episodes / world.episodes)
        runs = [
            scale.trainings(NAME, name, NAME, settings, f"{episodes:,} episodes, {variant}", data)
            for settings, variant in ((HEAD, "with the head"), (LEWM, "LeWM"))
        ]
        whole = scale.name == "paper" and episodes == scale.nested[-1]
        elsewhere = "" if name == ITS_WORLD else f"{NAMES[ITS_WORLD]}, "
        paper: tuple[float | str, ...] = FULL if whole else (f"{elsewhere}{IN_THE_FIGURE}",) * 2
        entries = tuple(Entry(one, driving, "plans", number) for one, number in zip(runs, paper, strict=True))
        rows.append(Row(f"{episodes:,} episodes", entries))
    chance = Row("random actions", tuple(Entry(one, driving, "random") for one in runs))
    columns = (Column("with the head", "percent"), Column("LeWM", "percent"))
    notes = (
        f"{NAMES[name]}. Each dataset holds the smaller ones. All models are judged on the same episodes, which no one "
        "was trained on.",
        f"The paper's figure is of {NAMES[ITS_WORLD]}; with all 500,000 windows it has {100 * FULL[0]:.1f} % with the "
        f"head, {100 * FULL[1]:.1f} % without.",
    )
    return Table(NAME, "Success with less data", "fig:data-efficiency", scale, columns, (*rows, chance), notes)
