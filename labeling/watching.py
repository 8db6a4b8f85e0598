"""How are videos labeled that are dropped into a folder?

A `Watcher` looks at a folder again and again and has a run label what is new or changed and settled (see `settled.py`);
videos that are gone are marked in the store. Between runs nobody holds the store. A kill costs nothing: the next
watcher begins with everything that is there, and finds what is labeled already.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from labeling.config import LabelConfig
from labeling.folder import Folder, Source
from labeling.places import Place, StorageError, absolute
from labeling.problems import StoreTaken
from labeling.profiles import Device
from labeling.run import PILE, SHARE, LabelRun, Outcome, Summary, carry_out
from labeling.settled import Look, Lookout
from labeling.work import WORKERS

REST = 19  # times as long as a look took: on a slow disk, too, looking takes a twentieth of the time at most

Say = Callable[[str, bool], None]  # a sentence, and whether it tells of a problem


@dataclass(frozen=True)
class Habits:
    """When a watcher does what."""

    every: float = 5.0  # seconds between two looks at the folder
    settle: float = 10.0  # seconds for which a video must not have changed
    once: bool = False  # end when everything that is there is labeled
    refit: bool = False  # find categories anew when many tracks fit none
    pile: int = PILE  # tracks without a category that are many,
    share: float = SHARE  # if they are at least this share of all tracks


class Watcher:
    """Watches a folder until it is interrupted; what it has done so far is in `labeled`, `failures` and `removed`."""

    def __init__(
        self, videos: str | Place, out: str | Place, config: LabelConfig | None = None, habits: Habits | None = None,
        device: Device = "auto", patience: float = 0.0, do: Callable[[LabelRun], Summary] = carry_out,
        say: Say = lambda text, problem: None,
    ) -> None:  # fmt: skip
        """Watch a folder.

        Args:
            videos: The folder, on a disk or in a bucket; searched recursively.
            out: The label store; created with the first video.
            config: What decides the labels.
            habits: When to look, and what to wait for.
            device: Where models run.
            patience: Seconds without progress after which a video is given up; 0: as `label_folder`.
            do: Carries out a run.
            say: Hears what happens, in sentences.
        """
        self.out, self.habits = absolute(out), habits or Habits()
        self._config, self._device, self._patience = config, device, patience
        self._do, self._say = do, say
        self._lookout = Lookout(videos, self.habits.settle)
        self.labeled: set[str] = set()
        self.failures: dict[str, str] = {}
        self.removed: set[str] = set()
        self._done: dict[str, int] = {}  # videos that a run has seen, and how they were then
        self._unreadable: dict[str, str] = {}
        self._looked = self._began = False  # whether the folder has been there, and whether there has been a run
        self._wants_refit = False
        self._pile = 0  # tracks without a category that were told of, or that the last refit left
        self._said = ""  # why it waits, as it was said

    def run(self) -> None:
        """Look, label and wait, until interrupted; with `once`, until everything that is there is labeled.

        Raises:
            RunError: Nothing can be labeled until somebody does something; what is labeled is kept.
            FileNotFoundError: There is no such folder.
        """
        try:
            while True:
                began = time.monotonic()
                look = self._look()
                took = time.monotonic() - began
                waits = look is None or (self._is_due(look) and not self._round(look))
                if self.habits.once and not waits and look is not None and not look.growing:
                    return
                time.sleep(max(self.habits.every, REST * took))
        finally:
            WORKERS.dismiss()  # between two batches they stay for a while

    @property
    def account(self) -> str:
        """What was done so far, in words."""
        return f"{len(self.labeled)} labeled, {len(self.failures)} failed, {len(self.removed)} gone"

    def _look(self) -> Look | None:
        try:
            look = self._lookout.look()
        except (OSError, StorageError) as error:
            if not self._looked:
                raise
            self._wait(f"waiting for {self._lookout.root}: {error}")
            return None
        self._looked = True
        return look

    def _due(self, look: Look) -> list[Source]:
        return [source for source, mark in look.settled.items() if self._done.get(source.relative) != mark]

    def _is_due(self, look: Look) -> bool:
        """Whether the store is not what it should be."""
        if not self._began:  # what the store holds of videos that are gone is seen by the first run
            left = bool(look.unreadable) or (self.out / "zarr.json").exists()
            return bool(self._due(look)) or (not look.growing and left)
        gone = self._done.keys() - look.names
        return bool(self._due(look) or gone or look.unreadable != self._unreadable or self._wants_refit)

    def _round(self, look: Look) -> bool:
        """Have a run label what is due; whether there could be one."""
        due = self._due(look)
        fresh = {source.relative for source in due}
        known = look.names - fresh
        others = {name: why for name, why in self.failures.items() if name in known}
        try:
            summary, known_gone = self._label(Folder(self._lookout.root, due, others | look.unreadable))
            self._began, self._said, self._unreadable = True, "", look.unreadable
            gone = self._done.keys() - look.names
            self._done = {name: mark for name, mark in self._done.items() if name not in gone}
            self._done |= {source.relative: look.settled[source] for source in due}
            self._tell(summary, fresh, gone, known_gone)
            if self._is_pile(summary):
                self._refit(look)
        except (StoreTaken, StorageError) as error:
            self._wait(f"waiting: {error}")
            return False
        return True

    def _label(self, folder: Folder, refit: bool = False) -> tuple[Summary, set[str]]:
        """Label some videos; what was done, and which videos were known to be gone before."""
        with LabelRun(
            folder, self.out, self._config, refit=refit, device=self._device, patience=self._patience, keep_workers=True
        ) as run:
            known_gone = set(run.store.removed)
            return self._do(run), known_gone

    def _tell(self, summary: Summary, fresh: set[str], gone: set[str], known_gone: set[str]) -> None:
        """Say what a run did, and keep the account."""
        now_gone = set(summary.orphans)
        before, self.failures = self.failures, {one.source: one.failure for one in summary.failed}
        for one in summary.outcomes:
            if one.failure and (one.source in fresh or before.get(one.source) != one.failure):
                self._say(f"failed {one.source}: {one.failure}", True)
            elif one.fps is not None:
                self.labeled.add(one.source)
                self._say(f"labeled {_found(one)}", False)
        back = known_gone - now_gone
        kept = {one.source for one in summary.outcomes if not one.failure and one.fps is None}
        for what, names in (("labeled already", kept - back), ("back", back)):
            if names:
                self._say(f"{what}: {_some(names)}", False)
        if lost := now_gone - known_gone:
            self._say(f"gone: {_some(lost)}; labels stay, marked, until `spectrabox label --prune`", False)
        if never_labeled := gone - now_gone:
            self._say(f"gone: {_some(never_labeled)}", False)
        self.removed = now_gone

    def _is_pile(self, summary: Summary) -> bool:
        """Whether categories should be found anew; says so if that is left to the user."""
        many = summary.pile(self.habits.pile, self.habits.share)
        grown = summary.unassigned - self._pile
        self._wants_refit = bool(many) and self.habits.refit and grown >= max(1, self.habits.pile)
        if many and grown and not self.habits.refit:
            self._say(many, True)
        if not self.habits.refit or grown < 0:
            self._pile = summary.unassigned
        return self._wants_refit

    def _refit(self, look: Look) -> None:
        everything = Folder(self._lookout.root, list(look.settled), self.failures | look.unreadable)
        summary, _ = self._label(everything, refit=True)
        self._wants_refit, self._pile = False, summary.unassigned
        self._say(f"categories found anew: {summary.note}", False)

    def _wait(self, why: str) -> None:
        """Say why nothing can be done, once."""
        if why != self._said:
            self._said = why
            self._say(why, True)


def _found(one: Outcome) -> str:
    labels = one.labels
    assert labels is not None, "a video that did not fail has labels"
    return f"{one.source} (frames: {labels.frames}, tracks: {labels.tracks}, categories: {labels.categories})"


def _some(names: set[str]) -> str:
    return ", ".join(sorted(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
