"""How did training go, at a glance?

Reads a run's `metrics.jsonl` and draws `curves.png`: loss terms, what keeps latents apart, and for each category how
well distances follow it and how well its position can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from labeling.files import write_whole
from training.metrics import read

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = "curves.png"
LOWEST = -0.05
COLUMNS = 4  # names in a row of a legend
TERMS = {
    "prediction": ("next latent", "C0"), "regularizer": ("regularizer", "C7"), "encoded": ("boxes, encoded", "C1"),
    "predicted": ("boxes, predicted", "C3"),
}  # fmt: skip
SPREAD = {"rank": ("rank", "C2"), "sigreg": ("SIGReg statistic", "C7")}
Rows = Sequence[dict[str, Any]]


def draw(run: Path) -> Path:
    """Write the picture of a run; its path."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter

    rows = read(run)
    training = [row for row in rows if row["split"] == "train"]
    validation = [row for row in rows if row["split"] == "validation"]
    figure = Figure(figsize=(10, 6.6), layout="constrained")
    (loss, spread), (distance, position) = figure.subplots(2, 2, sharex=True)
    _losses(loss, training, validation)
    for key, (name, colour) in SPREAD.items():
        _line(spread, validation, [row[key] for row in validation], name, colour)
    for axes, key in ((distance, "spearman"), (position, "probe")):
        for number, name in enumerate(validation[-1][key] if validation else ()):
            values = [row[key].get(name) for row in validation]
            # A probe may be worse than the mean by any factor: that is shown as a little below 0.
            shown = [None if value is None else max(value, LOWEST) for value in values]
            _line(axes, validation, shown, as_it_is(name), f"C{number}")
        axes.set_ylim(-0.08, 1.03)
        axes.set_xlabel("step")
    for axes in (loss, spread):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1, 0.4)))
    known = bool(validation) and validation[-1].get("judged_on") == "train"  # no episode is held out
    _frame(loss, f"Terms of the loss (line: training, dots: {'a sample of it' if known else 'validation'})")
    _frame(spread, f"Latents of {'training' if known else 'held-out'} frames: are they spread out?")
    _frame(distance, "Do distances of latents follow distances of boxes? (Spearman)")
    _frame(position, "Can positions be read off linearly? (R² of a probe)")
    if validation:
        verdict = f"step {validation[-1]['step']}: {validation[-1]['verdict']}"
        figure.suptitle(as_it_is(fill(verdict, 110)), fontsize=10, x=0.01, ha="left", weight="bold")
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=100)
    return write_whole(run / FILE, drawn.getvalue())


def as_it_is(text: str) -> str:
    """A name for matplotlib, which else reads formulas between dollars and leaves `_name` out of legends."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _losses(axes: Axes, training: Rows, validation: Rows) -> None:
    """Each term in one colour: a line for training, dots for validation."""
    for key, (name, colour) in TERMS.items():
        if any(row[key] for row in training):
            axes.plot([row["step"] for row in training], [row[key] for row in training], colour, lw=1.2, label=name)
            axes.plot([row["step"] for row in validation], [row[key] for row in validation], "o", color=colour, ms=4)


def _line(axes: Axes, rows: Rows, values: Sequence[float | None], name: str, colour: str) -> None:
    known = [(row["step"], value) for row, value in zip(rows, values, strict=True) if value is not None]
    if known:
        axes.plot(*zip(*known, strict=True), "o-", color=colour, ms=4, lw=1.2, label=name)


def _frame(axes: Axes, title: str) -> None:
    """Title on the left, names of the lines in a row below it, nothing over the curves."""
    names = len(axes.get_legend_handles_labels()[0])
    rows = -(-names // COLUMNS)
    axes.set_title(title, fontsize=9.5, loc="left", pad=8 + 12 * rows)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)
    if names:
        axes.legend(
            loc="lower left", bbox_to_anchor=(-0.01, 0.99), ncols=COLUMNS, fontsize=8, frameon=False,
            handlelength=1.2, columnspacing=1.2, borderaxespad=0.2,
        )  # fmt: skip
