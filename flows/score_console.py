"""What a person sees of a score at the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Column, Table

from flows.console import plain_errors, progress_steps, terminal
from labeling.places import on_disk

if TYPE_CHECKING:
    from labeling.scoring import Figures, Scores


def score(store: Path, truth: Path, out: Path, videos: Path | None) -> None:
    """Judge labels, write page and figures, and print them; exit code 1 if a clip could not be judged."""
    with plain_errors():
        from labeling.scoring import score as judge
        from labeling.scoring.page import write_score

        folder = on_disk(out, "the score")
        with progress_steps("score") as step:
            scores = judge(store, truth, step)
            page = write_score(scores, folder, videos, step)
        _print(scores)
        for note in scores.notes:
            terminal.print(escape(note), soft_wrap=True)
        for clip, reason in scores.problems.items():
            terminal.print(f"[red]not judged[/] {escape(clip)}: {escape(reason)}", soft_wrap=True)
        terminal.print(f"Page: {escape(str(page))}", soft_wrap=True)
        sys.exit(1 if scores.problems else 0)


def _print(scores: Scores) -> None:
    """A row for each clip, and their mean; fits into 80 columns, where names are wrapped and numbers are not."""
    from labeling.scoring.figures import MEASURES

    def cells(figures: Figures) -> list[str]:
        return [MEASURES[name].text(value) for name, value in figures.values().items()]

    table = Table(
        Column("clip", footer="mean", min_width=10, overflow="fold"),
        *(
            Column(measure.heading, cell, justify="right", no_wrap=True)
            for measure, cell in zip(MEASURES.values(), cells(scores.mean), strict=True)
        ),
        box=None, padding=(0, 1, 0, 0), pad_edge=False, show_footer=True, footer_style="bold",
    )  # fmt: skip
    for clip in scores.clips:
        name = escape(clip.name) + ("" if clip.film else " [red]missing[/]")
        table.add_row(name, *cells(clip.figures))
    terminal.print(table)
