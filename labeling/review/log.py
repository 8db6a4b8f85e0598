"""Where are a reviewer's edits?

In the store, in a log that only grows: `review/<page>` holds so many entries as attributes, each with its author and
time; undoing is an entry, too. A page is written whole or not at all, on a disk as in a bucket, and by one process at a
time. Labeling runs never touch the log, and nobody edits while there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Self

import zarr
from pydantic import BaseModel, ConfigDict, Field, model_validator

from labeling.locks import editing
from labeling.places import Place, open_group
from labeling.problems import RunError, StoreTaken, storing
from labeling.review.edits import Edit

PAGE = 256  # entries: what is written again with every edit stays small
LONGEST_AUTHOR = 80


class ReviewError(RunError):
    """The log cannot be read or written; the message says why and what to do."""


class Busy(ReviewError):
    """A labeling run has the store."""


class Entry(BaseModel):
    """A line of the log: an edit, or that the last one was undone or done again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: datetime
    by: str = Field("", max_length=LONGEST_AUTHOR)
    what: Literal["edit", "undo", "redo"] = "edit"
    edit: Edit | None = Field(None, discriminator="kind")
    labels: str = ""  # recipe of the labels of the edit's video
    vocabulary: str = ""  # fingerprint of the categories
    marks: dict[int, str] = Field(default_factory=dict)  # what the automatic tracks that it is about looked like

    @model_validator(mode="after")
    def _has_what_it_says(self) -> Self:
        if (self.what == "edit") != (self.edit is not None):
            raise ValueError("an entry is an edit, or says what became of one")
        return self


@dataclass(frozen=True)
class Log:
    """All entries, and what they come to."""

    entries: tuple[Entry, ...] = ()
    done: tuple[Entry, ...] = field(init=False)  # edits that hold, in their order
    undone: tuple[Entry, ...] = field(init=False)  # edits that can be done again, the next one last

    def __post_init__(self) -> None:
        """Go through undoing and doing again; a new edit ends what could be done again."""
        done: list[Entry] = []
        undone: list[Entry] = []
        for entry in self.entries:
            if entry.what == "edit":
                done.append(entry)
                undone.clear()
            elif entry.what == "undo" and done:
                undone.append(done.pop())
            elif entry.what == "redo" and undone:
                done.append(undone.pop())
        object.__setattr__(self, "done", tuple(done))
        object.__setattr__(self, "undone", tuple(undone))

    def __len__(self) -> int:
        return len(self.entries)


def read_log(root: zarr.Group) -> Log:
    """The log of a store; empty if nobody edited anything."""
    return Log(tuple(entry for page in _pages(root) for entry in page))


def write_entry(store: Place, make: Callable[[zarr.Group, Log], Entry]) -> Log:
    """Add what `make` returns to the log of a store, and return the log; `make` sees the log as it is by then.

    Raises:
        Busy: A labeling run has the store.
        ReviewError: The log cannot be written.
    """
    try:
        with storing(store), editing(store) as check:
            root = open_group(store, "r+")
            pages = _pages(root)
            log = Log(tuple(entry for page in pages for entry in page))
            entry = make(root, log)
            if not pages or len(pages[-1]) >= PAGE:
                pages.append([])
            pages[-1].append(entry)
            check()
            review = root.require_group("review")
            rows = [_row(one) for one in pages[-1]]
            review.require_group(str(len(pages) - 1)).update_attributes({"entries": rows})
            return Log((*log.entries, entry))
    except StoreTaken as error:
        raise Busy(f"Nothing was saved: {error}") from error


def now() -> datetime:
    """The time of an edit, UTC, to the millisecond."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _row(entry: Entry) -> dict[str, Any]:
    return {name: value for name, value in entry.model_dump(mode="json").items() if value}


def _pages(root: zarr.Group) -> list[list[Entry]]:
    pages: list[list[Entry]] = []
    try:
        while (group := root.get(f"review/{len(pages)}")) is not None:
            rows: Any = group.attrs.get("entries", [])  # none yet: whoever made it was killed right then
            pages.append([Entry.model_validate(row) for row in rows])
    except RunError:
        raise
    except Exception as error:  # broken metadata raises whatever its parser does
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise ReviewError(
            f"review/{len(pages)} in {root.store} cannot be read ({reason}). It may be of a newer version, or damaged: "
            "put it back from a copy. The automatic labels are not affected: labeling.open_store(path, reviewed=False)."
        ) from error
    return pages
