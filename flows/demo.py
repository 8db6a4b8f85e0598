"""What does Spectrabox do, in three minutes? The command `spectrabox demo`.

Makes three small videos, labels them through the Prefect flow, writes a report, joins frames and labels into a dataset,
and trains a small world model on it. What is there already is left alone, and what was stopped goes on.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from flows.console import print_summary, terminal
from flows.demo_videos import write_demo_videos
from flows.threads import sleeping_threads
from flows.train_console import print_dataset, print_trained, step_bar, training_errors
from labeling.config import LabelConfig
from labeling.run import finished_run
from labeling.store import open_store
from training.config import TrainConfig, TrainError, differences
from training.manifest import PrepareConfig, Split

if TYPE_CHECKING:
    from training.checkpoint import Facts
    from training.prepare import Prepared

# About a minute on one core: enough to see the curves move, not to learn three worlds.
TRAINING = TrainConfig(
    preset="nball-cpu", steps=150, log_every=5, validate_every=30, checkpoint_every=15, monitor_windows=96
)


def run_demo(folder: Path) -> None:
    """From nothing to labels, report, dataset and world model, all below `folder`."""
    with training_errors(goes_on=True):
        _label(folder)
        _train(_prepare(folder), folder / "run")


def _label(folder: Path) -> None:
    videos, store, page = folder / "videos", folder / "labels.zarr", folder / "report" / "index.html"
    terminal.print(f"Videos: {len(write_demo_videos(videos))} in {escape(str(videos))}")
    summary = finished_run(videos, store)
    if summary is None:
        from flows.local import run_flow

        summary = run_flow(videos, store, LabelConfig())
    print_summary(summary)
    if not summary.up_to_date or not page.exists():
        from labeling.report import write_report

        page = write_report(open_store(summary.store), folder / "report")
    terminal.print(f"Report: {escape(str(page.resolve()))}", soft_wrap=True)


def _prepare(folder: Path) -> Prepared:
    from training.prepare import prepare

    made = prepare(
        folder / "labels.zarr", folder / "dataset.zarr", folder / "videos", PrepareConfig(size=64),
        Split(validation=0.25), replace=True,
    )  # fmt: skip
    print_dataset(made)
    return made


def _train(made: Prepared, run: Path) -> None:
    sleeping_threads()
    from training import curves
    from training.trainer import Trained, train

    known = _known(made, run)
    if known and known.step == known.steps:
        print_trained(
            Trained(run, known.step, known.seconds, known.best_step or 0, known.validation, run / curves.FILE)
        )
        terminal.print("Labels, dataset and world model are up to date.")
        return
    with step_bar() as bar:
        trained = train(made.path, run, TRAINING, resume=known is not None, listener=bar)
    print_trained(trained)
    words = f"A minute on {made.frames} frames shows the way, not how far it leads: for more see the README."
    terminal.print(words, soft_wrap=True)


def _known(made: Prepared, run: Path) -> Facts | None:
    """Where the run stands; None if there is none to go on with: another one is put aside."""
    from training import checkpoint, load

    newest = checkpoint.last(run)
    if newest is None:
        return None
    try:
        known = checkpoint.read(newest)
        load(newest)
    except TrainError:
        _put_aside(run, "was written by another version, or is damaged")
        return None
    if known.data.fingerprint != made.fingerprint or differences(known.config, TRAINING):
        _put_aside(run, "is of other labels or settings")
        return None
    return known


def _put_aside(run: Path, why: str) -> None:
    """Make way for a new run."""
    free = next(place for number in count(1) if not (place := run.with_name(f"{run.name}-{number}")).exists())
    words = f"{run} {why}: it is {free} now, and a new one is trained."
    terminal.print(escape(words), soft_wrap=True)
    run.rename(free)
