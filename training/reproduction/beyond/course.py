"""What did latents hold of the objects while a model was trained?

Every so many steps training looks at held-out frames and writes down, by kind of object, how well distances follow it
(Spearman) and how well its position can be read (R² of a linear probe). `Course` makes figures of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.reproduction.cells import Figure, Measure

if TYPE_CHECKING:
    from training.dataset import Dataset
    from training.world_model import WorldModel

Looks = list[dict[str, Any]]  # rows of metrics.jsonl, in their order
SEEN = {"R²": "probe", "Spearman": "spearman"}  # and what they are called there
AT = " at "  # between the name of a figure and its step
VERDICTS = ("collapsed", "lazy")  # neither: grounded


@dataclass(frozen=True, kw_only=True)
class Course(Measure):
    """How a training went.

    Figures, by kind, as `control ball: R²` and `... Spearman`: at the end; `... R² at 300`, ...: at each look; `...
    represented`: 1 or 0, by the measure of the verdict; `... from`: the step from which on it was, to the end; `...
    felt from`: the step from which on distances followed it at all; either is not there if it was not so at the end.
    And `collapsed` and `lazy`, 1 or 0: what the verdict says.
    """

    version = 2

    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Read the metrics of the run."""
        assert model.folder is not None
        seen = looks(model.folder)
        figures = {word: Figure(float(seen[-1]["verdict"].startswith(word)), 1) for word in VERDICTS}
        for kind in kinds(seen):
            for name, key in SEEN.items():
                figures |= {f"{kind}: {name}{AT}{row['step']}": Figure(row[key][kind]) for row in seen}
                figures[f"{kind}: {name}"] = Figure(seen[-1][key][kind])
            felt, represented = felt_from(seen, kind), represented_from(seen, kind)
            figures[f"{kind}: represented"] = Figure(float(represented is not None), 1)
            for name, step in (("from", represented), ("felt from", felt)):
                if step is not None:
                    figures[f"{kind}: {name}"] = Figure(step)
        return figures


def at_each_look(figures: Mapping[str, Figure], name: str) -> dict[int, float]:
    """A figure by the step at which it was looked at; nothing where only the end was kept."""
    begin = f"{name}{AT}"
    steps = {int(key.removeprefix(begin)): one.value for key, one in figures.items() if key.startswith(begin)}
    return dict(sorted(steps.items()))


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

    return _since((row["step"], row["probe"][kind] >= READABLE and row["spearman"][kind] >= FELT) for row in seen)


def felt_from(seen: Looks, kind: str) -> int | None:
    """The step of the first look since which distances between latents have followed a kind."""
    from training.monitors import FELT

    return _since((row["step"], row["spearman"][kind] >= FELT) for row in seen)


def _since(looks: Iterable[tuple[int, bool]]) -> int | None:
    since = None
    for step, holds in looks:
        since = (step if since is None else since) if holds else None
    return since
