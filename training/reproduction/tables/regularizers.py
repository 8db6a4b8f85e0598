"""What keeps latents from collapsing, and what makes them see? Three regularizers, without and with the head."""

from __future__ import annotations

from training.reproduction.judge import POSITIONS
from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import Column, Entry, Row, Table

NAME = "regularizers"
FIGURES = ("rank", "spread", "control ball, position", "ball, position", POSITIONS)
VISREG = ("objective.regularizer=visreg",)
STRONGER = 0.6  # weight of VISReg in its own repository, or more
# Settings, and what the paper says: words of its figures, and the numbers that it has in other tables.
PAPER: dict[str, tuple[tuple[str, ...], tuple[float | str | None, ...]]] = {
    "none, LeWM": (("objective.regularizer=none", *LEWM), ("fails", None, "collapsed", None, None, None)),
    "none, with the head": (("objective.regularizer=none", *HEAD), (None,) * 6),
    "SIGReg, LeWM": (LEWM, (0.011, None, None, -0.010, 0.423, 0.247)),
    "SIGReg, with the head": (HEAD, (0.924, None, None, 0.431, 0.325, 0.506)),
    "VISReg, LeWM": ((*VISREG, *LEWM), ("fails", None, None, "ignored", "seen", None)),
    "VISReg, with the head": ((*VISREG, *HEAD), ("worse than SIGReg", None, None, None, None, None)),
    f"VISReg × {STRONGER}, LeWM": ((*VISREG, f"objective.regularizer_weight={STRONGER}", *LEWM), (None,) * 6),
    f"VISReg × {STRONGER}, with the head": (
        (*VISREG, f"objective.regularizer_weight={STRONGER}", *HEAD), (None,) * 6
    ),
}  # fmt: skip


def table(scale: Scale) -> Table:
    """At a scale."""
    columns = (
        Column("H = 4", "percent", "success"), Column("rank", "count", "latents"),
        Column("spread", "error", "latents"),
        Column("control ball", "correlation", "Spearman"), Column("environment ball", "correlation", "Spearman"),
        Column("both", "correlation", "Spearman"),
    )  # fmt: skip
    rows = []
    for label, (settings, paper) in PAPER.items():
        runs = scale.trainings(NAME, "nball-1", NAME, settings, f"n = 1, {label}")
        entries = [Entry(runs, scale.one_plan(), "plans", paper[0])]
        entries += [
            Entry(runs, scale.correlation(), figure, number) for figure, number in zip(FIGURES, paper[1:], strict=True)
        ]
        rows.append(Row(label, tuple(entries)))
    notes = (
        "n = 1, plans from 3 frames. Rank: directions that latents vary in, at most 128. Spread: standard deviation of "
        "a component of latents, about 1 with SIGReg; where it is near 0 they collapsed, whatever their rank.",
        "The paper shows these in figures, without numbers; those of SIGReg are from its other tables.",
        f"VISReg's weight is 0.09, as the paper has it; the last rows have {STRONGER}, as its own repository.",
    )
    title, source = "Regularizers, without and with the head", "fig:placeholder, fig:appendix-2row"
    return Table(NAME, title, source, scale, columns, tuple(rows), notes)
