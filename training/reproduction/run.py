"""How does a table come about?

`Reproduction` runs the cells of a table, each in a process of its own, and writes the page. A run that was stopped goes
on: datasets, checkpoints and figures that are there are not made again. A cell that fails does not stop the others; the
page says why, and the next run tries it again.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from training.config import Device, TrainError, differences
from training.reproduction.cells import Cell, Data, Folder, Times
from training.reproduction.jobs import STOPPED, Hear, Job, Jobs, in_a_line
from training.reproduction.table import Table, side_by_side

TELL_EVERY = 1.0  # seconds


class Listener:
    """Hears how a table is getting on, from several threads."""

    def planned(self, jobs: int) -> None:
        """So many datasets and cells are left."""

    def at(self, job: str, what: str) -> None:
        """A job got so far."""

    def finished(self, job: str, failure: str) -> None:
        """A job is done, or failed."""


class Reproduction:
    """One table in one folder, which may hold other tables as well."""

    def __init__(
        self, table: Table, out: Path, device: Device = "auto", listener: Listener | None = None, only: str = ""
    ) -> None:
        self.table, self.folder, self.device = table, Folder(Path(out)), device
        self.listener, self._jobs = listener or Listener(), Jobs()
        self.chosen = [cell for cell in table.cells if only.lower() in cell.label.lower()]
        if table.cells and not self.chosen:
            raise TrainError(f"no cell of {table.name} has {only!r} in its name. `--dry-run` lists them.")

    @property
    def cells(self) -> list[Cell]:
        """Those of the chosen ones that are left, the longest first."""
        return [cell for cell in self.chosen if self.folder.left(cell)]

    @property
    def data(self) -> list[Data]:
        """The datasets that they need and that are not there, the longest first."""
        needed = {data for cell in self.cells for data in cell.data}
        return [data for data in self.table.data if data in needed and not self.folder.dataset(data).exists()]

    def minutes(self, workers: int) -> float:
        """How long the rest takes, as declared; what a stopped training has behind it is not counted off."""
        if not self.table.scale.timed:
            return 0.0
        return side_by_side([one.minutes for one in self.data], workers) + side_by_side(
            [cell.minutes for cell in self.cells], workers
        )

    def make(self, data: Data, workers: int = 1) -> str:
        """Make a dataset, with up to so many processes; the reason if that fails."""
        return self._alone(data.name, _make, data, workers)

    def lacks(self, cell: Cell, made: Mapping[Data, str]) -> str:
        """Why one of a cell's datasets could not be made; empty if they are all there."""
        return next((made[data] for data in cell.data if made.get(data)), "")

    def run(self, cell: Cell, lacks: str = "") -> str:
        """Train and judge; the reason if that fails, which may be that it `lacks` a dataset."""
        self.folder.fail(cell.training, lacks)
        if lacks:
            self.listener.finished(cell.label, lacks)
            return lacks
        reason = self._alone(cell.label, _train_and_judge, cell, self.device)
        if reason not in ("", STOPPED) and not self.folder.failure(cell.training):  # killed, it could not write it down
            self.folder.fail(cell.training, reason)
        return reason

    def stop(self) -> None:
        """End what is running; the next run goes on from there."""
        self._jobs.stop()

    def write(self) -> Path:
        """The page as things stand."""
        from training.reproduction.page import write

        return write(self.table, self.folder)

    def _alone(self, name: str, job: Job, *arguments: object) -> str:
        reason = self._jobs.do(
            job, (self.folder, *arguments), lambda what: self.listener.at(name, what), self.table.scale.threads
        )
        self.listener.finished(name, reason)
        return reason


def reproduce(
    table: Table, out: Path, workers: int = 2, device: Device = "auto", listener: Listener | None = None, only: str = ""
) -> dict[str, str]:
    """Run what is left of a table, so many cells side by side; why cells failed, by their label.

    `only` chooses the cells that have this text in their label, small or capital.
    """
    this = Reproduction(table, out, device, listener, only)
    cells, data = this.cells, this.data
    this.listener.planned(len(cells) + len(data))
    failures: dict[str, str] = {}
    with ThreadPoolExecutor(workers) as pool:
        try:
            make = partial(this.make, workers=shared(workers, len(data)))
            made = dict(zip(data, pool.map(make, data), strict=True))
            running = {pool.submit(this.run, cell, this.lacks(cell, made)): cell for cell in cells}
            for future in as_completed(running):
                if reason := future.result():
                    failures[running[future].label] = reason
                this.write()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            this.stop()
            raise
    this.write()
    return failures


def shared(workers: int, jobs: int) -> int:
    """How many processes each of so many jobs may have."""
    return max(1, workers // max(1, jobs))


def _make(folder: Folder, data: Data, workers: int, hear: Hear) -> None:
    hear("making the dataset")
    folder.make(data, workers, lambda done, of: hear(f"making the dataset, frame {done:,} of {of:,}"))


def _train_and_judge(folder: Folder, cell: Cell, device: Device, hear: Hear) -> None:
    try:
        _train(folder, cell, device, hear)
        _judge(folder, cell, device, hear)
    except Exception as error:
        folder.fail(cell.training, in_a_line(error), traceback.format_exc())
        raise


def _train(folder: Folder, cell: Cell, device: Device, hear: Hear) -> None:
    training, run = cell.training, folder.run(cell.training)
    config = training.config()
    from training import checkpoint, trainer  # heavy: nonsense is refused before

    if newest := checkpoint.last(run):
        facts = checkpoint.read(newest)
        if other := differences(facts.config, config):
            raise TrainError(f"{run} was trained with other settings ({'; '.join(other)}): remove it to train anew.")
        if facts.step == facts.steps:
            return

    class Steps(trainer.Listener):
        told, steps = 0.0, 0

        def started(self, step: int, steps: int, notes: list[str]) -> None:
            self.steps = steps

        def stepped(self, step: int, terms: Mapping[str, float] | None) -> None:
            if time.monotonic() - self.told > TELL_EVERY:
                hear(f"step {step:,} of {self.steps:,}")
                self.told = time.monotonic()

    hear("opening its dataset")
    trainer.train(folder.make(training.data), run, config, resume=True, device=device, listener=Steps())


def _judge(folder: Folder, cell: Cell, device: Device, hear: Hear) -> None:
    from training import checkpoint
    from training.dataset import open_dataset
    from training.devices import available
    from training.world_model import load

    run = folder.run(cell.training)
    trained = checkpoint.read(checkpoint.find(run, "last")).seconds
    model = load(run, "last", available(device))
    left = folder.left(cell)
    for number, measure in enumerate(left, 1):
        hear(f"judging, {number} of {len(left)}")
        began = time.monotonic()
        figures = measure.take(model, open_dataset(folder.make(measure.on or cell.training.data)))
        folder.write(cell.training, measure, figures, Times(trained, time.monotonic() - began))
