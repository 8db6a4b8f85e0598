"""What happens to the objects of a scene from one frame to the next?

Matches blobs with targets, finds targets inside blobs that they share, begins new ones and gives up lost ones.
"""

from __future__ import annotations

import numpy as np

from labeling.embeddings import Embedder
from labeling.masks import Mask, intersection
from labeling.trackers import Observation
from labeling.trackers.borders import Borders
from labeling.trackers.grouping import flexible_one, gap, is_piece
from labeling.trackers.history import History
from labeling.trackers.kinds import Heap, Kind, Kinds
from labeling.trackers.matching import match, match_lost
from labeling.trackers.splitting import Part, Placement, remainder, split
from labeling.trackers.targets import INSIDE, NEVER, RIGID, Target, sides
from labeling.trackers.template import Template
from labeling.trackers.views import Blob, View, blob_of, joined

VISIBLE = 0.12  # share of an object that must be seen beside the others for its place to count as measured
SURE = 0.6  # the same for an object that was only near the blob
SURE_BY_COLOUR = 0.3  # the same where its colour tells it from the rest of the blob
NEAR = 1.5  # distance, in sizes, from a blob within which an object without a blob may be in it
BREAKING = 4  # frames for which an object may come in pieces before the pieces are taken for objects
PIECE = 0.6  # share of a piece that lies inside the expected shape of the object it broke off
CUT_PIECE = 0.3  # the same where the object may go on outside the frame
WHOLE = 5  # sightings alone after which an object is known to be one
OUTGROWN = 1.3  # growth in one frame that an object that keeps its shape does not do by itself
REST = 0.4  # share of a known object's area from which on what is left over of a blob is an object too
RECHECK = 5  # frames after which to ask again whether a blob is a heap of known things
GUESSED = 0.2  # score of a place that was not measured
TOGETHER = 0.8  # score of a place inside a merged blob, as a share of the blob's
DESCRIBED = 3  # looks that a track needs: until it was seen alone as often, those that it is known by stand in


class Follower:
    """Follows the objects of one scene from frame to frame."""

    def __init__(
        self,
        embedder: Embedder,
        targets: list[Target],
        kinds: Kinds,
        borders: Borders,
        born: int,
        patience: int,
        fill: int,
        strictness: float,
    ) -> None:
        """Begin with `targets` already known and `born` track numbers given out."""
        self.embedder = embedder
        self.targets = targets
        self.kinds = kinds
        self.borders = borders
        self.born = born
        self.patience = patience
        self.fill = fill
        self.strictness = strictness
        self.history = History(fill)

    def step(self, view: View, predict: bool = True) -> None:
        """Take in one frame; `predict` is false where the targets' state is already that of this frame."""
        self.history.open(view)
        for target in self.targets:
            if predict:
                target.motion.predict(view.camera)
            target.unseen += 1
            target.unmeasured += 1
        if predict:
            self.borders.meet(self.targets, view.shape)
        blobs = list(view.blobs)
        shapes = [target.expected(view) for target in self.targets]
        owners = match(self.targets, shapes, blobs, view, self.strictness)
        match_lost(self.targets, blobs, owners, view)
        doubtful = {id(self.targets[i]) for i in self._put_into_blobs(blobs, shapes, owners)}
        self._join_pieces(blobs, shapes, owners, view)
        groups = [[self.targets[i] for i in members] for members in owners]
        for blob, group in sorted(zip(blobs, groups, strict=True), key=lambda pair: not pair[1]):
            if not group:
                self._begin(blob, view)
            elif len(group) > 1 or self._outgrown(group[0], blob):
                self._see_merged(group, blob, view, doubtful)
            else:
                self._see_alone(group[0], blob, view)
        self.targets = [target for target in self.targets if self._alive(target, view)]

    def _alive(self, target: Target, view: View) -> bool:
        (x, y), (height, width), margin = target.motion.position, view.shape, target.size
        inside = -margin < x < width + margin and -margin < y < height + margin
        return inside and target.unseen <= min(self.patience, 2 * target.sightings)

    def _put_into_blobs(self, blobs: list[Blob], shapes: list[Mask | None], owners: list[list[int]]) -> set[int]:
        """Put targets that have no blob of their own into the blob that covers the place where they should be.

        Returns those that are only near a blob: whether they are in it remains to be seen.
        """
        found = {i for members in owners for i in members}
        doubtful = set()
        for i, (target, shape) in enumerate(zip(self.targets, shapes, strict=True)):
            if i in found or shape is None or not (target.confirmed or target.merged):
                continue
            area = max(shape.area, 1e-6)
            covered = [intersection(shape, b.mask) / area if m else 0.0 for b, m in zip(blobs, owners, strict=True)]
            best = int(np.argmax(covered)) if covered else -1
            if covered and covered[best] < INSIDE:
                gaps = [gap(shape, b.mask) if m else NEVER for b, m in zip(blobs, owners, strict=True)]
                best = int(np.argmax(covered) if max(covered) > 0 else np.argmin(gaps))
                if gaps[best] > NEAR * target.size or blobs[best].area < 0.8 * target.area:
                    continue
                doubtful.add(i)
            if covered:
                owners[best].append(i)
        return doubtful

    def _join_pieces(self, blobs: list[Blob], shapes: list[Mask | None], owners: list[list[int]], view: View) -> None:
        """Give blobs without a target to the target whose expected shape they are a piece of."""
        for j in range(len(blobs) - 1, -1, -1):
            if owners[j]:
                continue
            for k, members in enumerate(owners):
                if not members:
                    continue
                owner = max(members, key=lambda i: self.targets[i].area)
                target, shape = self.targets[owner], shapes[owner]
                if shape is None:
                    continue
                inside = intersection(shape, blobs[j].mask) / max(blobs[j].area, 1e-6)
                cut = inside > (0 if target.composite else CUT_PIECE) and self._cut_by_border(
                    target, blobs[k], blobs[j], view
                )
                cut = cut or (len(members) == 1 and target.alone >= WHOLE and target.lacks(blobs[k], blobs[j]))
                target.composite |= cut
                whole = len(members) == 1 and target.broken < BREAKING
                if cut or (whole and inside > PIECE and blobs[j].area + blobs[k].area < 1.3 * target.area):
                    blobs[k] = joined(blobs[k], blobs[j], view.image, self.embedder)
                    del blobs[j], owners[j]
                    break

    def _cut_by_border(self, target: Target, first: Blob, second: Blob, view: View) -> bool:
        """May two blobs be one object that goes on outside the frame between them?"""
        common = sides(first.mask, view.shape) & sides(second.mask, view.shape) & target.sides
        return bool(common) and target.alone >= WHOLE and target.rigid < RIGID

    def _see_alone(self, target: Target, blob: Blob, view: View) -> None:
        """A target has a blob for itself, unless the blob turns out to be a heap of known things."""
        target.whole -= 1
        grown = blob.area > OUTGROWN * target.area
        if (target.whole < 0 or grown) and not (target.confirmed and target.rigid >= RIGID):
            heap = self.kinds.explain(blob.mask, view.image)
            if heap is not None:
                self._see_heap(target, heap, blob, view)
                return
            target.whole = RECHECK
        target.see(blob, view)
        self.kinds.learn(target)
        self.borders.learn(target, blob.centre)
        self._found(view, target, blob.mask, blob.score, blob.looks if blob.described else None)

    def _see_heap(self, target: Target, heap: Heap, blob: Blob, view: View) -> None:
        """What was taken for one object is several: it goes on as the one that is most like it and nearest to it."""
        rest = None if heap.rest is None else blob_of(heap.rest, blob.score, view.image, self.embedder)
        choices = [(placement.centre, kind.looks) for kind, placement in heap.parts]
        choices += [] if rest is None else [(rest.centre, rest.looks)]
        own = int(np.argmin([target.distance(centre, looks) for centre, looks in choices]))
        if own < len(heap.parts):
            kind, placement = heap.parts[own]
            target.become(kind.template, kind.looks, kind.area, kind.rigid, placement.centre)
            mask = target.template.mask(placement.centre, *view.shape)
            if mask is not None:
                self._found(view, target, mask, blob.score * TOGETHER, None)
        elif rest is not None:
            template = Template.remember(rest.mask, rest.centre, view.image)
            target.become(template, rest.looks, rest.area, target.rigid, rest.centre)
            self._found(view, target, rest.mask, blob.score * TOGETHER, None)
        self._begin_heap(heap, rest, blob, view, without=own)

    def _begin_heap(self, heap: Heap, rest: Blob | None, blob: Blob, view: View, without: int = -1) -> None:
        """New or lost targets for the parts of a heap, but for the one that is known."""
        for index, (kind, placement) in enumerate(heap.parts):
            if index != without:
                self._begin_part(kind, placement, blob, view)
        if rest is not None and without != len(heap.parts):
            self._begin_whole(rest, view, merged=True)

    def _see_merged(self, targets: list[Target], blob: Blob, view: View, doubtful: set[int]) -> None:
        """Find each of several targets inside the blob that they share; `doubtful` ones may not be there at all."""
        largest = max(targets, key=lambda target: target.area)
        fragments = [target for target in targets if target is not largest and is_piece(target, targets)]
        if fragments:
            self.targets = [target for target in self.targets if not any(target is other for other in fragments)]
            targets = [target for target in targets if not any(target is other for other in fragments)]
            for piece in fragments:
                largest.absorb(piece)
            if len(targets) == 1:
                self._see_alone(targets[0], blob, view)
                return
        flexible = flexible_one(targets)
        parts = [
            Part(t.template, t.place(view), max(t.motion.deviation, (id(t) in doubtful) * t.size / 2), t is flexible)
            for t in targets
        ]
        placements, _ = split(blob.mask, parts, view.image)
        needed = SURE if flexible is None else SURE_BY_COLOUR
        absent = [id(t) in doubtful and p.alone < needed for t, p in zip(targets, placements, strict=True)]
        if any(absent):
            there = [target for target, away in zip(targets, absent, strict=True) if not away]
            if len(there) == 1 and not self._outgrown(there[0], blob):
                self._see_alone(there[0], blob, view)
            else:
                self._see_merged(there, blob, view, set())
            return
        shapes = []
        for target, placement in zip(targets, placements, strict=True):
            target.unseen = 0
            target.merged = True
            target.together += 1
            if placement.mask is not None:
                shown = blob_of(placement.mask, blob.score * TOGETHER, view.image, self.embedder)
                target.see(shown, view)
                self._found(view, target, shown.mask, shown.score, None)
                shapes.append(shown.mask)
                continue
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
            elif target.unmeasured <= self.fill:
                self._record(view, target, mask, GUESSED, None)
        if all(target.rigid >= RIGID for target in targets):
            rest = remainder(blob.mask, shapes, REST * min(target.area for target in targets))
            if rest is not None:
                self._begin(blob_of(rest, blob.score, view.image, self.embedder), view, merged=True)

    def _outgrown(self, target: Target, blob: Blob) -> bool:
        """Is a blob so much larger than a target that keeps its shape that something else must be in it?"""
        return target.confirmed and target.rigid >= RIGID and blob.area > OUTGROWN * target.area

    def _begin(self, blob: Blob, view: View, merged: bool = False) -> None:
        """A blob that belongs to nobody is a new object, or several of known kinds, or one that was lost."""
        heap = self.kinds.explain(blob.mask, view.image)
        if heap is None:
            self._begin_whole(blob, view, merged)
        else:
            rest = None if heap.rest is None else blob_of(heap.rest, blob.score, view.image, self.embedder)
            self._begin_heap(heap, rest, blob, view)

    def _begin_whole(self, blob: Blob, view: View, merged: bool) -> None:
        """A blob is a new object, or one that was lost."""
        target = self._recall(blob, view, merged)
        if target is None:
            target = Target.begin(-1, blob, view.image)
            self.targets.append(target)
        else:
            target.motion.update(blob.centre, doubt=3.0 if merged else 1.0, learn=False)
        target.merged = merged
        self._found(view, target, blob.mask, blob.score * (TOGETHER if merged else 1), None if merged else blob.looks)

    def _begin_part(self, kind: Kind, placement: Placement, blob: Blob, view: View) -> None:
        """A new object, or a lost one, of a known kind inside a blob."""
        mask = kind.template.mask(placement.centre, *view.shape)
        if mask is None:
            return
        alike = Blob(mask, blob.score, placement.centre, kind.area, lambda: kind.looks)
        target = self._recall(alike, view, True)
        if target is None:
            target = Target.begin(-1, alike, view.image)
            self.targets.append(target)
        target.become(kind.template, kind.looks, kind.area, kind.rigid, placement.centre)
        self._found(view, target, mask, blob.score * TOGETHER, None)

    def _recall(self, blob: Blob, view: View, merged: bool) -> Target | None:
        """The lost target that a blob without owner is most likely to be."""
        lost = [target for target in self.targets if target.unmeasured > 0 and target.confirmed]
        costs = [target.far_cost(blob, view.shape, merged) for target in lost]
        return lost[int(np.argmin(costs))] if costs and min(costs) < NEVER else None

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
        if looks is None and target.confirmed and target.described < DESCRIBED:
            looks = target.looks
        target.described += looks is not None
        seen = Observation(view.index, target.number, mask, score, 0.0, looks)
        self.history.add(seen, target.motion, measured=target.unmeasured == 0)
