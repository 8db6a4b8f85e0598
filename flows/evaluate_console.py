"""What a person sees at the terminal while a world model is judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Column, Table

from flows.console import errors, terminal
from flows.threads import sleeping_threads
from flows.train_console import training_errors

if TYPE_CHECKING:
    from training.config import CheckpointName, Device
    from training.evaluation.evaluate import Evaluation
    from training.evaluation.latents import Say


def judge(
    run: Path, out: Path | None, dataset: Path | None, which: CheckpointName, training: bool, starts: int | None,
    seeds: int, device: Device, flow: bool,
) -> None:  # fmt: skip
    """Evaluate a run, here or as a Prefect flow run, write the page, and print tables and verdict."""
    sleeping_threads()
    with training_errors():
        with errors.status("opening the dataset") as status:

            def say(what: str) -> None:
                status.update(escape(what))

            if flow:
                found, written = _run_flow(run, out, dataset, which, training, starts, seeds, device, say)
            else:
                from training.evaluation.run import evaluate_run

                found, written = evaluate_run(run, out, dataset, which, training, starts, device, say, seeds)
        from training.evaluation import page

        if found.knowledge:
            _print(page.HEADINGS, page.rows(found))
        if found.success:
            _print(page.PLANS, page.tried(found))
        if found.prediction:
            terminal.print(f"Error 1, 2, ... steps ahead, over that of standing still: {page.ahead(found)}")
        terminal.print(escape(page.judged(found)), soft_wrap=True)
        for note in found.notes:
            terminal.print(escape(note), soft_wrap=True)
        terminal.print(escape(found.verdict), soft_wrap=True)
        terminal.print(f"Page: {escape(str(written.resolve()))}", soft_wrap=True)


def _run_flow(
    run: Path, out: Path | None, dataset: Path | None, which: CheckpointName, training: bool, starts: int | None,
    seeds: int, device: Device, say: Say,
) -> tuple[Evaluation, Path]:  # fmt: skip
    from flows.local import prefect_here

    with prefect_here():
        from flows.evaluate_world_model import evaluate_world_model, heard_by

        with heard_by(say):
            return evaluate_world_model(run, out, dataset, which, training, starts, device, seeds)


def _print(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """In a narrow terminal names are wrapped, numbers are not."""
    first, *others = (heading.replace(" ", "\n") for heading in headings)
    names = Column(first, min_width=max(map(len, first.split("\n"))))
    numbers = [Column(heading, justify="right", no_wrap=True) for heading in others]
    table = Table(names, *numbers, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    terminal.print(table)
