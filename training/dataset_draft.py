"""What is there of a dataset that is not finished?

A dataset is written into a draft beside its place, `.NAME.part`. The draft's journal says what came of each take that
was looked at, so that the next process that is to make the same dataset can go on. A draft belongs to one process at a
time; a lock that dies with it says to which.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from labeling.files import write_whole
from training.dataset_format import DatasetError

JOURNAL, LOCK = "journal.json", ".lock"


class Looked(BaseModel, extra="forbid"):
    """What came of a take: an episode, or the reason why there is none."""

    source: str
    start: int
    reason: str = ""
    offset: int = 0
    length: int = 0
    category: list[int] = []
    instance: list[int] = []
    digest: str = ""  # of all that the episode holds


class Journal(BaseModel, extra="forbid"):
    """How far a draft is."""

    recipe: str  # of the dataset; empty: nobody goes on from this draft
    origin: str = ""  # what it is made of
    columns: list[str] = []  # in the order in which digests are made of them
    looked: list[Looked] = []

    @property
    def episodes(self) -> list[Looked]:
        """The takes that were not refused."""
        return [one for one in self.looked if not one.reason]

    @property
    def rows(self) -> int:
        """Frames of all episodes."""
        last = next((one for one in reversed(self.looked) if not one.reason), None)
        return last.offset + last.length if last else 0


class Draft:
    """The draft of one dataset, ours until it is settled or closed."""

    def __init__(self, path: Path, recipe: str, origin: str, replace: bool) -> None:
        """Go on with the draft of the dataset at `path`, or begin a new one.

        Raises:
            DatasetError: If another process is at it, or, unless `replace`, if a dataset of something else was begun.
        """
        self.path, self.folder = path, path.with_name(f".{path.name}.part")
        self._old, self._settled = path.with_name(f".{path.name}.old"), False
        if self.folder.is_symlink():
            self.folder.unlink()  # nothing is written through links
        self.folder.mkdir(exist_ok=True)
        self._lock = FileLock(self.folder / LOCK, timeout=0)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise DatasetError(
                f"{path} is being made by another process. Wait for it, or choose another --out."
            ) from error
        try:
            self._begin(recipe, origin, replace)
        except BaseException:
            self._lock.release()
            raise

    def _begin(self, recipe: str, origin: str, replace: bool) -> None:
        if self.path.exists():
            _remove([self._old])  # which made way for it
        found = self._read()
        if found and found.origin != origin and not replace:
            raise DatasetError(
                f"{self.path}: a dataset of {found.origin} was begun there, {found.rows} frames of it; this would be "
                f"one of {origin}. Run that command again to go on with it, choose another --out, or --replace."
            )
        self.journal = Journal(recipe=recipe, origin=origin)
        if found and found.recipe == recipe:
            self.journal = found
            _remove(entry for entry in self.folder.rglob(".*") if entry.name != LOCK)  # halves of files
            _remove(self.folder.rglob("*.partial"))
        else:
            self.empty()

    def save(self) -> None:
        """Write the journal down; the rows have to be on disk."""
        write_whole(self.folder / JOURNAL, self.journal.model_dump_json())

    def empty(self) -> None:
        """Begin anew."""
        self.journal = Journal(recipe=self.journal.recipe, origin=self.journal.origin)
        (self.folder / JOURNAL).unlink(missing_ok=True)  # first: what is half removed is not to be gone on with
        _remove(entry for entry in self.folder.iterdir() if entry.name != LOCK)

    def settle(self) -> None:
        """Put the finished draft in its place; an older dataset there makes way."""
        _remove([self._old])
        if self.path.exists():
            os.replace(self.path, self._old)
        os.replace(self.folder, self.path)
        self._settled = True  # what is beside the dataset from now on is another process's
        for name in (JOURNAL, LOCK):
            (self.path / name).unlink(missing_ok=True)
        _remove([self._old])

    def close(self, keep: bool) -> None:
        """Leave it to the next process, or remove it, if it is still there."""
        try:
            if not keep and not self._settled:
                with suppress(OSError):
                    self.empty()
                    shutil.rmtree(self.folder)
        finally:
            self._lock.release()

    def _read(self) -> Journal | None:
        """The journal, if what it tells of can be gone on with."""
        try:
            journal = Journal.model_validate_json((self.folder / JOURNAL).read_bytes())
        except (OSError, ValidationError):
            return None
        linked = any(entry.is_symlink() for entry in self.folder.rglob("*"))  # nothing is written through links
        return journal if journal.recipe and journal.looked and not linked else None


def _remove(entries: Iterable[Path]) -> None:
    for entry in list(entries):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
