"""How are the objects of one scene found and followed?

A scene is taken in by windows of frames. Known objects are followed through a window first. What proposals show beyond
them are newcomers: each begins at its best proposal and is followed from there through the window, both ways; those
that were there before the window are followed back into frames decoded again. A newcomer that looks like a lost object
is that object. Every frame of a window is encoded once for all objects.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from labeling.embeddings import Embedder
from labeling.proposals import FrameProposals
from labeling.trackers.sam_config import SamConfig
from labeling.trackers.sam_held import Held, Sighting
from labeling.trackers.sam_masks import mask_of, overlap
from labeling.trackers.sam_objects import Candidate, Followed, candidate, is_group, recognised, unknown
from labeling.trackers.sam_protocol import Encoding, Segment, Segmenter, Session
from labeling.video import Frame, Video

OBJECT = 0  # every object has a session of its own: a prompt for one would coarsen the memory of others
TWICE = 5  # frames on which two objects have the same mask before they are taken for one


class Scene:
    """The objects between two cuts."""

    def __init__(
        self, config: SamConfig, segmenter: Segmenter, embedder: Embedder, video: Video, held: Held,
        numbers: Iterator[int], start: int,
    ) -> None:  # fmt: skip
        """Begin at frame `start`; `held` takes what is seen, `numbers` are those of new objects."""
        self._config, self._segmenter, self._embedder, self._video = config, segmenter, embedder, video
        self._held, self._numbers, self._start = held, numbers, start
        self._followed: list[Followed] = []
        self._lost: list[Followed] = []  # no longer followed, but known by their looks

    def take(self, window: Sequence[FrameProposals]) -> None:
        """Follow all objects through the next frames."""
        for proposed in window:
            self._held.expect(proposed.frame.index, proposed.camera)
        encodings = _Encodings(self._segmenter, [proposed.frame for proposed in window])
        for proposed in window:
            for known in self._followed:
                self._step(known, proposed.frame, encodings.of(proposed.frame.index))
        frames = range(window[0].frame.index, window[-1].frame.index + 1)
        self._end_doubles(frames)
        newcomers = self._newcomers(window, encodings)
        self._describe(window, [*self._followed, *self._lost, *newcomers])
        self._recognise(newcomers)
        self._followed += newcomers
        self._end_doubles(frames)
        self._look_back(frames.start)
        self._rest()

    def _step(self, known: Followed, frame: Frame, encoding: Encoding) -> None:
        """Follow an object to the next frame."""
        sighting = self._sighting(known.session.step(encoding)[OBJECT], frame, known.score)
        known.missing = 0 if sighting else known.missing + 1
        if sighting:
            known.last = frame.index
            self._held.add(frame.index, known.number, sighting)

    def _sighting(self, segment: Segment, frame: Frame, score: float) -> Sighting | None:
        """What is seen of an object, if it is there."""
        if segment.presence < 0:
            return None
        mask = mask_of(segment.logits, *frame.image.shape[:2])
        if mask is None or mask.area < self._config.min_area:
            return None
        return Sighting(mask, score / (1 + float(np.exp(-segment.presence))))

    def _newcomers(self, window: Sequence[FrameProposals], encodings: _Encodings) -> list[Followed]:
        """Objects that proposals show and that nobody follows yet, each followed through the window."""
        frames = {proposed.frame.index: proposed.frame for proposed in window}
        looks = {proposed.frame.index: proposed.proposals for proposed in window if proposed.looked}
        shape = window[0].frame.image.shape[:2]
        candidates = [candidate(index, each, *shape) for index, found in looks.items() for each in found]
        seen = {index: [sighting.mask for sighting in self._held.on(index).values()] for index in looks}
        candidates = unknown(candidates, seen, self._config.claimed)
        candidates.sort(key=lambda each: each.worth, reverse=True)
        newcomers: list[Followed] = []
        while candidates and len(newcomers) < self._room():
            best, *candidates = candidates
            newcomer, sightings = self._begin(best, frames, encodings)
            masks = {index: sighting.mask for index, sighting in sightings.items()}
            if not masks or is_group(masks, looks):
                continue
            for index, sighting in sightings.items():
                self._held.add(index, newcomer.number, sighting)
            newcomers.append(newcomer)
            candidates = unknown(candidates, {index: [mask] for index, mask in masks.items()}, self._config.claimed)
        return newcomers

    def _room(self) -> int:
        """How many objects more may be followed; those that are missing make way."""
        return self._config.max_objects - sum(known.missing == 0 for known in self._followed)

    def _begin(
        self, best: Candidate, frames: dict[int, Frame], encodings: _Encodings
    ) -> tuple[Followed, dict[int, Sighting]]:
        """Follow a proposal from its frame to both ends of a window."""
        start, score, gone = best.frame, best.proposal.score, self._config.gone
        sightings: dict[int, Sighting] = {}

        def follow(order: Sequence[int], patience: int) -> tuple[Session, int]:
            session, missing = self._segmenter.session(), 0
            session.add(OBJECT, best.proposal.mask.placed(*frames[start].image.shape[:2]))
            for index in order:
                sighting = self._sighting(session.step(encodings.of(index))[OBJECT], frames[index], score)
                missing = 0 if sighting else missing + 1
                if sighting:
                    sightings[index] = sighting
                elif missing >= patience:
                    break
            return session, missing

        back, missing_back = follow(range(start, min(frames) - 1, -1), gone)
        session, missing = follow(range(start, max(frames) + 1), len(frames))
        first, last = min(sightings, default=start), max(sightings, default=start)
        newcomer = Followed(next(self._numbers), session, score, first, last, missing)
        if missing_back < gone and min(frames) > self._start:
            newcomer.back, newcomer.missing_back = back, missing_back
        return newcomer, sightings

    def _describe(self, window: Sequence[FrameProposals], objects: Sequence[Followed]) -> None:
        """Look at all objects on the frames that the proposer looked at."""
        looked = [proposed.frame for proposed in window if proposed.looked and self._held.on(proposed.frame.index)]
        seen = [self._held.on(frame.index) for frame in looked]
        masks = [[sighting.mask for sighting in sightings.values()] for sightings in seen]
        if not looked:
            return
        known = {each.number: each for each in objects}
        found = self._embedder.embed_frames([frame.image for frame in looked], masks)
        for frame, sightings, embeddings in zip(looked, seen, found, strict=True):
            for (number, sighting), looks in zip(list(sightings.items()), embeddings, strict=True):
                self._held.add(frame.index, number, replace(sighting, looks=looks))
                if number in known:  # it may have ended in this window
                    known[number].describe(looks)

    def _recognise(self, newcomers: Sequence[Followed]) -> None:
        """Give newcomers that are lost objects their number and what the network was told of them."""
        lost = [*self._lost, *(known for known in self._followed if known.missing)]
        for row, column in recognised(newcomers, lost, self._config.likeness):
            self._merge(newcomers[row], lost[column])

    def _merge(self, newcomer: Followed, known: Followed) -> None:
        """A newcomer turns out to be a known object that was lost."""
        self._held.rename(newcomer.number, known.number)
        newcomer.session.inherit(OBJECT, known.session)
        newcomer.number, newcomer.score = known.number, max(newcomer.score, known.score)
        if known.looks is not None:
            newcomer.describe(known.looks)
        newcomer.first = known.first
        self._lost = [each for each in self._lost if each is not known]
        self._followed = [each for each in self._followed if each is not known]

    def _look_back(self, stop: int) -> None:
        """Follow newcomers from a window's first frame `stop` back to where they appeared, chunk by chunk."""
        limit = max(self._start, stop - self._config.reach)
        while stop > limit and self._going_back():
            begin = max(limit, stop - self._config.window)
            for frame in reversed(self._decoded(begin, stop)):
                if going := self._going_back():
                    encoding = self._segmenter.encode(frame.image)
                    for each, session in going:
                        self._step_back(each, session, frame, encoding)
            stop = begin
        for each, _ in self._going_back():
            each.back = None

    def _going_back(self) -> list[tuple[Followed, Session]]:
        return [(each, each.back) for each in self._followed if each.back is not None]

    def _decoded(self, begin: int, stop: int) -> list[Frame]:
        frames = self._video.frames(begin)
        found = list(islice(frames, stop - begin))
        if isinstance(frames, Generator):
            frames.close()  # the file, too
        return found

    def _step_back(self, each: Followed, session: Session, frame: Frame, encoding: Encoding) -> None:
        """Follow an object one frame back, until it is gone or is where another one was."""
        sighting = self._sighting(session.step(encoding)[OBJECT], frame, each.score)
        each.missing_back = 0 if sighting else each.missing_back + 1
        seen = self._held.on(frame.index)
        if each.missing_back >= self._config.gone or each.number in seen:
            each.back = None
        elif sighting is not None:
            other = next((n for n, s in seen.items() if overlap(s.mask, sighting.mask) >= self._config.same), None)
            each.doubled = 0 if other is None else each.doubled + 1
            if other is None:
                each.first = min(each.first, frame.index)
                self._held.add(frame.index, each.number, sighting)
            elif each.doubled >= TWICE:
                each.back = None
                known = next((k for k in [*self._lost, *self._followed] if k.number == other), None)
                if known is not None and self._goes_on_as(known, each):
                    self._merge(each, known)

    def _end_doubles(self, frames: range) -> None:
        """Of two objects with the same mask on several frames the younger ends, or is the older one if that is lost."""
        for younger in sorted(self._followed, key=lambda each: each.number, reverse=True):
            others = self._followed if younger in self._followed else []  # it may have become another one just now
            for older in [each for each in others if each.number < younger.number]:
                shared = self._doubles(older, younger, frames)
                if len(shared) < TWICE:
                    continue
                if self._goes_on_as(older, younger):
                    self._merge(younger, older)
                else:
                    self._end(younger, min(shared), lost=self._beside(older, younger))
                break

    def _end(self, double: Followed, frame: int, lost: bool) -> None:
        """Stop following an object that became the same as another; if it slipped there, its own object is lost."""
        self._held.forget(double.number, frame)
        self._followed.remove(double)
        if lost:
            double.last, double.missing = frame - 1, 1
            self._lost.append(double)

    def _doubles(self, first: Followed, second: Followed, frames: range | None = None) -> list[int]:
        """The held frames, or those of a range, on which two objects have the same mask."""
        seen = self._held.both(first.number, second.number, frames)
        return [frame for frame, (one, other) in seen.items() if overlap(one.mask, other.mask) >= self._config.same]

    def _goes_on_as(self, lost: Followed, other: Followed) -> bool:
        """Whether an object was lost and another, never seen beside it, is seen later."""
        return lost.missing > 0 and lost.last < other.last and not self._beside(lost, other)

    def _beside(self, first: Followed, second: Followed) -> bool:
        """Whether two objects were seen in two places at once."""
        return len(self._held.both(first.number, second.number)) > len(self._doubles(first, second))

    def _rest(self) -> None:
        """Stop following objects that are missing for long, or the longest missing where there are too many."""
        by_absence = sorted(self._followed, key=lambda each: each.missing)
        kept = [each for each in by_absence[: self._config.max_objects] if each.missing < self._config.patience]
        self._lost += [each for each in by_absence if each not in kept]
        self._lost = sorted(self._lost, key=lambda each: each.last)[-self._config.max_objects :]
        self._followed = [each for each in self._followed if each in kept]


class _Encodings:
    """The frames of a window, each encoded when first asked for and once for all."""

    def __init__(self, segmenter: Segmenter, frames: Sequence[Frame]) -> None:
        self._segmenter, self._frames = segmenter, {frame.index: frame for frame in frames}
        self._known: dict[int, Encoding] = {}

    def of(self, index: int) -> Encoding:
        if index not in self._known:
            self._known[index] = self._segmenter.encode(self._frames[index].image)
        return self._known[index]
