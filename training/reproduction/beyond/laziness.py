"""In which n-ball worlds does a model without the auxiliary head ignore the ball that actions move?

A base world, and around it worlds and trainings that differ in one thing each. All are plain LeWM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from training.reproduction.beyond.course import Course
from training.reproduction.beyond.courses import courses
from training.reproduction.cells import Folder, Simulated
from training.reproduction.scale import LEWM, Scale
from training.reproduction.table import Column, Entry, Picture, Row, Table, Unit

NAME = "laziness"
BASE = "base"
CONTROL, OTHERS = "control ball", "ball"
FIGURES: dict[str, tuple[Unit, str]] = {  # by column
    "felt from step": ("steps", "felt from"), "represented": ("percent", "represented"), "from step": ("steps", "from"),
    "R²": ("correlation", "R²"), "Spearman": ("correlation", "Spearman"),
}  # fmt: skip
HELD_OUT = 182  # episodes, as many as of the whole dataset
LOOKED = 0.75  # minutes of a core, for the looks at held-out frames
AS_NOISE = ("model.encoder.waves=0",)  # how learned positions begin in LeWM's code
AS_WAVES = ("model.encoder.waves=0.5",)  # and in our presets
Options = tuple[tuple[str, int | float], ...]


@dataclass(frozen=True)
class Level:
    """What one row changes about the base."""

    label: str
    options: Options = ()  # of the world
    settings: tuple[str, ...] = ()  # of training
    episodes: int = 0  # to train on; 0: all


LEVELS = (
    Level(BASE),
    Level("positions begin as half a wave", settings=AS_WAVES),
    Level("3 white balls", (("balls", 3),)),
    Level("6 white balls", (("balls", 6),)),
    Level("slow: 0.3 to 1 px a step", (("slowest", 0.3), ("fastest", 1.0))),
    Level("fast: 3 to 6 px a step", (("slowest", 3.0), ("fastest", 6.0))),
    Level("small: radius 2", (("radius", 2.0),)),
    Level("large: radius 8", (("radius", 8.0),)),
    Level("control ball white as well", (("control_colour", 0xFFFFFF),)),
    Level("control ball dark red", (("control_colour", 0x400000),)),
    Level("actions up to 1 px", (("longest", 1.0), ("spread", 0.67))),
    Level("actions up to 6 px", (("longest", 6.0), ("spread", 4.0))),
    Level("slips of 1 px", (("slip", 1.0),)),
    Level("slips of 3 px", (("slip", 3.0),)),
    Level("364 episodes", episodes=364),
    Level("36 episodes", episodes=36),
)


def table(scale: Scale) -> Table:
    """At a scale."""
    columns = tuple(
        Column(name, unit, group) for group in (CONTROL, "white balls") for name, (unit, _) in FIGURES.items()
    )
    measure = Course(minutes=LOOKED if scale.timed else 0.0)
    rows = tuple(_row(scale, level, measure) for level in LEVELS)
    world = scale.worlds["nball-1"]
    notes = (
        f"Base: one white ball, 1 to 3 px a step; radius 4; actions up to 3 px; {world.episodes:,} episodes; learned "
        "positions of the encoder's patches begin as small noise, as in LeWM's code.",
        "Each other row differs from the base in what it says. No model has the auxiliary head.",
        "Felt: a Spearman of at least 0.1 on held-out frames, from that step to the end, mean over the seeds where it "
        "was so. A control ball that is not felt is what the paper calls lazy.",
        "Represented: an R² of at least 0.75 and a Spearman of at least 0.1 on held-out frames, as in the verdict; the "
        "share of the seeds, at the end. From step: since when that was so, mean over the seeds where it was.",
        "Several white balls count by their mean place in R², as a set in Spearman: what R² asks of them is less.",
        "Slips: what the world adds to an action, without telling. Where the control ball is white as well, no frame "
        "by itself says which one it is.",
    )
    caption = "R² (line) and Spearman (dotted) on held-out frames over training steps, a line for each seed."
    drawn = [(row.label, row.entries[0].trainings) for row in rows if row.entries[0].trainings]
    picture = Picture(lambda folder: courses(drawn, folder, measure, (CONTROL, OTHERS)), caption)
    title = "Where a model without the head is lazy"
    return Table(NAME, title, "", scale, columns, rows, notes, lambda folder: found(rows, folder), picture)


def found(rows: Sequence[Row], folder: Folder) -> list[str]:
    """Where the control ball is felt and represented in the end; of rows that are done with all of their seeds."""
    lines = []
    for word, figure in (("felt", "felt from"), ("represented", "from")):
        seen: dict[str, list[str]] = {"every seed": [], "some seeds": [], "no seed": []}
        for row in rows:
            entry = row.entries[0]
            taken = [folder.figures(run, entry.measure) for run in entry.trainings if entry.measure]
            so = [f"{CONTROL}: {figure}" in figures for figures in taken if figures]
            if so and len(so) == len(taken):
                seen["every seed" if all(so) else "some seeds" if any(so) else "no seed"].append(row.label)
        lines += [f"The control ball is {word} with {who}: {'; '.join(rows)}." for who, rows in seen.items() if rows]
    return lines


def _row(scale: Scale, level: Level, measure: Course) -> Row:
    data = _world(scale.worlds["nball-1"], level)
    settings = level.settings or AS_NOISE
    runs = scale.trainings(NAME, level.label, NAME, (*LEWM, *settings), level.label, data)
    entries = [
        Entry(runs, measure, f"{ball}: {figure}", absent="never")
        for ball in (CONTROL, OTHERS)
        for _, figure in FIGURES.values()
    ]
    return Row(level.label, tuple(entries))


def _world(base: Simulated, level: Level) -> Simulated:
    options = tuple(sorted((dict(base.options) | dict(level.options)).items()))
    if not level.episodes:
        return replace(base, options=options)
    # As many are held out as of the base, for all are judged by such.
    episodes = level.episodes + HELD_OUT
    return replace(base, options=options, episodes=episodes, validation=HELD_OUT / episodes)
