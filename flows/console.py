"""What a person sees at the terminal: progress, tables, and errors that say what to do."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Column, Table

from labeling.checkpoints import WeightsError
from labeling.config import load_config
from labeling.folder import Source
from labeling.profiles import BackendError, Device
from labeling.run import Listener, RunError, StrictStop, Summary, label_folder
from labeling.settings_files import ConfigError
from labeling.show import misfits
from labeling.store import StoreError, open_store
from labeling.video import VideoError

if TYPE_CHECKING:
    from flows.runners import RunnerName

ROWS = 50  # of the table of a run: nobody reads more, and it is failures that must not scroll away

CODES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class Terminal(Console):
    """Shows codes for a terminal that are in a text as text: names of files and categories come from anywhere."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The parts of what is shown; those of rich's own that are codes stay what they are."""
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=part.text.translate(CODES))


terminal = Terminal()
errors = Terminal(stderr=True)


@contextmanager
def plain_errors(goes_on: bool = False) -> Iterator[None]:
    """Print errors that are meant for the user as one sentence, and exit with code 2.

    `goes_on` says that what is interrupted is taken up again by the same command.
    """
    try:
        yield
    except (BackendError, ConfigError, RunError, StoreError, VideoError, WeightsError, OSError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.filename:
            text = f"{error.filename}: {error.strerror}. Check the path, its permissions and the disk."
        errors.print(f"[bold red]error[/] {escape(text)}", soft_wrap=True)
        sys.exit(1 if isinstance(error, StrictStop) else 2)
    except KeyboardInterrupt:
        errors.print(f"\nStopped.{' Run the same command again to go on from here.' if goes_on else ''}")
        sys.exit(130)


def label(
    videos: Path, out: Path, choice: dict[str, str | None], file: Path | None, settings: list[str], workers: int,
    device: Device, strict: bool, refit: bool, prune: bool, flow: bool, runner: RunnerName, address: str | None,
    patience: float,
) -> None:  # fmt: skip
    """Label a folder, in this process or as a Prefect flow run; exit code 1 if a video failed."""
    with plain_errors(goes_on=True):
        config = load_config(file, settings, **choice)
        if not flow and (runner != "threads" or address):
            raise RunError("--runner and --address are for flow runs. Say --flow as well.")
        if flow:
            from flows.local import run_flow

            summary = run_flow(
                videos, out, config, workers, device, strict, refit, prune, runner, address, patience
            )  # fmt: skip
        else:
            with FrameBar() as bar:
                summary = label_folder(videos, out, config, workers, strict, refit, device, bar, prune, patience)
        print_summary(summary)
        sys.exit(1 if summary.failed else 0)


def print_summary(summary: Summary) -> None:
    """The table of a run: a row per video, or one for all where they are many; failures; where the store is."""
    table = Table(
        "video", *[Column(name, justify="right") for name in ("frames", "tracks", "categories", "fps", "dropped")]
    )
    many = len(summary.outcomes) > ROWS
    for outcome in [] if many else summary.outcomes:
        if outcome.labels is None:
            table.add_row(escape(outcome.source), "[red]failed[/]", "", "", "", "")
            continue
        found = outcome.labels
        speed = f"{outcome.fps:.0f}" if outcome.fps else "up to date"
        row = (found.frames, found.tracks, found.categories, speed, found.dropped)
        table.add_row(escape(outcome.source), *[str(value) for value in row])
    if many:
        _add_totals(table, summary)
    terminal.print(table)
    for outcome in summary.failed:
        terminal.print(f"[red]failed[/] {escape(outcome.source)}: {escape(outcome.failure)}", soft_wrap=True)
    if summary.orphans:
        names = ", ".join(summary.orphans[:3]) + (", ..." if len(summary.orphans) > 3 else "")
        terminal.print(
            f"The store also has labels of {len(summary.orphans)} video(s) that are no longer there ({escape(names)}). "
            "Remove them with --prune.", soft_wrap=True,
        )  # fmt: skip
    if summary.pruned:
        names = escape(", ".join(summary.pruned))
        terminal.print(f"Removed labels of {len(summary.pruned)} video(s) that are gone: {names}.", soft_wrap=True)
    if summary.up_to_date:
        terminal.print("Everything is up to date.")
    elif summary.note:
        terminal.print(f"Categories: {escape(summary.note)}.")
    if pile := summary.pile():
        terminal.print(f"[yellow]{escape(pile)}[/]", soft_wrap=True)
    if lost := len(misfits(open_store(summary.store))):
        terminal.print(
            f"[yellow]{lost} edit(s) of the review no longer fit these labels[/]: see spectrabox show "
            f"{escape(str(summary.store))}", soft_wrap=True,
        )  # fmt: skip
    terminal.print(f"Labels: {escape(str(summary.store))}", soft_wrap=True)


def _add_totals(table: Table, summary: Summary) -> None:
    """One row for all videos that are labeled, in place of theirs; `fps` is that of a video on average."""
    found = [outcome.labels for outcome in summary.outcomes if outcome.labels]
    frames, tracks, dropped = (sum(getattr(one, name) for one in found) for name in ("frames", "tracks", "dropped"))
    kinds = len({kind for one in found for kind in one.kinds})
    speeds = [outcome.fps for outcome in summary.outcomes if outcome.fps]
    speed = f"{sum(speeds) / len(speeds):.0f}" if speeds else "up to date"
    row = (f"{frames:,}", f"{tracks:,}", str(kinds), speed, f"{dropped:,}")
    table.add_row(f"{len(found):,} videos", *row, style="bold")
    if found:
        table.caption = f"{len(found):,} rows are left out; spectrabox show has them."


def show(store: Path) -> None:
    """Print what a store holds."""
    with plain_errors():
        from labeling.show import summary

        terminal.print(summary(open_store(store)))


def validate(store: Path) -> None:
    """Print everything that is wrong with a store; exit code 1 if anything is."""
    with plain_errors():
        from labeling.validate import validate as check

        problems = check(store)
        for problem in problems:
            terminal.print(f"[red]wrong[/] {escape(problem)}", soft_wrap=True)
        terminal.print("The store is valid." if not problems else f"{len(problems)} problem(s).")
        sys.exit(1 if problems else 0)


def migrate(store: Path) -> None:
    """Bring a store up to date, and say what that was."""
    with plain_errors():
        from labeling.migrations import migrate as bring_up_to_date

        done = bring_up_to_date(store)
        said = f"was brought from schema {done.before} to {done.after}" if done.before < done.after else "is up to date"
        terminal.print(f"{escape(str(done.store))} {said}.", soft_wrap=True)


def overlay(store: Path, out: Path, videos: Path | None, only: list[str]) -> None:
    """Write the overlay videos."""
    with plain_errors():
        from labeling.overlay import write_overlays

        with progress_steps("overlays") as step:
            paths = write_overlays(open_store(store), out, videos, only, step)
        for path in paths:
            terminal.print(escape(str(path)), soft_wrap=True)


def report(store: Path, out: Path, videos: Path | None) -> None:
    """Write the HTML report."""
    with plain_errors():
        from labeling.report import write_report

        with progress_steps("report") as step:
            page = write_report(open_store(store), out, videos, lambda done, total: step("", done, total))
        terminal.print(f"Report: {escape(str(page))}", soft_wrap=True)


@contextmanager
def progress_steps(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar that is told what it is at, how much is done, and how much there is."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=errors, transient=True) as bar:
        job = bar.add_task(what, total=None)
        yield lambda name, done, total: bar.update(
            job, description=f"{what} {escape(name)}", completed=done, total=total
        )


class FrameBar(Listener):
    """A progress bar over the frames of all videos, with frames a second and time left."""

    def __init__(self) -> None:
        self._bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[speed]}"), TimeRemainingColumn(), console=errors, transient=True,
        )  # fmt: skip
        self._job = self._bar.add_task("starting", total=None, speed="")
        self._reached: dict[str, tuple[int, int]] = {}  # frames done and expected of each video
        self._done = self._expected = 0  # of all together
        self._lock = threading.Lock()  # videos are tracked side by side
        self._videos = self._finished = self._failed = self._unseen = 0
        self._began = time.monotonic()

    def __enter__(self) -> FrameBar:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def planned(self, videos: int) -> None:
        """So many videos have to be tracked."""
        self._videos, self._began = videos, time.monotonic()

    def frames(self, source: Source, done: int, expected: int) -> None:
        """A video got so far; videos not yet opened are taken to be as long as the others on average."""
        with self._lock:
            before, after = self._reached.get(source.id, (0, 0)), (done, max(done, expected))
            self._reached[source.id] = after
            self._done += after[0] - before[0]
            self._expected += after[1] - before[1]
        self._show()

    def finished(self, source: Source, failure: str) -> None:
        """A video was tracked, or failed; one that failed before its first frame does not count for the time left."""
        with self._lock:
            self._finished += 1
            self._failed += bool(failure)
            self._unseen += bool(failure) and source.id not in self._reached
        self._show()

    def grouping(self) -> None:
        """All videos are tracked; categories and labels follow."""
        self._bar.update(self._job, description="finding categories", total=None, speed="")

    def _show(self) -> None:
        if self._reached:
            total = self._expected * (self._videos - self._unseen) / len(self._reached)
            speed = self._done / max(1e-3, time.monotonic() - self._began)
            self._bar.update(self._job, completed=self._done, total=total, speed=f"{speed:.0f} frames/s")
        failed = f", [red]{self._failed} failed[/]" if self._failed else ""
        self._bar.update(self._job, description=f"{self._finished} of {self._videos} videos{failed}")
