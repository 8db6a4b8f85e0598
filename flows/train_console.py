"""What a person sees at the terminal while datasets are made and models are trained."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from flows.console import errors, plain_errors, terminal
from flows.threads import sleeping_threads
from labeling.cores import cores
from labeling.run import RunError
from labeling.settings_files import ConfigError
from training.config import Device, TrainError, load_config
from training.manifest import MANIFESTS, ManifestError, PrepareConfig, Split, load_manifest

if TYPE_CHECKING:
    from training.prepare import Prepared
    from training.prepare import Progress as FrameProgress
    from training.trainer import Trained

SHORT = {"total": "loss", "prediction": "next", "regularizer": "spread", "encoded": "boxes", "predicted": "boxes next"}


@contextmanager
def training_errors(goes_on: bool = False) -> Iterator[None]:
    """Print errors that are meant for the user as one sentence, and exit with code 2."""
    with plain_errors(goes_on):
        try:
            from training.dataset_format import DatasetError

            try:
                yield
            except (DatasetError, ManifestError, TrainError) as error:
                raise RunError(str(error)) from error
        except ModuleNotFoundError as error:
            raise RunError(
                f"Training needs {error.name}, which is missing: pip install -c constraints.txt '.[train]'"
            ) from error


def prepare(
    source: Path, out: Path | None, videos: Path | None, store: Path | None, choice: Mapping[str, Any],
    validation: float | None, replace: bool, workers: int,
) -> None:  # fmt: skip
    """Make a dataset; what the user chose counts over what a manifest says. Exit code 1 if something was left out."""
    with training_errors(goes_on=True):
        from training.prepare import prepare as make

        given = {name: value for name, value in choice.items() if value is not None}
        manifest = load_manifest(source) if source.suffix.lower() in MANIFESTS else None
        config = _on_top(manifest.settings if manifest else PrepareConfig(), given)
        held_out = {} if validation is None else {"validation": validation}
        split = _on_top(manifest.split if manifest else Split(), held_out)
        with _frames_bar("preparing") as progress:
            made = make(source, out, videos, config, split, store, progress, replace, workers or cores())
        print_dataset(made)
        sys.exit(1 if made.problems else 0)


def simulate(
    environment: str, out: Path | None, videos: Path | None, size: int | None, validation: float | None,
    options: Mapping[str, int | None], replace: bool, workers: int,
) -> None:  # fmt: skip
    """Make a dataset from a simulator, or from a manifest that names one; or videos. What is None was not chosen."""
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if environment.lower().endswith(MANIFESTS):
        with training_errors():
            advice = f"with a manifest, which makes one dataset: change {environment}, or name a simulator instead."
            _refuse({"videos": videos, **chosen}, advice)
        prepare(Path(environment), out, None, None, {"size": size}, validation, replace, workers)
        return
    with training_errors(goes_on=out is not None):
        from training.dataset_format import DatasetError
        from training.simulate import simulate as make
        from training.simulate import simulate_videos

        if (out is None) == (videos is None):
            raise DatasetError("Say where the dataset goes: --out DATASET; or the videos: --videos FOLDER.")
        if videos is not None:
            advice = "with --videos, which are as the simulator draws them: choose this in `spectrabox prepare`."
            _refuse({"size": size, "validation": validation}, advice)
            _refuse({"replace": replace or None}, "with --videos: one that is there is written anew if it differs.")
            _refuse({"workers": workers or None}, "with --videos: one process writes them.")
        split = Split() if validation is None else Split(validation=validation)
        with _frames_bar("simulating") as progress:
            try:
                if out is not None:
                    made = make(
                        environment, out, size=size, split=split, progress=progress, replace=replace,
                        workers=workers or cores(), **chosen,
                    )  # fmt: skip
                elif videos is not None:
                    paths = simulate_videos(environment, videos, progress=progress, **chosen)
            except ValueError as error:  # an unknown simulator, or one that does not take these options
                raise DatasetError(f"{environment}: {error}") from error
        if out is not None:
            print_dataset(made)
        else:
            terminal.print(f"{len(paths)} videos with actions and true boxes: {escape(str(videos))}", soft_wrap=True)


def train(
    dataset: Path, out: Path, preset: str | None, file: Path | None, settings: list[str], resume: bool, device: Device
) -> None:
    """Train a world model with a progress bar, then print its last values and the verdict."""
    with training_errors(goes_on=True):
        chosen = bool(preset or file or settings)
        config = load_config(file, settings, preset) if chosen or not resume else None
        sleeping_threads()
        with step_bar() as bar:
            from training.trainer import train as fit

            try:
                trained = fit(dataset, out, config, resume, device, bar)
            except KeyboardInterrupt:
                errors.print("\nStopped. Run the same command with --resume to go on from the last checkpoint.")
                sys.exit(130)
        if _speaks():
            print_trained(trained)


def print_dataset(made: Prepared) -> None:
    """What a dataset holds, which choices were made, and what had to be left out."""
    table = Table("kind of objects", Column("from", overflow="fold"), Column("objects", justify="right"))
    for row in made.categories:
        table.add_row(escape(row.name), escape(", ".join(row.members)), str(row.tracks))
    if made.categories:
        terminal.print(table)
    for file, reason in made.problems.items():
        terminal.print(f"[red]left out[/] {escape(file)}: {escape(reason)}", soft_wrap=True)
    for note in made.notes:
        terminal.print(escape(note), soft_wrap=True)
    height, width = made.size
    actions = f"{made.actions} numbers an action" if made.actions else "no actions"
    terminal.print(
        f"{made.frames} frames of {height} by {width}, {actions}, {made.training} episodes for training, "
        f"{made.validation} for validation{'' if made.new else ' (was there already)'}", soft_wrap=True,
    )  # fmt: skip
    terminal.print(f"Dataset: {escape(str(made.path))}", soft_wrap=True)


def print_trained(trained: Trained) -> None:
    """The last values, which episodes they are of, the verdict, and where everything is."""
    from training.run_report import judged_on, last_values, write_report

    table = Table(judged_on(trained.validation), Column(f"step {trained.step}", justify="right"))
    for name, value in last_values(trained.validation):
        table.add_row(escape(name), "not judged" if value is None else f"{value:.4g}")
    terminal.print(table)
    terminal.print(escape(trained.verdict), soft_wrap=True)
    terminal.print(f"Curves: {escape(str(trained.curves))}", soft_wrap=True)
    terminal.print(f"Report: {escape(str(write_report(trained.run)))}", soft_wrap=True)
    terminal.print(f"World model: {escape(str(trained.run))} (best at step {trained.best_step})", soft_wrap=True)


@contextmanager
def step_bar() -> Iterator[Any]:
    """A progress bar over the steps with the terms of the loss and the time left; a trainer's listener."""
    from training.trainer import Listener

    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(),
        TextColumn("{task.fields[terms]}"), TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=errors, transient=True, disable=not _speaks()) as bar:
        job = bar.add_task("reading", total=None, terms="")

        class Steps(Listener):
            def started(self, step: int, steps: int, notes: list[str]) -> None:
                bar.update(job, description="training", completed=step, total=steps)
                for note in notes:
                    bar.console.print(escape(note), soft_wrap=True)

            def stepped(self, step: int, terms: Mapping[str, float] | None) -> None:
                bar.update(job, completed=step)
                if terms:
                    words = " ".join(f"{name} {terms[key]:.3g}" for key, name in SHORT.items() if terms[key])
                    bar.update(job, terms=words)

            def validated(self, row: Mapping[str, Any]) -> None:
                loss = "loss on training frames" if row.get("judged_on") == "train" else "validation loss"
                words = f"step {row['step']}: {loss} {row['total']:.4g}, {row['verdict']}"
                bar.console.print(escape(words), soft_wrap=True)

        yield Steps()


@contextmanager
def _frames_bar(what: str) -> Iterator[FrameProgress]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=errors, transient=True) as bar:
        job = bar.add_task(what, total=None)
        yield lambda done, expected: bar.update(job, completed=done, total=expected or None)


def _speaks() -> bool:
    """Of several training processes, one speaks."""
    return os.environ.get("RANK", "0") == "0"


def _refuse(options: Mapping[str, Any], advice: str) -> None:
    """Say which of the options were given though they would have no effect."""
    from training.dataset_format import DatasetError

    given = [f"--{name}" for name, value in options.items() if value is not None]
    if given:
        raise DatasetError(f"{' and '.join(given)} cannot be used {advice}")


def _on_top(settings: Any, given: Mapping[str, Any]) -> Any:
    """The settings with what the user chose; None if that is nothing."""
    if not given:
        return None
    try:
        return type(settings)(**{**settings.model_dump(), **given})
    except ValidationError as error:
        problems = (f"--{problem['loc'][0]}: {problem['msg']}" for problem in error.errors())
        raise ConfigError("; ".join(problems)) from error
