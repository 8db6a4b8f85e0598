"""Does the auxiliary head make a world model see both balls? One white ball beside the red one, run by run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from training.reproduction.cells import Figure, Measure
from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import Column, Entry, Row, Table

if TYPE_CHECKING:
    from training.dataset import Dataset
    from training.world_model import WorldModel

NAME = "grounding"
BALLS = {"control ball": "control ball, position", "white ball": "ball, position"}
KINDS = {"with the head": HEAD, "LeWM": LEWM}
READ = 0.5  # minutes of a core


@dataclass(frozen=True, kw_only=True)
class Legibility(Measure):
    """How well does a linear map read positions off latents? R² of the coordinate, x or y, that it reads worse.

    Figures: by quantity, as `control ball, position`.
    """

    fitted: int = 50_000  # frames
    judged: int = 5_000

    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Fit on training frames, judge on held-out ones."""
        from training.evaluation.latents import encoded, quantities
        from training.evaluation.probes import Task, linear_probe

        fitted = encoded(model, dataset, "train", self.fitted)
        held_out = encoded(model, dataset, "validation", self.judged, seed=1)
        names = dataset.category_names
        known = quantities(fitted, names)
        figures = {}
        for name, there in quantities(held_out, names).items():
            if name.endswith(", position"):
                latents = fitted.latents[known[name].rows], held_out.latents[there.rows]
                task = Task(latents[0], known[name].values, latents[1], there.values)
                figures[name] = Figure(linear_probe(task).worst_r2)
        return figures


def table(scale: Scale) -> Table:
    """At a scale."""
    columns = [Column(name, "correlation", ball) for ball in BALLS for name in ("R²", "Spearman")]
    columns.append(Column("H = 4", "percent", "plans that succeed"))
    reading = Legibility(minutes=READ if scale.timed else 0.0)
    rows = []
    for label, settings in KINDS.items():
        for run in scale.trainings(NAME, "nball-1", NAME, settings, label):
            entries = [
                Entry((run,), measure, quantity)
                for quantity in BALLS.values()
                for measure in (reading, scale.correlation())
            ]
            entries.append(Entry((run,), scale.one_plan(), "plans"))
            rows.append(Row(f"{label}, seed {run.seed}", tuple(entries)))
    notes = (
        "Runs of one seed differ in the weight of the head's terms alone: steps, windows and their order, initial "
        "weights and learning rate are the same.",
        f"R²: a linear probe fitted on {reading.fitted:,} training frames, on {reading.judged:,} held-out ones, of the "
        "coordinate (x or y) that is read worse. Spearman's correlation: distances of latents and of places, over all "
        "pairs of 2,000 held-out frames.",
        "Plans look 4 steps ahead from 3 frames and end within a pixel of the goal.",
    )
    title = "What a model sees, with the head and without"
    return Table(NAME, title, "", scale, tuple(columns), tuple(rows), notes)
