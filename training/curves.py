"""How did training go, at a glance?

Reads a run's `metrics.jsonl` and draws `curves.png`: loss terms, what keeps latents apart, and for each category how
well distances follow it and how well its position can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.metrics import read

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "curves.png"
LOWEST = -0.05
TERMS = {
    "prediction": "next latent", "regularizer": "regularizer", "encoded": "boxes, encoded",
    "predicted": "boxes, predicted",
}  # fmt: skip
Rows = Sequence[dict[str, Any]]


def draw(run: Path) -> Path:
    """Write the picture of a run; its path."""
    from matplotlib.figure import Figure

    rows = read(run)
    training = [row for row in rows if row["split"] == "train"]
    validation = [row for row in rows if row["split"] == "validation"]
    figure = Figure(figsize=(12, 7.5), layout="constrained")
    (loss, spread), (distance, position) = figure.subplots(2, 2, sharex=True)
    _losses(loss, training, validation)
    _lines(spread, validation, {"rank": "rank", "sigreg": "SIGReg statistic"})
    spread.set_title("latents of held-out frames")
    spread.set_yscale("log")
    for axes, key, title in (
        (distance, "spearman", "Spearman: latent distance against box distance"),
        (position, "probe", "R² of box positions, linear probe"),
    ):
        names = list(validation[-1][key]) if validation else []
        for name in names:
            values = [row[key].get(name) for row in validation]
            # A probe may be worse than the mean by any factor: that is shown as a little below 0.
            _line(axes, validation, [None if value is None else max(value, LOWEST) for value in values], name)
        axes.set_title(title)
        axes.set_ylim(-0.1, 1.05)
        axes.set_xlabel("step")
    for axes in (loss, spread, distance, position):
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    if validation:
        figure.suptitle(f"step {validation[-1]['step']}: {validation[-1]['verdict']}", fontsize=10)
    draft = run / f".{FILE}"
    figure.savefig(draft, format="png", dpi=100)
    draft.replace(run / FILE)
    return run / FILE


def _losses(axes: Axes, training: Rows, validation: Rows) -> None:
    """Each term in one colour: a line for training, dots for validation."""
    for number, (key, name) in enumerate(TERMS.items()):
        if any(row[key] for row in training):
            axes.plot([row["step"] for row in training], [row[key] for row in training], f"C{number}", lw=1, label=name)
            axes.plot([row["step"] for row in validation], [row[key] for row in validation], f"C{number}o", ms=3)
    axes.set_yscale("log")
    axes.set_title("terms of the loss (dots: validation)")


def _lines(axes: Axes, rows: Rows, names: dict[str, str]) -> None:
    for key, name in names.items():
        _line(axes, rows, [row[key] for row in rows], name)


def _line(axes: Axes, rows: Rows, values: Sequence[float | None], name: str) -> None:
    known = [(row["step"], value) for row, value in zip(rows, values, strict=True) if value is not None]
    if known:
        axes.plot(*zip(*known, strict=True), "o-", ms=3, lw=1, label=name)
