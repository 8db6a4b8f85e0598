"""How is a whole folder labeled?

`LabelRun` holds the store for one run: it says which jobs there are, and notes what became of them. `carry_out` does
the jobs in threads of this process; the Prefect flow gives the same ones to its task runner.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from labeling import pipeline
from labeling.config import LabelConfig
from labeling.cores import cores
from labeling.folder import Folder, Source, find_videos
from labeling.jobs import Done, Job, Stage
from labeling.locks import is_quiet, locked
from labeling.places import Place, absolute
from labeling.problems import RunError as RunError
from labeling.problems import StoreError, storing
from labeling.profiles import Device, check_backends, has_networks, weight_hashes
from labeling.tally import Labeled, tally
from labeling.tracks import UNASSIGNED
from labeling.video import VideoError
from labeling.vocabulary import Vocabulary
from labeling.work import WORKERS, work

PILE = 10  # tracks that fit no category: from so many on,
SHARE = 0.2  # and from this share of all, they may well be things that were not there when categories were found

FrameReport = Callable[[Source, int, int], None]  # the video, frames done, frames expected


class StrictStop(RunError):
    """A video failed in a run that was to stop at the first failure."""


@dataclass(frozen=True)
class Outcome:
    """What became of one video in this run."""

    source: str
    labels: Labeled | None = None
    fps: float | None = None  # frames a second of this run; None if they were there already
    failure: str = ""


@dataclass(frozen=True)
class Summary:
    """What a run did."""

    store: Place
    outcomes: list[Outcome]
    note: str  # what happened when the categories were found
    up_to_date: bool  # there was nothing to do
    orphans: list[str]  # videos that the store has labels of, and that are no longer there
    pruned: list[str]  # videos that were no longer there, and whose labels were removed
    tracks: int  # that are kept, in the whole store
    unassigned: int  # of these, tracks that fit no category

    @property
    def failed(self) -> list[Outcome]:
        """Videos that could not be labeled."""
        return [outcome for outcome in self.outcomes if outcome.failure]

    def pile(self, least: int = PILE, share: float = SHARE) -> str:
        """A sentence if many tracks fit no category, which says what to do; empty if few do."""
        if self.unassigned < max(1, least, share * self.tracks):
            return ""
        return (
            f"{self.unassigned} of {self.tracks} tracks fit no category: there may be new kinds of things. "
            "--refit finds categories for them, and those that persist keep their ids."
        )


class LabelRun:
    """One run over a folder of videos: `track` all of `todo`, `fit`, `label` all of `stale`, `close`.

    To track or label a video: do its `job` (see `work.py`), and `note` what became of it. Given a `Folder`, the run is
    over the videos that it names, none perhaps, whatever else there is.
    """

    def __init__(
        self, videos: str | Place | Folder, out: str | Place, config: LabelConfig | None = None, strict: bool = False,
        refit: bool = False, device: Device = "auto", prune: bool = False, patience: float = 0.0,
        keep_workers: bool = False,
    ) -> None:  # fmt: skip
        self._keep_workers = keep_workers  # for another run that may follow soon: networks take time to load
        self.config, self.strict, self.refit, self.device = config or LabelConfig(), strict, refit, device
        self.prune, self.patience = prune, patience
        check_backends(self.config, device)
        self._hashes = weight_hashes(self.config)
        self.out = absolute(out)
        self.folder = videos if isinstance(videos, Folder) else find_videos(videos)
        if not isinstance(videos, Folder) and not self.folder.sources and not self.folder.unreadable:
            raise RunError(
                f"no videos in {self.folder.root}. Give a folder with mp4, mov, avi, mkv, webm or gif files."
            )
        self.failures = dict(self.folder.unreadable)
        self.todo: list[Source] = []
        self.stale: list[Source] = []
        self._words: Vocabulary | None = None
        self._speeds: dict[str, float] = {}
        self._begun: set[tuple[Stage, str]] = set()  # stages and videos that may be half-written
        self._id = uuid.uuid4().hex
        self._stack = ExitStack()

    def __enter__(self) -> LabelRun:
        with ExitStack() as stack:
            self._check = stack.enter_context(locked(self.out, self._id))
            with storing(self.out):
                self._plan()
            self._stack = stack.pop_all()
        return self

    def _plan(self) -> None:
        self.store = pipeline.open_run(self.out, self.folder.root, self.config)
        for source in self.folder.sources:
            try:
                with storing(self.out):
                    current = pipeline.tracks_are_current(self.store, source, self.config, self._hashes)
                if not current:
                    self.todo.append(source)
            except (VideoError, OSError) as error:
                self._fail(source, str(error))

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        with self._stack:
            WORKERS.end(self._id, self._keep_workers)
            if kind is not None and issubclass(kind, RunError) and is_quiet(self.out):
                with suppress(OSError, StoreError):  # the reason why the run ends is told, not that this failed, too
                    self._forget_unfinished()

    def _forget_unfinished(self) -> None:
        for stage, id in self._begun:
            pipeline.forget_unfinished(self.store, f"{'stages' if stage == 'track' else 'videos'}/{id}")
        pipeline.forget_unfinished(self.store, "vocabulary")

    @contextmanager
    def working(self) -> Iterator[None]:
        """End what this process does for the run when the context is left, so that nobody has to wait for it."""
        try:
            yield
        finally:
            WORKERS.end(self._id, self._keep_workers)

    def jobs(self, stage: Stage) -> list[Job]:
        """What there is to do: to track all of `todo`, or to label all of `stale`."""
        return [self.job(stage, source) for source in (self.todo if stage == "track" else self.stale)]

    def job(self, stage: Stage, source: Source) -> Job:
        """The same for one video."""
        self._begun.add((stage, source.id))
        return Job(stage, self.out, source, self.config, self.device, self._hashes, self.patience, self._id)

    def note(self, done: Done) -> None:
        """Take in what became of a job; StrictStop if the video failed and the run was to stop at that."""
        self._check()
        if done.fps is not None:
            self._speeds[done.source.id] = done.fps
        if done.failure:
            self._fail(done.source, done.failure)

    def fit(self) -> str:
        """Find the categories of all tracked videos, or take those that the store has; returns what happened."""
        self._check()
        everything = pipeline.tracked_sources(self.store, self.folder.root)
        tracked = [source for source in everything if source.relative not in self.failures]
        known = pipeline.known_vocabulary(self.store, self.config, self._hashes)
        if known is None or self.refit:
            self._refuse_other_tracks(tracked)
        with storing(self.out):
            words = pipeline.fit_vocabulary(self.store, tracked, self.config, self.refit, self._hashes)
        self._words = words
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

    def close(self) -> Summary:
        """Write the tables of the store and sum up."""
        self._check()
        with storing(self.out):
            labeled = tally(self.store)
            orphans = pipeline.orphans(labeled, self.folder.root)
            gone = sorted(orphans.values())
            if self.prune:
                for id in orphans:
                    pipeline.forget_video(self.store, id)
                    del labeled[id]
            removed = [] if self.prune else gone
            counts = pipeline.close_run(self.store, labeled.values(), self.failures, removed)
        sources = [source for source in self.folder.sources if source.relative not in self.failures]
        for source in sources:
            if source.id not in labeled:
                raise StoreError(f"{self.out}: videos/{source.id} was removed while the run went on. Run again.")
        outcomes = [Outcome(s.relative, labeled[s.id], self._speeds.get(s.id)) for s in sources]
        outcomes += [Outcome(name, failure=reason) for name, reason in self.failures.items()]
        outcomes.sort(key=lambda outcome: outcome.source)
        note = f"{self._words.note}; kept tracks are of {len(counts.keys() - {UNASSIGNED})}" if self._words else ""
        idle = not (self.todo or self.stale or self.failures)
        orphaned, pruned = ([], gone) if self.prune else (gone, [])
        return Summary(self.out, outcomes, note, idle, orphaned, pruned, counts.total(), counts[UNASSIGNED])

    def _fail(self, source: Source, reason: str) -> None:
        """Note a failure; what the store holds of the video goes, unless it is of this very file."""
        self.failures[source.relative] = reason
        if not pipeline.has_labels_of(self.store, source):
            tracking = self._words is None  # later, its tracks are good: hours of work, perhaps
            (pipeline.forget_video if tracking else pipeline.forget_labels)(self.store, source.id)
        if self.strict:
            raise StrictStop(reason)


def finished_run(videos: str | Place, out: str | Place, config: LabelConfig | None = None) -> Summary | None:
    """The summary of a run that would find everything up to date; None if there is something to do."""
    with LabelRun(videos, out, config) as run:
        if run.todo or run.failures:
            return None
        run.fit()
        return None if run.stale else run.close()


def side_by_side(config: LabelConfig, workers: int) -> int:
    """How many videos to label at a time if `workers` is 0: one a core, or one alone where networks use them all."""
    return workers or (1 if has_networks(config) else cores())


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
    videos: str | Place, out: str | Place, config: LabelConfig | None = None, workers: int = 0, strict: bool = False,
    refit: bool = False, device: Device = "auto", listener: Listener | None = None, prune: bool = False,
    patience: float = 0.0,
) -> Summary:  # fmt: skip
    """Label all videos at `videos` into the store `out`; go on where an earlier run stopped.

    Args:
        videos: A folder, searched recursively, or one video; on a disk, or in a bucket (s3://bucket/folder).
        out: The label store; created if needed.
        config: What decides the labels.
        workers: Videos labeled side by side; 0: as `side_by_side` says.
        strict: Stop at the first video that fails.
        refit: Find the categories anew even if the store has some.
        device: Where models run: auto, cpu, cuda or mps.
        listener: Hears of progress.
        prune: Remove the labels of videos that are no longer there.
        patience: Seconds without progress after which a video is given up; 0: five minutes, with networks an hour.
    """
    with LabelRun(videos, out, config, strict, refit, device, prune, patience) as run:
        return carry_out(run, workers, listener)


def carry_out(run: LabelRun, workers: int = 0, listener: Listener | None = None) -> Summary:
    """Do all jobs of a run in threads of this process, `workers` at a time."""
    listener = listener or Listener()
    with ThreadPoolExecutor(side_by_side(run.config, workers)) as threads, run.working():

        def in_threads(stage: Stage) -> Iterator[Done]:
            doing = [threads.submit(work, job, partial(listener.frames, job.source)) for job in run.jobs(stage)]
            for finished in as_completed(doing):
                yield finished.result()

        listener.planned(len(run.todo))
        for done in in_threads("track"):
            run.note(done)
            listener.finished(done.source, done.failure)
        listener.grouping()
        run.fit()
        for done in in_threads("label"):
            run.note(done)
        return run.close()
