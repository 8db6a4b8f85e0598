"""How is a whole folder labeled?

`LabelRun` holds the store for one run and offers its steps; videos are worked on in processes of their own, one per
thread that calls it. `label_folder` takes the steps here and now; the Prefect flow takes the same ones as tasks.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from labeling import pipeline
from labeling.config import LabelConfig
from labeling.folder import Source, find_videos
from labeling.isolation import PATIENCE, Worker
from labeling.profiles import Device, check_backends, has_networks, weight_hashes
from labeling.video import VideoError
from labeling.vocabulary import Vocabulary

NETWORK_PATIENCE = 3600.0  # seconds without progress after which a video is given up: a window of SAM on a CPU

FrameReport = Callable[[Source, int, int], None]  # the video, frames done, frames expected


class RunError(Exception):
    """A run cannot start or go on; the message says why and what to do."""


class StrictStop(RunError):
    """A video failed in a run that was to stop at the first failure."""


@dataclass(frozen=True)
class Outcome:
    """What became of one video in this run."""

    source: str
    labels: pipeline.Labeled | None = None
    fps: float | None = None  # frames a second of this run; None if they were there already
    failure: str = ""


@dataclass(frozen=True)
class Summary:
    """What a run did."""

    store: Path
    outcomes: list[Outcome]
    note: str  # what happened when the categories were found
    up_to_date: bool  # there was nothing to do
    orphans: list[str]  # videos that the store has labels of, and that are no longer there
    pruned: list[str]  # videos that were no longer there, and whose labels were removed

    @property
    def failed(self) -> list[Outcome]:
        """Videos that could not be labeled."""
        return [outcome for outcome in self.outcomes if outcome.failure]


class LabelRun:
    """One run over a folder of videos: `track` all of `todo`, `fit`, `label` all of `stale`, `close`."""

    def __init__(
        self, videos: str | Path, out: str | Path, config: LabelConfig | None = None, strict: bool = False,
        refit: bool = False, device: Device = "auto", prune: bool = False,
    ) -> None:  # fmt: skip
        self.config, self.strict, self.refit, self.device = config or LabelConfig(), strict, refit, device
        self.prune = prune
        check_backends(self.config, device)
        self._hashes = weight_hashes(self.config)
        self.out = Path(out).expanduser().resolve()
        self.folder = find_videos(videos)
        if not self.folder.sources and not self.folder.unreadable:
            raise RunError(
                f"no videos in {self.folder.root}. Give a folder with mp4, mov, avi, mkv, webm or gif files."
            )
        self.failures = dict(self.folder.unreadable)
        self.todo: list[Source] = []
        self.stale: list[Source] = []
        self._words: Vocabulary | None = None
        self._speeds: dict[str, float] = {}
        self._mine = threading.local()
        self._workers: list[Worker] = []
        self._stack = ExitStack()
        self._closing = False

    def __enter__(self) -> LabelRun:
        self._stack.enter_context(locked(self.out))
        self.store = pipeline.open_run(self.out, self.folder.root, self.config)
        for source in self.folder.sources:
            try:
                if not pipeline.tracks_are_current(self.store, source, self.config, self._hashes):
                    self.todo.append(source)
            except (VideoError, OSError) as error:
                self._fail(source, str(error))
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing = True
        for worker in self._workers:
            worker.close()
        self._stack.close()

    def track(self, source: Source, report: FrameReport | None = None) -> str:
        """Track one video; returns the reason if it fails, or an empty text."""

        def work(worker: Worker) -> None:
            progress = (lambda done, expected: report(source, done, expected)) if report else None
            result = worker.run("track", self.out, source, self.config, self.device, progress)
            self._speeds[source.id] = result["frames"] / max(1e-9, result["seconds"])
            # Weights that were replaced since the run began reach a worker that had to be started again.
            if not pipeline.tracks_are_current(self.store, source, self.config, self._hashes, of_file=False):
                raise RunError(
                    "the weights were replaced during the run. Run the same command again, with the new ones."
                )

        return self._attempt(source, work)

    def fit(self) -> str:
        """Find the categories of all tracked videos, or take those that the store has; returns what happened."""
        everything = pipeline.tracked_sources(self.store, self.folder.root)
        tracked = [source for source in everything if source.relative not in self.failures]
        known = pipeline.known_vocabulary(self.store, self.config, self._hashes)
        if known is None or self.refit:
            self._refuse_other_tracks(tracked)
        self._words = words = pipeline.fit_vocabulary(self.store, tracked, self.config, self.refit, self._hashes)
        self.stale = [s for s in tracked if not pipeline.labels_are_current(self.store, s, self.config, words)]
        return words.note

    def _refuse_other_tracks(self, tracked: list[Source]) -> None:
        """RunError if new categories would leave videos of the store behind that were made with other settings."""
        mine = {source.id for source in self.folder.sources}
        for source in tracked:
            current = pipeline.tracks_are_current(self.store, source, self.config, self._hashes, of_file=False)
            if source.id not in mine and not current:
                raise RunError(
                    f"{self.out} also holds {source.relative}, labeled with other settings: new categories must be "
                    f"those of all videos. Label the whole folder, {self.folder.root}, or choose another --out."
                )

    def label(self, source: Source) -> str:
        """Write the labels of one tracked video; returns the reason if it fails, or an empty text."""
        return self._attempt(source, lambda worker: worker.run("label", self.out, source, self.config, self.device))

    def close(self) -> Summary:
        """Write the tables of the store and sum up."""
        orphans = pipeline.orphans(self.store, self.folder.root)
        if self.prune:
            for id in orphans:
                pipeline.forget_video(self.store, id)
        kinds = pipeline.close_run(self.store, self.failures)
        outcomes = [
            Outcome(source.relative, pipeline.count_labels(self.store, source), self._speeds.get(source.id))
            for source in self.folder.sources
            if source.relative not in self.failures
        ]
        outcomes += [Outcome(name, failure=reason) for name, reason in self.failures.items()]
        outcomes.sort(key=lambda outcome: outcome.source)
        note = f"{self._words.note}; kept tracks are of {kinds}" if self._words else ""
        idle = not (self.todo or self.stale or self.failures)
        gone = sorted(orphans.values())
        return Summary(self.out, outcomes, note, idle, *([], gone) if self.prune else (gone, []))

    def _attempt(self, source: Source, work: Callable[[Worker], object]) -> str:
        if self._closing:
            raise RunError("the run was stopped")
        if not hasattr(self._mine, "worker"):
            networks = has_networks(self.config)
            self._mine.worker = Worker(NETWORK_PATIENCE if networks else PATIENCE, alone=networks)
            self._workers.append(self._mine.worker)
        try:
            work(self._mine.worker)
        except VideoError as error:
            if self._closing:  # the video is innocent: its worker was ended
                raise RunError("the run was stopped") from error
            self._fail(source, str(error))
            return str(error)
        return ""

    def _fail(self, source: Source, reason: str) -> None:
        """Note a failure; what the store holds of the video goes, unless it is of this very file."""
        self.failures[source.relative] = reason
        if not pipeline.has_labels_of(self.store, source):
            pipeline.forget_video(self.store, source.id)
        if self.strict:
            raise StrictStop(reason)


def finished_run(videos: str | Path, out: str | Path, config: LabelConfig | None = None) -> Summary | None:
    """The summary of a run that would find everything up to date; None if there is something to do."""
    with LabelRun(videos, out, config) as run:
        if run.todo or run.failures:
            return None
        run.fit()
        return None if run.stale else run.close()


def side_by_side(config: LabelConfig, workers: int) -> int:
    """How many videos to label at a time if `workers` is 0: one a core, or one alone where networks use them all."""
    return workers or (1 if has_networks(config) else os.cpu_count() or 1)


class Listener:
    """Hears how a run goes; does nothing unless overridden."""

    def planned(self, videos: int) -> None:
        """So many videos have to be tracked."""

    def frames(self, source: Source, done: int, expected: int) -> None:
        """A video got so far."""

    def finished(self, source: Source, failure: str) -> None:
        """A video was tracked, or failed."""

    def grouping(self) -> None:
        """All videos are tracked; categories and labels follow."""


def label_folder(
    videos: str | Path, out: str | Path, config: LabelConfig | None = None, workers: int = 0, strict: bool = False,
    refit: bool = False, device: Device = "auto", listener: Listener | None = None, prune: bool = False,
) -> Summary:  # fmt: skip
    """Label all videos at `videos` into the store `out`; go on where an earlier run stopped.

    Args:
        videos: A folder, searched recursively, or one video.
        out: The label store; created if needed.
        config: What decides the labels.
        workers: Videos labeled side by side; 0: as `side_by_side` says.
        strict: Stop at the first video that fails.
        refit: Find the categories anew even if the store has some.
        device: Where models run: auto, cpu, cuda or mps.
        listener: Hears of progress.
        prune: Remove the labels of videos that are no longer there.
    """
    listener, config = listener or Listener(), config or LabelConfig()
    threads = ThreadPoolExecutor(side_by_side(config, workers))
    with LabelRun(videos, out, config, strict, refit, device, prune) as run:
        try:
            listener.planned(len(run.todo))
            jobs = {threads.submit(run.track, source, listener.frames): source for source in run.todo}
            for job in as_completed(jobs):
                listener.finished(jobs[job], job.result())
            listener.grouping()
            run.fit()
            for labeled in as_completed([threads.submit(run.label, source) for source in run.stale]):
                labeled.result()
            return run.close()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the store for this run alone; RunError if another run has it. A killed run's lock is gone with it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{out} cannot be made: {error.strerror}. Choose another --out.") from error
    others = [path.name for path in out.iterdir() if path.suffix != ".partial"]
    if others and "zarr.json" not in others:
        raise RunError(f"{out} holds other files ({min(others)}) and is no label store. Choose another --out.")
    handle = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another run is writing to {out}. Wait for it, or choose another --out.") from None
        yield
    finally:
        os.close(handle)
