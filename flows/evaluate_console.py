"""What a person sees at the terminal while a world model is judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Column, Table

from flows.console import errors, terminal
from flows.train_console import training_errors

if TYPE_CHECKING:
    from training.config import Device
    from training.dataset_format import SplitName


def judge(
    run: Path, out: Path | None, dataset: Path | None, which: str, training: bool, starts: int, device: Device
) -> None:
    """Evaluate a run, print its table and verdict, and write the page."""
    with training_errors():
        from training.devices import available
        from training.evaluation import page
        from training.evaluation.evaluate import dataset_of, evaluate
        from training.world_model import load

        model = load(run, which, available(device))
        data = dataset_of(model, dataset)
        with errors.status("opening the dataset") as status:
            split: SplitName = "train" if training else "validation"
            found, material = evaluate(model, data, run, split, status.update, starts=starts)
            status.update("drawing")
            place = page.write(found, material, out or run / "evaluation")
        _print(page.HEADINGS, page.rows(found))
        if found.success:
            _print(page.PLANS, page.tried(found))
        terminal.print(f"Error 1, 2, ... steps ahead, over that of standing still: {page.ahead(found)}")
        for note in found.notes:
            terminal.print(escape(note), soft_wrap=True)
        terminal.print(escape(found.verdict), soft_wrap=True)
        terminal.print(f"Page: {escape(str(place.resolve()))}", soft_wrap=True)


def _print(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    first, *others = headings
    table = Table(Column(first, no_wrap=True), *(Column(heading, justify="right") for heading in others))
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    terminal.print(table)
