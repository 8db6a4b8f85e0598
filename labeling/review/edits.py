"""What can a reviewer change?

Each edit is a small model that says what is to be done in the words of the page; `Edit` is any of them. Track numbers
are the instances of a video, a `frame` is the first one that an edit is about. What an edit does is in `outcome.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from labeling.tracks import UNASSIGNED

LONGEST_NAME = 80


class _Edit(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _OfCategory(_Edit):
    category: int = Field(ge=UNASSIGNED)

    @property
    def named(self) -> tuple[int, ...]:
        """The categories that must be there."""
        return (self.category,)


class RenameCategory(_OfCategory):
    """Give a category a name."""

    kind: Literal["rename-category"] = "rename-category"
    category: int = Field(ge=0)
    name: str = Field(min_length=1, max_length=LONGEST_NAME)

    @field_validator("name")
    @classmethod
    def _one_line(cls, name: str) -> str:
        name = " ".join(name.split())
        if not name or not name.isprintable():
            raise ValueError("a name is one line of printable text")
        return name


class DropCategory(_OfCategory):
    """Leave all tracks of a category out."""

    kind: Literal["drop-category"] = "drop-category"


class KeepCategory(_OfCategory):
    """Take a category that was left out back in."""

    kind: Literal["keep-category"] = "keep-category"


class MergeCategories(_Edit):
    """Make several categories one, which keeps the name of `into`."""

    kind: Literal["merge-categories"] = "merge-categories"
    categories: tuple[Annotated[int, Field(ge=UNASSIGNED)], ...] = Field(min_length=1)
    into: int = Field(ge=0)

    @property
    def named(self) -> tuple[int, ...]:
        """The categories that must be there."""
        return (*self.categories, self.into)


class _OfVideo(_Edit):
    video: str = Field(min_length=1)

    @property
    def named(self) -> tuple[int, ...]:
        """The tracks that must be there."""
        return ()


class _OfTracks(_OfVideo):
    tracks: tuple[int, ...] = Field(min_length=1)

    @property
    def named(self) -> tuple[int, ...]:
        """The tracks that must be there."""
        return self.tracks


class AssignTracks(_OfTracks):
    """Put tracks into another category."""

    kind: Literal["assign-tracks"] = "assign-tracks"
    category: int = Field(ge=UNASSIGNED)


class MergeTracks(_OfTracks):
    """Make several tracks one, which keeps the number and the category of the first."""

    kind: Literal["merge-tracks"] = "merge-tracks"
    tracks: tuple[int, ...] = Field(min_length=2)


class SplitTrack(_OfVideo):
    """Make what a track is from `frame` on a track of its own, with the number `new`."""

    kind: Literal["split-track"] = "split-track"
    track: int
    frame: int = Field(ge=1)
    new: int = Field(-1, ge=-1)  # -1: not known yet, whoever writes the edit fills it in

    @property
    def named(self) -> tuple[int, ...]:
        """The tracks that must be there."""
        return (self.track,)


class SwapTracks(_OfTracks):
    """Exchange two tracks from `frame` on: they were mistaken for one another there."""

    kind: Literal["swap-tracks"] = "swap-tracks"
    tracks: tuple[int, int]
    frame: int = Field(ge=0)


class DropTracks(_OfTracks):
    """Leave tracks out."""

    kind: Literal["drop-tracks"] = "drop-tracks"


class KeepTracks(_OfTracks):
    """Take tracks that were left out, by a filter or a reviewer, back in."""

    kind: Literal["keep-tracks"] = "keep-tracks"


class CheckVideo(_OfVideo):
    """Say that a video was looked at and is right."""

    kind: Literal["check-video"] = "check-video"


class UncheckVideo(_OfVideo):
    """Take that back."""

    kind: Literal["uncheck-video"] = "uncheck-video"


CategoryEdit = RenameCategory | DropCategory | KeepCategory | MergeCategories
TrackEdit = AssignTracks | MergeTracks | SplitTrack | SwapTracks | DropTracks | KeepTracks
VideoEdit = TrackEdit | CheckVideo | UncheckVideo
Edit = CategoryEdit | VideoEdit

EDIT: TypeAdapter[Edit] = TypeAdapter(Annotated[Edit, Field(discriminator="kind")])


def in_words(edit: Edit, name_of: Callable[[int], str]) -> str:
    """An edit as a sentence without its end; `name_of` knows what categories are called."""
    match edit:
        case RenameCategory():
            return f"category {edit.category + 1} renamed to {edit.name}"
        case DropCategory():
            return f"{name_of(edit.category)} dropped"
        case KeepCategory():
            return f"{name_of(edit.category)} kept"
        case MergeCategories():
            return f"{_listed([name_of(kind) for kind in edit.categories])} merged into {name_of(edit.into)}"
        case AssignTracks():
            return f"{_tracks(edit.tracks)} put into {name_of(edit.category)}"
        case MergeTracks():
            return f"{_tracks(edit.tracks[1:])} merged into {edit.tracks[0]}"
        case SplitTrack():
            return f"track {edit.track} split at frame {edit.frame}: from there on it is track {edit.new}"
        case SwapTracks():
            return f"{_tracks(edit.tracks)} swapped from frame {edit.frame} on"
        case DropTracks():
            return f"{_tracks(edit.tracks)} dropped"
        case KeepTracks():
            return f"{_tracks(edit.tracks)} brought back"
        case CheckVideo():
            return "marked as checked"
        case UncheckVideo():
            return "no longer marked as checked"


def _tracks(numbers: tuple[int, ...]) -> str:
    return f"track{'s' if len(numbers) > 1 else ''} {_listed([str(number) for number in numbers])}"


def _listed(words: list[str]) -> str:
    if len(words) > 6:
        words = [*words[:5], f"{len(words) - 5} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
