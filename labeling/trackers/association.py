"""Which mask on this frame is which object of the frames before?

Takes proposals frame by frame and yields observations: each mask with the number of its track. Objects are predicted,
matched with the proposals by place, overlap and looks, told apart inside merged blobs, and remembered while hidden.
The state is that of the objects in view and of a few frames, so memory does not grow with the video.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice

import numpy as np
from pydantic import BaseModel, Field
from scipy.optimize import linear_sum_assignment

from labeling.embeddings import Embedder
from labeling.masks import Mask, intersection
from labeling.proposals import FrameProposals
from labeling.trackers import Observation
from labeling.trackers.history import History
from labeling.trackers.splitting import Part, remainder, split
from labeling.trackers.targets import INSIDE, NEVER, Target
from labeling.trackers.views import Blob, View, blob_of, joined, scenes, views

VISIBLE = 0.12  # share of an object that must be seen beside the others for its place to count as measured
BREAKING = 4  # frames for which an object may come in pieces before the pieces are taken for objects
PIECE = 0.6  # share of a piece that lies inside the expected shape of the object it broke off
GUESSED = 0.2  # score of a place that was not measured
RIGID = 0.85  # share of a shape that stays from sighting to sighting, from which on it is not expected to grow
OUTGROWN = 1.3  # growth in one frame that such an object does not do by itself
REST = 0.4  # share of a known object's area from which on what is left over of a blob is an object too
TOGETHER = 0.8  # score of a place inside a merged blob, as a share of the blob's


class AssociationConfig(BaseModel, extra="forbid", frozen=True):
    """Settings of the association tracker."""

    patience: int = Field(20, ge=0, description="Frames for which a lost object is looked for where it would be.")
    fill: int = Field(10, ge=0, description="Gaps of up to this many frames between two sightings are interpolated.")
    look_ahead: int = Field(32, ge=1, description="Frames seen ahead at the start of a scene, to know what is merged.")
    strictness: float = Field(2.2, gt=0, description="Highest cost of a match; lower makes more and shorter tracks.")


class AssociationTracker:
    """Kalman prediction, linear assignment, and splitting of merged blobs by remembered shapes."""

    def __init__(self, config: AssociationConfig | None = None) -> None:
        """Set up with `config`, or the defaults."""
        self.config = config or AssociationConfig()

    def track(self, frames: Iterable[FrameProposals], embedder: Embedder) -> Iterator[Observation]:
        """Yield what is seen of each object, in frame order, a few frames behind the proposals."""
        born = 0
        for scene in scenes(views(frames, embedder)):
            opening = list(islice(scene, self.config.look_ahead))
            follower = _Follower(self.config, embedder, born, self._known_at_start(opening, embedder))
            for number, view in enumerate(chain(opening, scene)):
                follower.step(view, predict=number > 0)
                yield from follower.history.release(view.index - self.config.fill)
            yield from follower.history.release()
            born = follower.born

    def _known_at_start(self, opening: list[View], embedder: Embedder) -> list[Target]:
        """Follow a scene's first frames backwards: objects that begin as one blob are known from when they parted."""
        follower = _Follower(self.config, embedder, 0, [])
        camera = np.eye(3)
        for number, view in enumerate(reversed(opening)):
            follower.step(replace(view, camera=camera), predict=number > 0)
            follower.history.forget()
            camera = np.linalg.inv(view.camera)
        known = [target for target in follower.targets if target.confirmed and target.unmeasured <= BREAKING]
        for target in known:
            target.number = -1
            target.motion.velocity = -target.motion.velocity
        return known


class _Follower:
    """Follows the objects of one scene from frame to frame."""

    def __init__(self, config: AssociationConfig, embedder: Embedder, born: int, targets: list[Target]) -> None:
        self.config = config
        self.embedder = embedder
        self.born = born
        self.targets = targets
        self.history = History(config.fill)

    def step(self, view: View, predict: bool = True) -> None:
        """Take in one frame; `predict` is false where the targets' state is already that of this frame."""
        self.history.open(view)
        for target in self.targets:
            if predict:
                target.motion.predict(view.camera)
            target.unseen += 1
            target.unmeasured += 1
        blobs = list(view.blobs)
        shapes = [target.expected(view) for target in self.targets]
        owners = self._match(blobs, shapes, view)
        self._match_lost(blobs, owners)
        self._put_into_blobs(blobs, shapes, owners)
        self._join_pieces(blobs, shapes, owners, view)
        for blob, members in zip(blobs, owners, strict=True):
            if not members:
                target = Target.begin(-1, blob, view.image)
                self.targets.append(target)
                self._record(view, target, blob.mask, blob.score, blob.looks)
            elif len(members) == 1 and not self._outgrown(self.targets[members[0]], blob):
                target = self.targets[members[0]]
                target.see(blob, view)
                self._found(view, target, blob.mask, blob.score, blob.looks)
            else:
                self._see_merged([self.targets[i] for i in members], blob, view)
        self.targets = [target for target in self.targets if self._alive(target, view)]

    def _alive(self, target: Target, view: View) -> bool:
        (x, y), (height, width), margin = target.motion.position, view.shape, target.size
        inside = -margin < x < width + margin and -margin < y < height + margin
        return inside and target.unseen <= (self.config.patience if target.confirmed else 2)

    def _match(self, blobs: list[Blob], shapes: list[Mask | None], view: View) -> list[list[int]]:
        """For each blob the targets that are in it, at most one so far."""
        owners: list[list[int]] = [[] for _ in blobs]
        places = [target.place(view) for target in self.targets]
        known = zip(self.targets, shapes, places, strict=True)
        cost = np.array([[target.cost(shape, place, blob) for blob in blobs] for target, shape, place in known])
        for i, j in _assign(cost, self.config.strictness):
            owners[j].append(i)
        return owners

    def _match_lost(self, blobs: list[Blob], owners: list[list[int]]) -> None:
        """Look for targets without a blob farther away, among the blobs without a target."""
        found = {i for members in owners for i in members}
        lost = [i for i in range(len(self.targets)) if i not in found]
        free = [j for j, members in enumerate(owners) if not members]
        cost = np.array([[self.targets[i].far_cost(blobs[j]) for j in free] for i in lost])
        for i, j in _assign(cost, NEVER):
            owners[free[j]].append(lost[i])

    def _put_into_blobs(self, blobs: list[Blob], shapes: list[Mask | None], owners: list[list[int]]) -> None:
        """Put targets that have no blob of their own into the blob that covers the place where they should be."""
        found = {i for members in owners for i in members}
        for i, (target, shape) in enumerate(zip(self.targets, shapes, strict=True)):
            if i in found or shape is None or not (target.confirmed or target.merged):
                continue
            area = max(shape.area, 1e-6)
            covered = [intersection(shape, b.mask) / area if m else 0.0 for b, m in zip(blobs, owners, strict=True)]
            if covered and max(covered) >= INSIDE:
                owners[int(np.argmax(covered))].append(i)

    def _join_pieces(self, blobs: list[Blob], shapes: list[Mask | None], owners: list[list[int]], view: View) -> None:
        """Give blobs without a target to the target whose expected shape they are a piece of."""
        for j in range(len(blobs) - 1, -1, -1):
            if owners[j]:
                continue
            for k, members in enumerate(owners):
                if len(members) != 1 or (shape := shapes[members[0]]) is None:
                    continue
                target = self.targets[members[0]]
                if not target.confirmed or target.broken >= BREAKING:
                    continue
                inside = intersection(shape, blobs[j].mask) / max(blobs[j].area, 1e-6)
                if inside > PIECE and blobs[j].area + blobs[k].area < 1.3 * target.area:
                    blobs[k] = joined(blobs[k], blobs[j], view.image, self.embedder)
                    del blobs[j], owners[j]
                    break

    def _see_merged(self, targets: list[Target], blob: Blob, view: View) -> None:
        """Find each of several targets inside the blob that they share."""
        parts = [Part(t.template, t.place(view), t.motion.deviation) for t in targets]
        placements, _ = split(blob.mask, parts, view.image)
        shapes = []
        for target, placement in zip(targets, placements, strict=True):
            target.unseen = 0
            target.merged = True
            measured = placement.alone >= VISIBLE
            if measured:
                target.motion.update(placement.centre, doubt=2.0 / max(placement.alone, 0.3), learn=False)
            centre = placement.centre if measured else target.place(view)
            mask = target.template.mask(centre, *view.shape)
            if mask is None:
                continue
            shapes.append(mask)
            if measured:
                self._found(view, target, mask, blob.score * TOGETHER, None)
            elif target.unmeasured <= self.config.fill:
                self._record(view, target, mask, GUESSED, None)
        if all(target.rigid >= RIGID for target in targets):
            self._begin_from_rest(blob, shapes, min(target.area for target in targets), view)

    def _outgrown(self, target: Target, blob: Blob) -> bool:
        """Is a blob so much larger than a target that keeps its shape that something else must be in it?"""
        return target.confirmed and target.rigid >= RIGID and blob.area > OUTGROWN * target.area

    def _begin_from_rest(self, blob: Blob, shapes: list[Mask], area: float, view: View) -> None:
        """What known targets leave over of their blob is an object that came into view merged with them."""
        rest = remainder(blob.mask, shapes, REST * area)
        if rest is not None:
            target = Target.begin(-1, blob_of(rest, blob.score, view.image, self.embedder), view.image)
            target.merged = True
            self.targets.append(target)
            self._record(view, target, rest, blob.score * TOGETHER, None)

    def _found(self, view: View, target: Target, mask: Mask, score: float, looks: np.ndarray | None) -> None:
        """A target's place was measured."""
        if target.confirmed and target.number >= 0:
            self.history.fill_gap(target.number, target.template, target.motion.position)
        target.sightings += 1
        target.unseen = target.unmeasured = 0
        self._record(view, target, mask, score, looks)

    def _record(self, view: View, target: Target, mask: Mask, score: float, looks: np.ndarray | None) -> None:
        if target.number < 0:
            target.number, self.born = self.born, self.born + 1
        seen = Observation(view.index, target.number, mask, score, 0.0, looks)
        self.history.add(seen, target.motion, measured=target.unmeasured == 0)


def _assign(cost: np.ndarray, limit: float) -> list[tuple[int, int]]:
    """Pairs of the cheapest assignment that cost less than `limit`."""
    if not cost.size:
        return []
    rows, columns = linear_sum_assignment(np.minimum(cost, limit))
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if cost[i, j] < limit]
