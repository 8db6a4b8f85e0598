"""What did latents hold of the objects while a model was trained?

Every so many steps training looks at held-out frames and writes down, by kind of object, how well distances follow it
(Spearman) and how well its position can be read (R² of a linear probe). `Course` makes figures of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.reproduction.cells import Figure, Measure

if TYPE_CHECKING:
    from training.dataset import Dataset
    from training.world_model import WorldModel

Looks = list[dict[str, Any]]  # rows of metrics.jsonl, in their order


@dataclass(frozen=True, kw_only=True)
class Course(Measure):
    """How a training went.

    Figures, by kind, as `control ball: R²` and `... Spearman`: at the end; `... represented`: 1 or 0, by the measure of
    the verdict; `... from`: the step from which on it was, to the end; not there if it was not. And `lazy`, 1 or 0:
    what the verdict says.
    """

    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Read the metrics of the run."""
        assert model.folder is not None
        seen = looks(model.folder)
        figures = {"lazy": Figure(float(seen[-1]["verdict"].startswith("lazy")), 1)}
        for kind in kinds(seen):
            figures[f"{kind}: R²"] = Figure(seen[-1]["probe"][kind])
            figures[f"{kind}: Spearman"] = Figure(seen[-1]["spearman"][kind])
            step = represented_from(seen, kind)
            figures[f"{kind}: represented"] = Figure(float(step is not None), 1)
            if step is not None:
                figures[f"{kind}: from"] = Figure(step)
        return figures


def looks(run: Path) -> Looks:
    """All looks at held-out frames so far."""
    from training import metrics

    return [row for row in metrics.read(run) if row["split"] == "validation" and "probe" in row]


def kinds(seen: Looks) -> list[str]:
    """Kinds of objects that could be judged each time."""
    return [kind for kind in seen[-1]["probe"] if all(row["probe"].get(kind) is not None for row in seen)]


def represented_from(seen: Looks, kind: str) -> int | None:
    """The step of the first look since which a kind has been represented; None if it was not, at the last one."""
    from training.monitors import FELT, READABLE

    since = None
    for row in seen:
        if row["probe"][kind] < READABLE or row["spearman"][kind] < FELT:
            since = None
        elif since is None:
            since = int(row["step"])
    return since
