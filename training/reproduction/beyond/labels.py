"""Are the labels of our own labeler as good for training as true boxes?

The same episodes, three times: with the simulator's boxes, with those that the labeler finds in videos of them, and
without the head, which needs none. All models are judged by the simulator's true state.
"""

from __future__ import annotations

from dataclasses import replace

from training.reproduction.beyond.label_quality import LabelQuality
from training.reproduction.beyond.labeled import Labeled
from training.reproduction.cells import Data, Measure, Simulated, Training
from training.reproduction.judge import EVERYTHING, POSITIONS
from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import LEFT_OUT, Column, Entry, Row, Table

NAME = "labels"
# World: its title, what actions move, and what moves by itself.
WORLDS = {
    "nball-1": ("n = 1", "control ball, position", "ball, position"),
    "nball-3": ("n = 3", "control ball, position", "ball, position"),
    "two-room": ("Two Room", "agent, position", ""),
}
PROBES = ("linear", "network")
QUALITY = {"HOTA": "HOTA", "edges": "edges", "right kind": "kinds"}
# Seconds of one core: a video, each of its frames at 64 x 64, and the comparison with true boxes.
VIDEO, FRAME, COMPARED = 0.3, 0.004, 10.0


def table(scale: Scale) -> Table:
    """At a scale."""
    columns = (
        Column("plans", "percent", "success"),
        *(Column(name, "correlation", "Spearman") for name in ("controlled", "others", "all")),
        *(
            Column(name, "correlation", f"{probe} probe, r")
            for probe in PROBES
            for name in ("controlled", "others", "all")
        ),
        Column("HOTA", "correlation", "labels"), Column("edges", "error", "labels"),
        Column("right kind", "percent", "labels"),
    )  # fmt: skip
    rows = [row for world in WORLDS for row in _rows(scale, world)]
    notes = (
        "Our labels: those of the embedded profile with its default settings, from videos of the episodes, without "
        "masks, names or prompts. Frames, actions and the held-out episodes are the same in all rows of a world.",
        "Success, Spearman and probes are judged by the simulator's true state on held-out episodes. Balls: plans of 4 "
        "steps from 3 frames; Two Room: goals 25 actions away, within 50.",
        "Controlled: the red ball, or the agent; others: white balls; all: as one vector.",
        "Labels of held-out episodes against true boxes. Edges: mean distance of an edge from the true one, as a share "
        "of the image width. Right kind: matching boxes whose category stands mostly for their kind of object.",
    )
    title = "Labels of our own in the place of true boxes"
    return Table(NAME, title, "", scale, columns, tuple(rows), notes)


def _rows(scale: Scale, world: str) -> list[Row]:
    title, controlled, others = WORLDS[world]
    true = scale.worlds[f"{NAME}, {world}"]
    ours = Labeled(true, _minutes(scale, true))
    variants: tuple[tuple[str, str, tuple[str, ...], Data], ...] = (
        ("true boxes", NAME, HEAD, true), ("our labels", NAME, HEAD, ours), ("LeWM", f"{NAME}, LeWM", LEWM, true),
    )  # fmt: skip
    budget = f"{NAME}, two-room" if world == "two-room" else NAME
    success = replace(scale.success(world), on=true)
    distances = replace(scale.correlation(), on=true)
    probing = replace(scale.probing(3 if others else 1), on=true)
    quality = LabelQuality(minutes=COMPARED / 60 if scale.timed else 0.0)
    rows = []
    for name, seeds, settings, data in variants:
        runs = scale.trainings(seeds, world, budget, settings, f"{title}, {name}", data)
        asked: list[tuple[Measure, str]] = [(success, "plans")]
        asked += [(distances, figure) for figure in (controlled, others, POSITIONS)]
        asked += [
            (probing, figure and f"{figure}: {probe} r")
            for probe in PROBES
            for figure in (controlled, others, EVERYTHING)
        ]
        entries = [Entry(runs, measure, figure) if figure else LEFT_OUT for measure, figure in asked]
        told = [Entry(runs[:1], quality, figure) for figure in QUALITY.values()]
        rows.append(Row(f"{title}, {name}", (*entries, *(told if data is ours else (LEFT_OUT,) * len(told)))))
        chance: tuple[Training, ...] = runs
    floor = (Entry(chance, success, "random"), *(LEFT_OUT,) * (len(rows[0].entries) - 1))
    return [*rows, Row(f"{title}, random actions", floor)]


def _minutes(scale: Scale, world: Simulated) -> float:
    """To film and label it."""
    seconds = world.episodes * (VIDEO + world.frames * FRAME)
    return seconds / 60 if scale.timed else 0.0
