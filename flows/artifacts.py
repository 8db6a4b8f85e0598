"""What does a flow run show on its page?

How far it is, the table of results, and where the report is. All of it is Markdown with names of the user's escaped; in
a table artifact one of Prefect's two pages would show the escapes, and the other would obey what was not escaped.
Progress is sent by a thread of its own, so that no work waits for the server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect import get_run_logger
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)

from labeling.folder import Source
from labeling.run import Listener, Outcome, Summary
from training.markdown import as_it_is

if TYPE_CHECKING:
    from training.trainer import Listener as TrainingListener

EVERY = 2.0  # seconds between reports of progress,
PART = 0.01  # or this part of the time that the run has taken, if that is longer: news of a day's run are not urgent
ROWS = 1000  # of a table: a page of a million videos could not be opened


class Progress:
    """How far a run is; whoever works sets `share`, from 0 to 1, as often as it likes."""

    def __init__(self, artifact: UUID) -> None:
        self.share = 0.0
        self.ended = threading.Event()
        self._artifact, self._sent = artifact, 0.0

    def send(self) -> None:
        """Tell the server if there is news. That it cannot be reached is no reason to stop the work."""
        share = self.share
        if share != self._sent:
            try:
                update_progress_artifact(self._artifact, round(100 * share, 1))
                self._sent = share
            except Exception as error:  # the server's or the network's, of whatever kind
                get_run_logger().debug("The server did not hear of the progress: %s", error)

    def keep_sending(self) -> None:
        """Until the work has ended."""
        began = time.monotonic()
        while not self.ended.wait(max(EVERY, PART * (time.monotonic() - began))):
            self.send()


@contextmanager
def progress(key: str, what: str) -> Iterator[Progress]:
    """Show how far the run is for as long as the context lasts."""
    artifact = create_progress_artifact(0.0, key=f"{key}-progress", description=as_it_is(what))
    assert isinstance(artifact, UUID)  # and no coroutine, which only asynchronous code gets
    going = Progress(artifact)
    sender = threading.Thread(target=copy_context().run, args=(going.keep_sending,), daemon=True)
    sender.start()
    try:
        yield going
    finally:
        going.ended.set()
        sender.join()
        going.send()


class _Labeling(Listener):
    """Shows which share of the videos is tracked, and passes on all that it hears."""

    def __init__(self, going: Progress, other: Listener) -> None:
        self._going, self._other = going, other
        self._lock, self._done, self._videos = threading.Lock(), dict[str, float](), 1

    def planned(self, videos: int) -> None:
        self._videos = max(1, videos)
        self._other.planned(videos)

    def frames(self, source: Source, done: int, expected: int) -> None:
        self._reached(source, done / max(done, expected, 1))
        self._other.frames(source, done, expected)

    def finished(self, source: Source, failure: str) -> None:
        self._reached(source, 1.0)
        self._other.finished(source, failure)

    def grouping(self) -> None:
        self._other.grouping()

    def _reached(self, source: Source, share: float) -> None:
        with self._lock:  # videos are tracked side by side
            self._going.share += (share - self._done.get(source.id, 0.0)) / self._videos
            self._done[source.id] = share


@contextmanager
def labeling_progress(key: str, videos: Path, other: Listener | None) -> Iterator[Listener]:
    """A listener of a labeling run that shows its progress; `other` hears everything as well."""
    with progress(key, f"Videos of {videos} that are tracked") as going:
        yield _Labeling(going, other or Listener())
        going.share = 1.0


@contextmanager
def training_progress(run: Path, other: TrainingListener | None) -> Iterator[TrainingListener]:
    """A listener of a training that shows its progress; `other` hears everything as well."""
    from training.trainer import Listener as TrainingListener

    heard = other or TrainingListener()

    class Training(TrainingListener):
        def started(self, step: int, steps: int, notes: list[str]) -> None:
            self.steps = max(1, steps)
            heard.started(step, steps, notes)

        def stepped(self, step: int, terms: Mapping[str, float] | None) -> None:
            going.share = step / self.steps
            heard.stepped(step, terms)

        def validated(self, row: Mapping[str, Any]) -> None:
            heard.validated(row)

    with progress("train-world-model", f"Steps of {run} that are done") as going:
        yield Training()


def show_labels(key: str, summary: Summary) -> None:
    """The table of results, and what is to be said about them in the log of the run as well."""
    for outcome in summary.failed:
        get_run_logger().warning("failed: %s: %s", outcome.source, outcome.failure)
    if pile := summary.pile():
        get_run_logger().warning(pile)
    show_table(key, summary)


def show_table(key: str, summary: Summary) -> None:
    """The table of results, failures first: the file and the reason."""
    first = sorted(summary.outcomes, key=lambda outcome: not outcome.failure)[:ROWS]
    shown = f", the first {ROWS} are shown" if len(first) < len(summary.outcomes) else ""
    lines = [
        f"{len(summary.outcomes)} videos, {len(summary.failed)} failed{shown}. {as_it_is(summary.note)}", "",
        "| video | frames | tracks | categories | dropped | failure |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    lines += [f"| {' | '.join(_row(outcome))} |" for outcome in first]
    about = f"Labels: {as_it_is(str(summary.store))}"
    create_markdown_artifact("\n".join(lines), key=key, description=about)


def _row(outcome: Outcome) -> tuple[str, ...]:
    found = outcome.labels
    counts = (found.frames, found.tracks, found.categories, found.dropped) if found else ("",) * 4
    return (as_it_is(outcome.source), *map(str, counts), as_it_is(outcome.failure))


def show_report(key: str, page: Path) -> None:
    """Where the report is: a link for the machine that has it, and its path for those who read the page elsewhere."""
    page = page.resolve()
    create_link_artifact(page.as_uri(), "Report", key=f"{key}-report", description=as_it_is(str(page)))
