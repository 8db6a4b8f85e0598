"""What the tables share that compare variants of the auxiliary head: success in Push-T, Cube and with three balls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from training.reproduction.cells import Training
from training.reproduction.scale import Scale
from training.reproduction.table import LEFT_OUT, Column, Entry, Row, Table

WORLDS = {"push-t": "Push-T", "cube": "OG-Bench Cube", "nball-3": "3-Balls (H = 4)"}


@dataclass(frozen=True)
class Variant:
    """A row: settings, and the paper's success in each of the worlds; None: it has no such number, nor have we."""

    label: str
    settings: tuple[str, ...]
    paper: tuple[float | None, float | None, float | None]


def ablation(
    scale: Scale, name: str, title: str, source: str, variants: Sequence[Variant], more: Sequence[Row] = (),
    notes: Sequence[str] = (),
) -> Table:  # fmt: skip
    """A table of variants; rows of ours may follow."""
    rows = [Row(variant.label, tuple(_entry(scale, name, variant, world) for world in WORLDS)) for variant in variants]
    chance = tuple(
        Entry(_trainings(scale, name, variants[0], world), scale.success(world), "random") for world in WORLDS
    )
    columns = tuple(Column(heading, "percent") for heading in WORLDS.values())
    notes = ("3-Balls: plans start from 3 frames and look 4 steps ahead.", *notes)
    return Table(name, title, source, scale, columns, (*rows, *more, Row("random actions", chance)), tuple(notes))


def with_three_balls(scale: Scale, seeds: str, label: str, settings: tuple[str, ...]) -> Row:
    """A row of ours, in the world of three balls alone; `seeds` names those that are declared for it."""
    runs = scale.trainings(seeds, "nball-3", "nball", settings, f"3-Balls, {label}")
    return Row(label, (LEFT_OUT, LEFT_OUT, Entry(runs, scale.one_plan(), "plans")))


def _entry(scale: Scale, table: str, variant: Variant, world: str) -> Entry:
    paper = variant.paper[list(WORLDS).index(world)]
    if paper is None:
        return LEFT_OUT
    return Entry(_trainings(scale, table, variant, world), scale.success(world), "plans", paper)


def _trainings(scale: Scale, table: str, variant: Variant, world: str) -> tuple[Training, ...]:
    budget = "nball" if world.startswith("nball") else "ablation"
    return scale.trainings(table, world, budget, variant.settings, f"{WORLDS[world]}, {variant.label}")
