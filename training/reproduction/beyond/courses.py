"""What do the courses of many trainings look like, side by side?"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from training.reproduction.beyond.course import looks
from training.reproduction.cells import Folder, Training

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 6
COLOURS = ("#d1242f", "#4b5563")
LOWEST = -0.05  # a probe may be worse than the mean by any factor: that is shown as a little below 0


def courses(rows: Sequence[tuple[str, Sequence[Training]]], folder: Folder, kinds: tuple[str, str]) -> bytes | None:
    """A panel for each row, with two kinds of objects; None if no training has been looked at yet."""
    from matplotlib.figure import Figure

    lines = -(-len(rows) // COLUMNS)
    figure = Figure(figsize=(2.3 * COLUMNS, 1.95 * lines + 0.4), layout="constrained")
    panels = figure.subplots(lines, COLUMNS, sharey=True, squeeze=False).ravel()
    found = [_panel(axes, label, runs, folder, kinds) for axes, (label, runs) in zip(panels, rows, strict=False)]
    if not any(found):
        return None
    for axes in panels[len(rows) :]:
        axes.set_axis_off()
    handles = [panels[0].plot([], color=colour, label=kind)[0] for kind, colour in zip(kinds, COLOURS, strict=True)]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False)
    file = BytesIO()
    figure.savefig(file, format="png", dpi=130)
    return file.getvalue()


def _panel(axes: Axes, label: str, runs: Sequence[Training], folder: Folder, kinds: tuple[str, str]) -> bool:
    """Draw all looks at the runs of a row; whether there was one."""
    verdicts = []
    for training in runs:
        seen = looks(folder.run(training))
        if not seen:
            continue
        verdicts.append(seen[-1]["verdict"].partition(":")[0])
        steps = [row["step"] for row in seen]
        for kind, colour in zip(kinds, COLOURS, strict=True):
            for key, style in (("probe", "-"), ("spearman", ":")):
                values = [row[key].get(kind) for row in seen]
                shown = [float("nan") if value is None else max(value, LOWEST) for value in values]
                axes.plot(steps, shown, style, color=colour, linewidth=1.3, alpha=0.85)
    axes.set_title(label, fontsize=9, loc="left", pad=15)
    axes.set_ylim(-0.08, 1.03)
    axes.set_xlim(left=0)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    words = ", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts))
    axes.text(0, 1.03, words or "not run yet", transform=axes.transAxes, fontsize=8, color="#5a606b")
    return bool(verdicts)
