"""What is known about an object that is being followed, and how well a blob fits it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from labeling.masks import Mask, intersection
from labeling.trackers.kalman import PointFilter
from labeling.trackers.template import Template
from labeling.trackers.views import Blob, View

NEVER = 1e6  # cost of a pair that must not be matched
CONFIRMED = 2  # sightings after which a target is trusted to be an object
LOOKS_MEMORY = 0.1  # how fast the remembered looks follow the object
OFTEN = 4  # frames after which the looks of an object that nothing can be mistaken for are taken again
AREA_MEMORY = 0.3
RIGID_MEMORY = 0.2
RIGID = 0.85  # share of a shape that stays from sighting to sighting, from which on it is not expected to grow
FADING = 0.998  # a frame, of the memory of how large it was
MENDED = 5  # frames in one piece after which it is whole again
DRIFT, DRIFT_MEMORY = 0.013, 0.1  # sizes a frame by which pieces drift apart that are not of one object
DRIFTING = 4  # frames that it takes to see it: a limb that swings moves as fast for a moment
SHRUNK, SLACK, STRETCH = 0.9, 1.1, 1.2  # of its former area, area and extent: part of it is hidden; the rest fits in
JUMP = 0.1  # of the frame's longer side: farthest that a lost object may turn up beyond what its motion foretold
LEAVING = 0.93  # share of its area below which something at the border is cut off by it
INSIDE = 0.5  # share of an expected shape inside a blob from which on the object may be merged into it


@dataclass
class Target:
    """One object."""

    number: int
    motion: PointFilter
    template: Template
    looks: np.ndarray
    area: float
    sightings: int = 0
    alone: int = 0  # sightings that it shared with nobody
    undescribed: int = 0  # sightings alone since its looks were last compared
    described: int = 0  # sightings of its track that were given out with looks
    together: int = 0  # frames in a row in which it shared its blob
    unseen: int = 0  # frames since it was last found, alone or inside a blob
    unmeasured: int = 0  # frames since its place was last measured
    broken: int = 0  # frames in a row in which it came in pieces
    merged: bool = False  # it was last found inside a blob that it shares
    composite: bool = False  # it comes in pieces
    unbroken: int = 0  # frames in a row in which it came in one piece
    extent: np.ndarray = field(default_factory=lambda: np.zeros(2))  # width and height that it lately had, as a whole
    fullest: float = 0.0  # area that it lately had, as a whole
    offset: np.ndarray | None = None  # (2,) from one of its pieces to the other
    drifting: int = 0  # frames over which that was compared
    drift: np.ndarray = field(default_factory=lambda: np.zeros(2))  # how that changes, pixels a frame
    sides: int = 0  # sides of the frame that it touched when it was last seen alone
    leaving: bool = False  # the frame's border cut it off when it was last seen alone
    whole: int = 0  # frames for which nobody need ask again whether it is several objects
    rigid: float = 0.7  # how much of its shape stays the same from sighting to sighting, 0 to 1

    @classmethod
    def begin(cls, number: int, blob: Blob, image: np.ndarray) -> Target:
        """A new object that is all of `blob`."""
        motion = PointFilter(blob.centre, float(np.sqrt(blob.area)))
        return cls(number, motion, Template.remember(blob.mask, blob.centre, image), blob.looks, blob.area)

    @property
    def size(self) -> float:
        """Side of a square of the same area, pixels."""
        return float(np.sqrt(self.area))

    @property
    def gate(self) -> float:
        """How far from its expected place it may well be, pixels."""
        return 0.5 * self.size + 3 * self.motion.deviation

    @property
    def confirmed(self) -> bool:
        """Was it seen often enough to be trusted?"""
        return self.sightings >= CONFIRMED

    def expected(self, view: View) -> Mask | None:
        """The remembered shape where it should be on this frame; None outside the frame."""
        return self.template.roughly(self.place(view), *view.shape)

    def place(self, view: View) -> np.ndarray:
        """Where its centre should be.

        Something not seen to leave the frame is held back at the border. What comes in pieces is looked for where it
        was: each of them moves in its own way.
        """
        if self.composite:
            return self.motion.position - self.motion.velocity
        if self.leaving:
            return self.motion.position
        height, width = view.shape
        (x, y), before, after = self.motion.position.tolist(), self.template.before, self.template.after
        return np.array([_hold(x, before[0], width - after[0]), _hold(y, before[1], height - after[1])])

    def see(self, blob: Blob, view: View) -> None:
        """Take in a blob that is this object and nothing else."""
        self.sides = sides(blob.mask, view.shape)
        clipped = bool(self.sides)
        self.leaving = clipped and (blob.area < LEAVING * self.area or self.rigid < RIGID)
        cut_off = clipped and blob.area < self.area and self.rigid >= RIGID
        if (blob.pieces == 1 or self.composite) and not cut_off:
            before = self.template.mask(blob.centre, *view.shape)
            if before is not None and not clipped:
                self.rigid += RIGID_MEMORY * (mask_iou(before, blob.mask) - self.rigid)
            self.area += AREA_MEMORY * (blob.area - self.area)
            self.template = Template.remember(blob.mask, blob.centre, view.image)
            self.motion.size = self.size
        self.broken = self.broken + 1 if blob.pieces > 1 and not self.composite else 0
        self._remember_extent(blob)
        self.merged = False
        self.alone += 1
        self.together = 0
        self.motion.update(blob.centre)
        self.undescribed += 1
        if blob.described or self.alone < OFTEN or self.undescribed >= OFTEN:
            looks = self.looks + (1 - (1 - LOOKS_MEMORY) ** self.undescribed) * (blob.looks - self.looks)
            self.looks = looks / np.linalg.norm(looks)
            self.undescribed = 0

    def _remember_extent(self, blob: Blob) -> None:
        """Keep how large it was in one piece; the memory fades, as things shrink."""
        x1, y1, x2, y2 = blob.mask.bounds
        self.extent, self.fullest = self.extent * FADING, self.fullest * FADING
        self.unbroken = self.unbroken + 1 if blob.pieces == 1 else 0
        if blob.pieces == 1:
            self.extent = np.maximum(self.extent, (x2 - x1, y2 - y1))
            self.fullest = max(self.fullest, blob.area)
        if self.unbroken > MENDED:
            self.composite = False
            self.drift, self.offset, self.drifting = np.zeros(2), None, 0
        if blob.offset is not None:
            self._compare_offset(blob.offset)

    def _compare_offset(self, offset: np.ndarray) -> None:
        """Pieces that keep drifting apart are no pieces of one thing: forget that it was so large."""
        if self.offset is not None and np.linalg.norm(offset - self.offset) < self.size / 2:
            self.drift = self.drift + DRIFT_MEMORY * (offset - self.offset - self.drift)
            self.drifting += 1
        self.offset = offset
        if self.drifting >= DRIFTING and np.linalg.norm(self.drift) > DRIFT * self.size:
            self.extent, self.fullest, self.composite = np.zeros(2), 0.0, False
            self.drift, self.offset, self.drifting = np.zeros(2), None, 0

    def lacks(self, own: Blob, piece: Blob) -> bool:
        """Is `own` smaller than the target lately was, and `piece` where the rest of it should be?"""
        ax1, ay1, ax2, ay2 = own.mask.bounds
        bx1, by1, bx2, by2 = piece.mask.bounds
        size = max(ax2, bx2) - min(ax1, bx1), max(ay2, by2) - min(ay1, by1)
        fits = size[0] <= STRETCH * self.extent[0] and size[1] <= STRETCH * self.extent[1]
        return fits and own.area < SHRUNK * self.fullest and own.area + piece.area < SLACK * self.fullest

    def absorb(self, piece: Target) -> None:
        """Take over the identity of a target that turned out to be part of this one, if it is the older."""
        self.sightings = max(self.sightings, piece.sightings)
        if piece.number >= 0 and not 0 <= self.number <= piece.number:
            self.number, self.described = piece.number, piece.described

    def cost(self, shape: Mask | None, place: np.ndarray, blob: Blob, limit: float) -> float:
        """How badly a blob fits, 0 to `limit`, where `shape` is expected at `place`; NEVER if it cannot be."""
        distance = float(np.linalg.norm(blob.centre - place))
        gate = self.gate
        shared = intersection(shape, blob.mask) if shape is not None else 0.0
        area = shape.area if shape is not None else self.area
        overlap = shared / max(area + blob.area - shared, 1e-6)
        inside = shared / max(area, 1e-6)
        if distance > gate and inside < 0.3 and overlap < 0.1:
            return NEVER
        growth = min(abs(float(np.log(blob.area / max(self.area, 1e-6)))), 1.5)
        fit = 1.0 - max(overlap, 0.6 * inside)
        misplaced = fit + 0.5 * min(distance / gate, 2.0) + 0.3 * growth + 0.02 * self.unseen
        if misplaced >= limit:
            return NEVER
        unlike = 1.0 - float(self.looks @ blob.looks)
        return NEVER if unlike > 0.5 and inside < INSIDE else misplaced + unlike

    def distance(self, centre: np.ndarray, looks: np.ndarray) -> float:
        """How far something is from this target, in sizes, with its looks counted as far as they differ."""
        apart = float(np.linalg.norm(centre - self.motion.position)) / self.size
        return apart + 2 * (1 - float(self.looks @ looks))

    def become(self, template: Template, looks: np.ndarray, area: float, rigid: float, centre: np.ndarray) -> None:
        """Take over the shape of a known kind, inside a blob at `centre`."""
        self.template, self.looks, self.area, self.rigid = template, looks, area, rigid
        self.motion.size = self.size
        self.motion.update(centre, doubt=3.0, learn=False)
        self.merged = True

    def far_cost(self, blob: Blob, shape: tuple[int, int], merged: bool = False) -> float:
        """How badly a blob fits as the place where a lost object turns up, beyond what its motion foretold.

        Only part of it may be seen where the blob is a piece of a `merged` one. What was leaving the frame, of height,
        width `shape`, comes back over the border.
        """
        if self.leaving and not sides(blob.mask, shape) & self.sides:
            return NEVER
        distance = float(np.linalg.norm(blob.centre - self.motion.position))
        jump = min(1.5 * self.size, JUMP * max(shape))
        gate = 0.5 * self.size + 3 * self.motion.deviation + jump
        growth = abs(float(np.log(blob.area / max(self.area, 1e-6))))
        if distance > gate or growth > (1.5 if merged else 0.7):
            return NEVER
        unlike = 1.0 - float(self.looks @ blob.looks)
        if unlike > (0.35 if merged else 0.2):
            return NEVER
        return distance / gate + 2 * unlike + growth


def mask_iou(first: Mask, second: Mask) -> float:
    """Shared area over joint area of two masks."""
    shared = intersection(first, second)
    return shared / max(first.area + second.area - shared, 1e-6)


def sides(mask: Mask, shape: tuple[int, int]) -> int:
    """The sides of a frame of height, width `shape` that a mask touches: left 1, top 2, right 4, bottom 8."""
    x1, y1, x2, y2 = mask.bounds
    return (x1 <= 0) + 2 * (y1 <= 0) + 4 * (x2 >= shape[1]) + 8 * (y2 >= shape[0])


def _hold(at: float, one: float, other: float) -> float:
    """The nearest to `at` between two places."""
    return min(max(at, min(one, other)), max(one, other))
