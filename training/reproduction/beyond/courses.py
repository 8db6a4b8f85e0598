"""What do the courses of many trainings look like, side by side?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from training.reproduction.beyond.course import VERDICTS, at_each_look
from training.reproduction.cells import Figure, Folder, Measure, Training

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Figures = Mapping[str, Figure]
COLUMNS = 6
COLOURS = ("#d1242f", "#4b5563")
LOWEST = -0.05  # a probe may be worse than the mean by any factor: that is shown as a little below 0


def courses(
    rows: Sequence[tuple[str, Sequence[Training]]], folder: Folder, measure: Measure, kinds: tuple[str, str]
) -> bytes | None:
    """A panel for each row that has a course, with two kinds of objects; None if no row has one yet."""
    from matplotlib.figure import Figure as Drawing

    found = [(label, [folder.figures(training, measure) or {} for training in runs]) for label, runs in rows]
    drawn = [(label, seen) for label, runs in found if (seen := [one for one in runs if _has_a_course(one, kinds)])]
    if not drawn:
        return None
    columns = min(COLUMNS, len(drawn))
    lines = -(-len(drawn) // columns)
    figure = Drawing(figsize=(2.3 * columns, 1.95 * lines + 0.4), layout="constrained")
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
    for axes, (label, runs) in zip(panels, drawn, strict=False):
        _panel(axes, label, runs, kinds)
    for axes in panels[len(drawn) :]:
        axes.set_axis_off()
    handles = [panels[0].plot([], color=colour, label=kind)[0] for kind, colour in zip(kinds, COLOURS, strict=True)]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False)
    file = BytesIO()
    figure.savefig(file, format="png", dpi=130)
    return file.getvalue()


def _panel(axes: Axes, label: str, runs: Sequence[Figures], kinds: tuple[str, str]) -> None:
    """Draw all looks at the runs of a row."""
    for figures in runs:
        for kind, colour in zip(kinds, COLOURS, strict=True):
            for name, style in (("R²", "-"), ("Spearman", ":")):
                course = at_each_look(figures, f"{kind}: {name}")
                shown = [max(value, LOWEST) for value in course.values()]
                axes.plot([*course], shown, style, color=colour, linewidth=1.3, alpha=0.85)
    axes.set_title(label, fontsize=9, loc="left", pad=15)
    axes.set_ylim(-0.08, 1.03)
    axes.set_xlim(left=0)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    said = [next((word for word in VERDICTS if figures[word].value), "grounded") for figures in runs]
    words = ", ".join(f"{said.count(word)} {word}" for word in dict.fromkeys(said))
    axes.text(0, 1.03, words, transform=axes.transAxes, fontsize=8, color="#5a606b")


def _has_a_course(figures: Figures, kinds: tuple[str, str]) -> bool:
    return any(at_each_look(figures, f"{kind}: R²") for kind in kinds)
