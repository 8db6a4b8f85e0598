"""What is there of a dataset that is not finished?

A dataset is written into a draft beside its place. The draft's journal says what came of the takes that were looked
at, and is never ahead of the rows on disk: the next process goes on from there, if it is to make the same dataset.
Drafts of other datasets, or of processes that could not write a journal, are removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from glob import escape
from pathlib import Path

from pydantic import BaseModel, ValidationError

from labeling.files import write_whole

JOURNAL = "journal.json"


class Episode(BaseModel, extra="forbid"):
    """One take that was written."""

    offset: int
    length: int
    source: int  # number of its source
    start: int
    category: list[int]
    instance: list[int]
    digest: str  # of all that it holds


class Journal(BaseModel, extra="forbid"):
    """How far a draft is."""

    recipe: str  # of the dataset; empty: nobody goes on from this draft
    refused: int = 0  # takes
    sources: dict[str, int] = {}
    episodes: list[Episode] = []
    problems: dict[str, str] = {}  # file -> why it was left out

    @property
    def rows(self) -> int:
        """Frames of all episodes."""
        return self.episodes[-1].offset + self.episodes[-1].length if self.episodes else 0

    @property
    def looked_at(self) -> int:
        """Takes that were given: a take counts once its episode is listed, so that nothing comes in between."""
        return len(self.episodes) + self.refused

    def save(self, draft: Path) -> None:
        """Write it down; the rows have to be on disk."""
        write_whole(draft / JOURNAL, self.model_dump_json())


def begin(path: Path, recipe: str) -> tuple[Path, Journal]:
    """The draft of the dataset at `path`, ours from now on, and its journal; a new draft does not exist yet."""
    ours = path.with_name(f".{path.name}.{os.getpid()}.part")
    journal = Journal(recipe=recipe)
    for left in _left_over(path):
        if not journal.episodes and (found := _read(left, recipe)) and _claimed(left, ours):
            journal = found
        else:
            shutil.rmtree(left, ignore_errors=True)
    return ours, journal


def settle(draft: Path, path: Path) -> None:
    """Put a finished draft in its place; an older dataset there makes way."""
    (draft / JOURNAL).unlink(missing_ok=True)
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    if path.exists():
        os.replace(path, old)
    os.replace(draft, path)
    shutil.rmtree(old, ignore_errors=True)


def _left_over(path: Path) -> Iterator[Path]:
    """Drafts, and datasets that made way, of processes that are gone."""
    for kind in ("part", "old"):
        for left in sorted(path.parent.glob(f".{escape(path.name)}.*.{kind}")):
            owner = left.suffixes[-2].removeprefix(".")
            if not (owner.isdigit() and _runs(int(owner))):
                yield left


def _read(draft: Path, recipe: str) -> Journal | None:
    """The journal of a draft that can be gone on with."""
    if not recipe or draft.is_symlink() or any(entry.is_symlink() for entry in draft.rglob("*")):
        return None  # nothing is written through links
    try:
        journal = Journal.model_validate_json((draft / JOURNAL).read_bytes())
    except (OSError, ValidationError):
        return None
    return journal if journal.recipe == recipe and journal.episodes else None


def _claimed(draft: Path, ours: Path) -> bool:
    """Whether a draft is ours now, and not another process's that was sooner."""
    try:
        draft.rename(ours)
    except OSError:
        return False
    return True


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's
        return True
    return process != os.getpid()
