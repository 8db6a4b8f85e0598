"""Which regions of what moves are one thing?

Takes the chance of every pixel to move by itself, frame by frame, and cuts out regions. Regions are followed along the
flow, so that parts that belong together (a body behind a pole) are one, and what lasts counts more than what flickers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np

from labeling.masks import Mask
from labeling.proposals.flow import FlowMaps, Step, pull

SPECK = 0.0004  # share of the frame: smaller pieces are noise
FOLLOWED = 0.3  # share of the smaller of two regions that must lie on the other, one frame on
GAP = 0.3  # things with a gap between them of less than this share of what both span may be parts of one ...
PART_LIKE = 0.6  # ... if it is so on this share of the frames that show both ...
PART_SEEN = 0.25  # ... and those are this share of the frames that show the smaller one ...
ALIKE = 0.5  # ... and their own motion differs by less than this share
MOST_PIECES = 8  # pieces of one frame that are looked at
PATIENCE = 4  # frames that a thing may vanish
EDGE_SHARPNESS = 0.8  # coverage for a unit of log odds: an edge is a pixel or two wide


@dataclass(slots=True)
class OddsMap:
    """Log odds of pixels to move by themselves, for the part of the picture where it is likely at all."""

    odds: np.ndarray  # crop, float32
    left: int  # even, as is `top`
    top: int
    size: tuple[int, int]  # (height, width) of the whole


@dataclass(eq=False)
class Thing:
    """A region followed through the frames of a chunk."""

    where: np.ndarray  # (h, w) uint8, 255 where it was last seen, brought along with the flow
    last: int
    sightings: dict[int, Sighting] = field(default_factory=dict)  # by frame
    mass: float = 0.0  # area summed over frames, the rim of the picture aside
    swallowed: list[tuple[int, Thing]] = field(default_factory=list)  # frames on which others became one with it


@dataclass(slots=True)
class Sighting:
    """The pieces of a thing on one frame."""

    labels: list[int]
    box: tuple[int, int, int, int]  # x1, y1, x2, y2 on the map
    drift: np.ndarray  # (2,) mean own motion
    pixels: int  # on the map


@dataclass(slots=True)
class Piece:
    """A connected region of one frame."""

    label: int
    where: np.ndarray  # (h, w) uint8, 255 inside
    pixels: int  # on the map


@dataclass(slots=True)
class Region:
    """A thing on one frame."""

    odds: OddsMap  # log odds, low outside the thing
    share: float  # of the frame's area
    score: float

    def mask(self, shape: tuple[int, ...]) -> Mask | None:
        """The region as a soft mask on a frame of `shape` (H, W, 3); None if nothing is left of it."""
        odds, left, top = self.odds.odds, self.odds.left, self.odds.top
        scale_y, scale_x = shape[0] / self.odds.size[0], shape[1] / self.odds.size[1]
        height, width = odds.shape
        x1, y1 = int(left * scale_x), int(top * scale_y)
        x2 = min(shape[1], int(np.ceil((left + width) * scale_x)))
        y2 = min(shape[0], int(np.ceil((top + height) * scale_y)))
        from_x, from_y = (x1 + 0.5) / scale_x - 0.5 - left, (y1 + 0.5) / scale_y - 0.5 - top
        back = np.array([[1 / scale_x, 0, from_x], [0, 1 / scale_y, from_y]])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        large = cv2.warpAffine(odds, back, (x2 - x1, y2 - y1), flags=flags, borderMode=cv2.BORDER_REPLICATE)
        coverage = np.clip(large * (255 * EDGE_SHARPNESS) + 127.5, 0, 255)
        return Mask.cut(coverage.astype(np.uint8), x1, y1)


def find_regions(maps: FlowMaps, steps: list[Step], fields: list[OddsMap], most: int) -> list[list[Region]]:
    """Cut the odds of consecutive frames into at most `most` regions each, surest first.

    Args:
        maps: The maps' coordinates.
        steps: Flow of the frames.
        fields: Log odds of each pixel to move by itself.
        most: Most regions of one frame.
    """
    things: list[Thing] = []
    labels: list[np.ndarray] = []
    inner = np.clip(1 - maps.rim, 0, 1)
    for t, (step, odds) in enumerate(zip(steps, fields, strict=True)):
        numbered, pieces = _pieces(odds, step.texture.shape)
        labels.append(numbered)
        _follow(things, pieces, step, t)
        for thing in things:
            if thing.last == t:
                thing.mass += float(inner[thing.where > 0].sum())
                drift = np.array(cv2.mean(step.own, thing.where)[:2])
                x, y, width, height = cv2.boundingRect(thing.where)
                sighting = thing.sightings[t]
                sighting.drift, sighting.box = drift, (x, y, x + width, y + height)
                sighting.pixels = cv2.countNonZero(thing.where)
    things = _join_parts(things)
    heaviest = max((thing.mass for thing in things), default=1.0)
    frames = []
    for t, (numbered, odds) in enumerate(zip(labels, fields, strict=True)):
        seen = [thing for thing in things if t in thing.sightings]
        regions = [_region(thing.sightings[t].labels, numbered, odds, thing.mass / heaviest) for thing in seen]
        frames.append(sorted(regions, key=lambda region: -region.score)[:most])
    return frames


def _pieces(field: OddsMap, shape: tuple[int, int]) -> tuple[np.ndarray, list[Piece]]:
    """Connected regions of likely pixels, cleaned of specks and tendrils: labels like the odds; the largest first."""
    if not field.odds.size:
        return np.zeros((0, 0), np.uint8), []
    solid = (field.odds > 0).view(np.uint8)
    solid = cv2.morphologyEx(solid, cv2.MORPH_OPEN, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5)))
    number, labels, stats, _ = cv2.connectedComponentsWithStats(solid, connectivity=8)
    areas = stats[:, cv2.CC_STAT_AREA]
    large = [label for label in range(1, number) if areas[label] >= max(4, SPECK * field.size[0] * field.size[1])]
    large = sorted(large, key=lambda label: -areas[label])[:MOST_PIECES]
    renumber = np.zeros(number, np.uint8)
    renumber[large] = np.arange(1, len(large) + 1)
    numbered = renumber[labels]
    pieces = []
    y, x = field.top // 2, field.left // 2
    coarse = numbered[::2, ::2]
    for label in range(1, len(large) + 1):
        where = np.zeros(shape, np.uint8)
        where[y : y + coarse.shape[0], x : x + coarse.shape[1]] = cv2.compare(coarse, label, cv2.CMP_EQ)
        if pixels := cv2.countNonZero(where):
            pieces.append(Piece(label, where, pixels))
    return numbered, pieces


def _follow(things: list[Thing], pieces: list[Piece], step: Step, t: int) -> None:
    """Give each piece of frame `t` to the thing that it lies on, or make it a new one; `things` is brought along."""
    active = [thing for thing in things if t - thing.last <= PATIENCE]
    before = []
    for thing in active:
        thing.where = cv2.threshold(pull(thing.where, step.backward), 127, 255, cv2.THRESH_BINARY)[1]
        before.append((thing.where, max(1, cv2.countNonZero(thing.where))))
    reached: list[tuple[Thing, Thing]] = []  # the thing a piece went to, and each that it lies on
    for piece in pieces:
        overlaps = [
            cv2.countNonZero(cv2.bitwise_and(piece.where, where)) / min(piece.pixels, pixels)
            for where, pixels in before
        ]
        best = int(np.argmax(overlaps)) if overlaps else -1
        if best < 0 or overlaps[best] < FOLLOWED:
            owner = Thing(piece.where, t)
            things.append(owner)
        else:
            owner = active[best]
            reached += [(owner, other) for other, share in zip(active, overlaps, strict=True) if share >= FOLLOWED]
        sighting = owner.sightings.setdefault(t, Sighting([], (0, 0, 0, 0), np.zeros(2), 0))
        owner.where = cv2.bitwise_or(owner.where, piece.where) if sighting.labels else piece.where
        owner.last = t
        sighting.labels.append(piece.label)
    for owner, other in reached:
        if other is not owner and other.last == t - 1:
            owner.swallowed.append((t, other))


def _join_parts(things: list[Thing]) -> list[Thing]:
    """Make things one that stay close and move alike, or that became one for longer than they were seen apart.

    A body seen on both sides of a pole, a rider and a horse.
    """
    things = sorted(things, key=lambda thing: -thing.mass)
    whole: list[Thing] = []
    for thing in things:
        owner = next((other for other in whole if _part_of(thing, other)), None)
        if owner is None:
            whole.append(thing)
            continue
        owner.mass += thing.mass
        for t, part in thing.sightings.items():
            if t not in owner.sightings:
                owner.sightings[t] = part
                continue
            main = owner.sightings[t]
            first, second = main.box, part.box
            box = min(first[0], second[0]), min(first[1], second[1]), max(first[2], second[2]), max(first[3], second[3])
            drift = (main.drift * main.pixels + part.drift * part.pixels) / (main.pixels + part.pixels)
            labels, pixels = main.labels + part.labels, main.pixels + part.pixels
            owner.sightings[t] = Sighting(labels, box, drift, pixels)
    return whole


def _part_of(part: Thing, whole: Thing) -> bool:
    """Is a thing close to a larger one on most of the frames that show both, and does it move alike?"""
    if _became_one(part, whole) or _became_one(whole, part):
        return True
    together = [(part.sightings[t], whole.sightings[t]) for t in part.sightings if t in whole.sightings]
    if len(together) < max(1, PART_SEEN * len(part.sightings)):
        return False
    near = alike = 0
    for small, large in together:
        first, second = np.reshape(small.box, (2, 2)), np.reshape(large.box, (2, 2))
        gap = np.maximum(first[0] - second[1], second[0] - first[1])
        extent = np.maximum(first[1], second[1]) - np.minimum(first[0], second[0])
        near += bool((gap <= GAP * extent).all())
        alike += _alike(small.drift, large.drift)
    if near < PART_LIKE * len(together):
        return False
    life = min(part.sightings), max(part.sightings)
    return alike >= PART_LIKE * len(together) or _alike(_drift(part, *life), _drift(whole, *life))


def _alike(first: np.ndarray, second: np.ndarray) -> bool:
    return bool(np.linalg.norm(first - second) <= ALIKE * max(np.linalg.norm(first), np.linalg.norm(second)))


def _became_one(part: Thing, whole: Thing) -> bool:
    """Was a thing swallowed by another for good, and for longer than both were seen apart?"""
    for t, other in whole.swallowed:
        if other is part and part.last < t:
            apart = sum(frame in whole.sightings for frame in part.sightings)
            if sum(frame >= t for frame in whole.sightings) >= apart:
                return True
    return False


def _drift(thing: Thing, begin: int, end: int) -> np.ndarray:
    """Own motion of a thing around some frames, (2,), mostly from where much of it is seen: flow blurs slivers."""
    seen = [(sighting.pixels**2, sighting.drift) for t, sighting in thing.sightings.items() if begin <= t <= end]
    return sum((weight * drift for weight, drift in seen), np.zeros(2)) / sum(weight for weight, _ in seen)


def _region(mine: list[int], labels: np.ndarray, field: OddsMap, weight: float) -> Region:
    """Cut pieces out of the odds of a frame; `weight` is the thing's mass compared with the heaviest."""
    solid = (np.isin(labels, mine) if len(mine) > 1 else labels == mine[0]).view(np.uint8)
    x, y, width, height = cv2.boundingRect(solid)
    left, top = max(0, x - 1), max(0, y - 1)
    crop = np.s_[top : y + height + 1, left : x + width + 1]
    inside = solid[crop]
    odds = np.where(cv2.dilate(inside, np.ones((3, 3), np.uint8)) > 0, field.odds[crop], -10).astype(np.float32)
    clear = cv2.mean(cv2.min(odds, 3), inside)[0]
    rows, columns = field.size
    x, y = x + field.left, y + field.top
    sides = (width * ((y == 0) + (y + height == rows)) + height * ((x == 0) + (x + width == columns))) / (
        2 * (width + height)
    )
    score = min(1.0, max(0.0, clear / 2.5)) * (1 - 0.5 * min(1.0, 2 * sides)) * weight**0.5
    share = cv2.countNonZero(inside) / (rows * columns)
    return Region(OddsMap(odds, field.left + left, field.top + top, field.size), share, score)
