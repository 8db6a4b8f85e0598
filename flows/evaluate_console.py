"""What a person sees at the terminal while a world model is judged."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Column, Table

from flows.console import errors, terminal
from flows.train_console import training_errors
from labeling.run import RunError

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
        place = _writable(out or run / "evaluation")
        with errors.status("opening the dataset") as status:
            split: SplitName = "train" if training else "validation"
            found, material = evaluate(model, data, run, split, status.update, starts=starts)
            status.update("drawing")
            written = page.write(found, material, place)
        if found.knowledge:
            _print(page.HEADINGS, page.rows(found))
        if found.success:
            _print(page.PLANS, page.tried(found))
        terminal.print(f"Error 1, 2, ... steps ahead, over that of standing still: {page.ahead(found)}")
        terminal.print(escape(page.judged(found)), soft_wrap=True)
        for note in found.notes:
            terminal.print(escape(note), soft_wrap=True)
        terminal.print(escape(found.verdict), soft_wrap=True)
        terminal.print(f"Page: {escape(str(written.resolve()))}", soft_wrap=True)


def _writable(place: Path) -> Path:
    """The folder, made; that it cannot be written to is said before the work, not after."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=place):
            return place
    except OSError as error:
        raise RunError(f"{place} cannot be written to ({error.strerror}). Choose another folder: --out.") from error


def _print(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """In a narrow terminal names are wrapped, numbers are not."""
    first, *others = (heading.replace(" ", "\n") for heading in headings)
    names = Column(first, min_width=max(map(len, first.split("\n"))))
    numbers = [Column(heading, justify="right", no_wrap=True) for heading in others]
    table = Table(names, *numbers, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    terminal.print(table)
