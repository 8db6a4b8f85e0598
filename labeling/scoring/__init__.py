"""How good are the labels of a store?

`score` compares a store with the truth, clip by clip, and returns `Scores`: figures for each clip, their mean, the
frames where labels and truth agree least, and all that was not judged, with reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from labeling.folder import Source
from labeling.importing.matching import Videos
from labeling.importing.sequence import ImportProblem
from labeling.metrics import follow, match, present
from labeling.places import Place
from labeling.scoring.aside import judged
from labeling.scoring.clips import within
from labeling.scoring.figures import Figures, mean, measure, partners_of
from labeling.scoring.truth import Truth, read_truth
from labeling.scoring.worst import WorstFrame, worst_frames
from labeling.store import Store, StoreError, VideoLabels, open_store

__all__ = ["ClipScore", "Figures", "Progress", "Scores", "score"]

Progress = Callable[[str, int, int], None]  # clip, clips done, clips expected


class Film(NamedTuple):
    """A labeled video."""

    id: str
    source: str  # path below the folder of videos
    size: tuple[int, int]  # height and width
    sha256: str


@dataclass(frozen=True)
class ClipScore:
    """How good the labels of one clip are."""

    name: str
    figures: Figures
    frames: int
    objects: int  # that must be found
    tracks: int  # that are judged
    film: Film | None  # None: the store has no such clip, and all of its objects count as missed
    aside: int = 0  # tracks that may be there or not
    standing: int = 0  # tracks that stand still, where the truth lists what moves
    note: str = ""
    worst: list[WorstFrame] = field(default_factory=list)
    partners: list[tuple[str, int]] = field(default_factory=list)  # kind of an object, category of its track


@dataclass(frozen=True)
class Scores:
    """How good the labels of a store are."""

    store: Store
    truth: str
    clips: list[ClipScore]
    problems: dict[str, str]  # clip -> why it could not be judged
    notes: list[str]

    @property
    def mean(self) -> Figures:
        """The mean over the clips; the index of the categories is that of all clips together."""
        return mean((clip.figures for clip in self.clips), [pair for clip in self.clips for pair in clip.partners])


def score(store: str | Place | Store, truth: str | Place | Store, progress: Progress | None = None) -> Scores:
    """Compare the labels in a store with true ones.

    Args:
        store: A label store; where labels were reviewed, the reviewed ones count.
        truth: Another label store, a folder of clips with JSON beside them, or a folder of MOTChallenge or COCO video.
        progress: Hears of the clip, how many are done and how many there are.

    Raises:
        StoreError: One of the two cannot be read, or there is nothing to compare.
    """
    labels = store if isinstance(store, Store) else open_store(store)
    place = str(truth.path if isinstance(truth, Store) else truth)
    sources = [Source(found.id, found.source, labels.path) for found in labels.values()]
    videos = Videos(sources)
    clips: list[ClipScore] = []
    problems: dict[str, str] = {}
    untold: list[str] = []
    taken: dict[str, str] = {}  # video -> clip
    for number, clip in enumerate(read_truth(truth)):
        if progress:
            progress(clip.name, number, max(number + 1, len(sources)))
        try:
            source = videos.search(clip.called, clip.name)
            if source and source.id in taken:
                raise ImportProblem(f"{taken[source.id]} is the truth of {source.relative} already.")
            if source:
                taken[source.id] = clip.name
            if isinstance(clip, Truth):
                clips.append(_judge(labels[source.id], clip) if source else _missed(clip))
            elif clip.reason:
                problems[clip.name] = clip.reason
            else:
                untold.append(clip.name)
        except ImportProblem as problem:
            problems[clip.name] = str(problem)
    if not clips:
        reasons = " ".join(list(problems.values())[:3]) or "It lists no clip with true boxes."
        raise StoreError(f"{place} has nothing to judge {labels.path} by. {reasons}")
    same = ["Labels and truth are the same store, so they agree in everything."] if place == str(labels.path) else []
    spare = [source.relative for source in sources if source.id not in taken]
    return Scores(labels, place, clips, problems, same + _notes(clips, untold, spare))


def _judge(labels: VideoLabels, truth: Truth) -> ClipScore:
    """Judge one clip; ImportProblem if the truth is of another video."""
    height, width = labels.size
    if truth.size not in (None, labels.size):
        given = f"{truth.size[1]} x {truth.size[0]}" if truth.size else ""
        raise ImportProblem(f"{truth.where}: it is for {given} pixels, {labels.source} has {width} x {height}.")
    frames = truth.frames or max(labels.frames, len(truth.boxes))
    truth = replace(
        truth, boxes=_lasting(within(truth.boxes, labels.size), frames), optional=_lasting(truth.optional, frames),
        loose=truth.loose[(truth.loose[:, 0] >= 0) & (truth.loose[:, 0] < frames)],
    )  # fmt: skip
    found = _lasting(labels.boxes.astype(np.float64), frames)
    counted = judged(found, truth, width)
    matching, followed = match(counted.boxes, truth.boxes), follow(counted.boxes, truth.boxes)
    partners = partners_of(matching, truth.kinds, labels.tracks.category[counted.tracks])
    score = _lasting(labels.tracks.score[..., None], frames)[..., 0][:, counted.tracks]
    names = [str(instance) for instance in labels.tracks.instance[counted.tracks]]
    figures = measure(
        counted.boxes, score, truth.boxes, matching, followed, partners, width, counted.standing_boxes
    )  # fmt: skip
    return ClipScore(
        truth.name, figures, frames, _seen(truth.boxes), len(counted.tracks),
        Film(labels.id, labels.source, labels.size, str(labels.attributes["sha256"])), counted.aside, counted.standing,
        "" if frames == labels.frames else f"the truth has {frames} frames, the labels have {labels.frames}",
        worst_frames(counted.boxes, truth.boxes, matching, followed.switches, (names, truth.names), found), partners,
    )  # fmt: skip


def _missed(truth: Truth) -> ClipScore:
    """A clip that the store does not have: whatever is in it was not found."""
    nothing = np.zeros((len(truth.boxes), 0, 4))
    matching = match(nothing, truth.boxes)
    figures = measure(nothing, nothing[..., 0], truth.boxes, matching, follow(nothing, truth.boxes), [], 1)
    note = "not in the store, so all of its objects count as missed"
    return ClipScore(truth.name, figures, len(truth.boxes), _seen(truth.boxes), 0, None, note=note)


def _lasting(boxes: np.ndarray, frames: int) -> np.ndarray:
    """Arrays over time that last so many frames: longer ones are cut, shorter ones filled up with NaN."""
    lasting = np.full((frames, *boxes.shape[1:]), np.nan)
    lasting[: len(boxes)] = boxes[:frames]
    return lasting


def _seen(boxes: np.ndarray) -> int:
    return int(present(boxes).any(axis=0).sum())


def _notes(clips: list[ClipScore], untold: list[str], spare: list[str]) -> list[str]:
    notes = [f"{clip.name}: {clip.note}." for clip in clips if clip.note and clip.film]
    if missing := [clip.name for clip in clips if clip.film is None]:
        notes.append(f"{_some(missing)} of the truth: not in the store, so all objects there count as missed.")
    if untold:
        notes.append(f"{_some(untold)} of the truth: said to have no true boxes, so not judged.")
    if spare:
        notes.append(f"{_some(spare)} of the store: not in the truth, so not judged.")
    return notes


def _some(names: list[str]) -> str:
    """How many there are, and the names of the first."""
    listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} clip{'' if len(names) == 1 else 's'} ({listed})"
