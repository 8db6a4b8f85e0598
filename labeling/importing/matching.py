"""Which video does a sequence of labels belong to?"""

from __future__ import annotations

from pathlib import PurePosixPath

from labeling.folder import Source
from labeling.importing.sequence import ImportProblem, Sequence, in_words
from labeling.video import VIDEO_SUFFIXES


class Videos:
    """Videos by all that they may be called: id, path below the folder, last parts of it, with or without suffix."""

    def __init__(self, sources: list[Source]) -> None:
        self._by_name: dict[str, set[Source]] = {}
        for source in sources:
            for name in _names(source):
                self._by_name.setdefault(name, set()).add(source)

    def find(self, sequence: Sequence) -> Source:
        """The video of a sequence; ImportProblem if there is none, or more than one."""
        if (source := self.search(sequence.called, sequence.where)) is not None:
            return source
        tried = ", ".join(in_words(name) for name in dict.fromkeys(sequence.called[:4]))
        raise ImportProblem(f"{sequence.where}: there is no video of that name among --videos (looked for {tried}).")

    def search(self, called: list[str], where: object) -> Source | None:
        """The video that has the first of these names that any has; ImportProblem if several have it."""
        for name in called:
            found = self._by_name.get(name, set())
            if len(found) == 1:
                return next(iter(found))
            if found:
                several = ", ".join(sorted(source.relative for source in found)[:3])
                raise ImportProblem(
                    f"{where}: {in_words(name)} may be any of {several}. Rename the videos or the labels."
                )
        return None


def _names(source: Source) -> set[str]:
    names = {source.id, _bare(source.id)}
    parts = PurePosixPath(source.relative).parts
    for begin in range(len(parts)):
        tail = "/".join(parts[begin:])
        names |= {tail, _bare(tail)}
    return names


def _bare(name: str) -> str:
    suffix = PurePosixPath(name).suffix
    return name.removesuffix(suffix) if suffix.lower() in VIDEO_SUFFIXES else name
