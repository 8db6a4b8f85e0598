"""Which regions of what moves are one thing?

Takes the chance of every pixel to move by itself, frame by frame, and cuts out regions. Regions are followed along the
flow, so that parts that belong together (a body behind a pole) are one, and what lasts counts more than what flickers.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from labeling.masks import Mask
from labeling.proposals.flow import FlowMaps, Step, pull

SPECK = 0.0004  # share of the frame: smaller pieces are noise
FOLLOWED = 0.3  # share of the smaller of two regions that must lie on the other, one frame on
GAP = 0.25  # pieces nearer than this, measured by the size of the thing, may be parts of it ...
ALIKE = 0.5  # ... if their own motion differs by less than this share
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
    drift: np.ndarray  # (2,) own motion when last seen
    last: int
    mass: float = 0.0  # area summed over frames, the rim of the picture aside


@dataclass(slots=True)
class Piece:
    """A connected region of one frame."""

    label: int
    where: np.ndarray  # (h, w) uint8, 255 inside
    drift: np.ndarray  # (2,) mean own motion
    pixels: int  # on the map


@dataclass(slots=True)
class Region:
    """A thing on one frame."""

    thing: Thing
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


def find_regions(
    maps: FlowMaps, steps: list[Step], fields: list[OddsMap], motion: list[np.ndarray], most: int
) -> list[list[Region]]:
    """Cut the odds of consecutive frames into at most `most` regions each, surest first.

    Args:
        maps: The maps' coordinates.
        steps: Flow of the frames.
        fields: Log odds of each pixel to move by itself.
        motion: Own motion along paths, (h, w, 2).
        most: Most regions of one frame.
    """
    things: list[Thing] = []
    frames: list[list[Region]] = []
    inner = np.clip(1 - maps.rim, 0, 1)
    for t, (step, field, own) in enumerate(zip(steps, fields, motion, strict=True)):
        labels, pieces = _pieces(field, own)
        active = [thing for thing in things if t - thing.last <= PATIENCE]
        for thing in active:
            thing.where = cv2.threshold(pull(thing.where, step.backward), 127, 255, cv2.THRESH_BINARY)[1]
        owners = _assign(pieces, active, t)
        things += [thing for thing in dict.fromkeys(owners) if thing not in things]
        regions = []
        for thing in dict.fromkeys(owners):
            mine = [piece.label for piece, owner in zip(pieces, owners, strict=True) if owner is thing]
            thing.mass += float(inner[thing.where > 0].sum())
            regions.append(_region(thing, labels, mine, field))
        frames.append(regions)
    heaviest = max((thing.mass for thing in things), default=1.0)
    for regions in frames:
        for region in regions:
            region.score *= (region.thing.mass / heaviest) ** 0.5
        regions.sort(key=lambda region: -region.score)
        del regions[most:]
    return frames


def _pieces(field: OddsMap, own: np.ndarray) -> tuple[np.ndarray, list[Piece]]:
    """Connected regions of likely pixels, cleaned of specks and tendrils: labels like the odds; the largest first."""
    if not field.odds.size:
        return np.zeros((0, 0), np.int32), []
    solid = (field.odds > 0).view(np.uint8)
    solid = cv2.morphologyEx(solid, cv2.MORPH_OPEN, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5)))
    number, labels, stats, _ = cv2.connectedComponentsWithStats(solid, connectivity=8)
    areas = stats[:, cv2.CC_STAT_AREA]
    large = [label for label in range(1, number) if areas[label] >= max(4, SPECK * field.size[0] * field.size[1])]
    pieces = []
    coarse = labels[::2, ::2]
    y, x = field.top // 2, field.left // 2
    for label in sorted(large, key=lambda label: -areas[label])[:8]:
        where = np.zeros(own.shape[:2], np.uint8)
        where[y : y + coarse.shape[0], x : x + coarse.shape[1]] = cv2.compare(coarse, label, cv2.CMP_EQ)
        pixels = cv2.countNonZero(where)
        if pixels:
            pieces.append(Piece(label, where, np.array(cv2.mean(own, where)[:2]), pixels))
    return labels, pieces


def _assign(pieces: list[Piece], active: list[Thing], t: int) -> list[Thing]:
    """The thing that each piece belongs to: one that was there before, one close by that moves alike, or a new one."""
    owners: list[Thing | None] = []
    before = [(thing, thing.where, max(1, cv2.countNonZero(thing.where))) for thing in active]
    for piece in pieces:
        overlaps = [
            cv2.countNonZero(cv2.bitwise_and(piece.where, where)) / min(piece.pixels, pixels)
            for _, where, pixels in before
        ]
        best = int(np.argmax(overlaps)) if overlaps else -1
        owners.append(before[best][0] if best >= 0 and overlaps[best] >= FOLLOWED else None)
    present: dict[Thing, Piece] = {}
    for piece, owner in zip(pieces, owners, strict=True):
        if owner is not None:
            _place(owner, piece, t, owner in present)
            present.setdefault(owner, piece)
    result = []
    for piece, owner in zip(pieces, owners, strict=True):
        if owner is None:
            owner = next((thing for thing in present if _part_of(piece, thing)), None)
            if owner is None:
                owner = Thing(piece.where, piece.drift, t)
                present[owner] = piece
            else:
                _place(owner, piece, t, True)
        result.append(owner)
    return result


def _place(thing: Thing, piece: Piece, t: int, add: bool) -> None:
    """Note where a thing is now; `add` a piece to one that was placed on this frame before."""
    if add:
        thing.where = cv2.bitwise_or(thing.where, piece.where)
    else:
        thing.where, thing.drift, thing.last = piece.where, piece.drift, t


def _part_of(piece: Piece, thing: Thing) -> bool:
    """Is a piece close to a thing, and does it move alike?"""
    reach = max(2.0, GAP * np.sqrt(max(piece.pixels, cv2.countNonZero(thing.where))))
    distance = cv2.distanceTransform(cv2.bitwise_not(thing.where), cv2.DIST_L2, 3)
    if cv2.minMaxLoc(distance, piece.where)[0] > reach:
        return False
    change = np.linalg.norm(piece.drift - thing.drift)
    return bool(change <= ALIKE * max(np.linalg.norm(piece.drift), np.linalg.norm(thing.drift)))


def _region(thing: Thing, labels: np.ndarray, mine: list[int], field: OddsMap) -> Region:
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
    score = min(1.0, max(0.0, clear / 2.5)) * (1 - 0.5 * min(1.0, 2 * sides))
    share = cv2.countNonZero(inside) / (rows * columns)
    return Region(thing, OddsMap(odds, field.left + left, field.top + top, field.size), share, score)
