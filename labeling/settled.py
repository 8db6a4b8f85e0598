"""Which videos of a folder are complete?

A video that is still being copied looks like one that is broken. Each look at the folder takes names, sizes and times,
and reads no file; a video is settled once they have been the same for a while. A folder of pictures is one video, and
settled as a whole. Looking again and again works on every disk and in buckets, where nobody tells of changes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from labeling.folder import Folder, Source, find_videos
from labeling.places import Place, Url, absolute, states_of
from labeling.problems import RunError


@dataclass(frozen=True)
class Look:
    """What a folder holds at one moment."""

    settled: dict[Source, int]  # with a mark that changes when the video does
    growing: list[Source]  # new or changed a moment ago
    unreadable: dict[str, str]  # relative path -> why it could not be looked into

    @property
    def names(self) -> set[str]:
        """Relative paths of all videos."""
        return {source.relative for source in (*self.settled, *self.growing)}


class Lookout:
    """Looks at a folder again and again, and remembers since when each video has been as it is."""

    def __init__(self, folder: str | Place, settle: float) -> None:
        """Watch a folder whose videos are settled after so many seconds without a change."""
        self.root, self._settle = absolute(folder), settle
        self._seen: dict[str, tuple[int, float]] = {}  # relative path -> mark, and since when it is so
        if self.root.exists() and not self.root.is_dir():
            raise RunError(f"{self.root} is no folder. Give the folder that videos are dropped into.")

    def look(self) -> Look:
        """Look once; OSError or StorageError if the folder cannot be looked into right now."""
        found, now = self._found(), time.monotonic()
        settled, growing, seen = dict[Source, int](), list[Source](), dict[str, tuple[int, float]]()
        for source, state in zip(found.sources, states_of([one.path for one in found.sources]), strict=True):
            mark = hash(tuple(state))
            known, since = self._seen.get(source.relative, (None, now))
            seen[source.relative] = mark, since if known == mark else now
            if now - seen[source.relative][1] >= self._settle:
                settled[source] = mark
            else:
                growing.append(source)
        self._seen = seen
        return Look(settled, growing, found.unreadable)

    def _found(self) -> Folder:
        try:
            found = find_videos(self.root)
        except FileNotFoundError:
            if isinstance(self.root, Url):  # folders of buckets are there once something is in them
                return Folder(self.root, [], {})
            raise
        if found.root == self.root:
            return found
        mixed = f"{self.root} holds pictures itself. Put each recording into a folder of its own in there."
        return Folder(self.root, [], {**found.unreadable, ".": mixed})
