"""Is this the same object that was here before?

Takes the finished tracklets of one video, with their categories, and says which of them are one instance: an object
that left the frame and came back, or was hidden for long. Every tracklet's end is compared with every later beginning,
and one assignment over all pairs decides; where two links are about as good as each other, none is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, Field
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

ENDS = 6  # sightings at each end from which place and velocity are taken
BORDER = 0.03  # of the frame's longer side: a box this near to the border is leaving or entering
UNKNOWN_PLACE = 0.6  # cost of place where an object may have come back anywhere, as over the border
GROWTH = np.log(3.0)  # largest change of size while out of sight
IN_PIECES = 6  # frames for which one object may be seen as two, on both sides of what hides it
PIECES_AREA = 1.2  # times its usual area that both pieces may have together
NEVER = 1e6


class ReacquireConfig(BaseModel, extra="forbid", frozen=True):
    """Settings of re-acquisition."""

    longest_gap: int = Field(default=300, ge=0, description="Frames after which a gone object is not linked any more.")
    alike: float = Field(default=0.15, gt=0, le=2, description="Most cosine distance between looks of one instance.")
    reach: float = Field(default=4.0, gt=0, description="Sizes that a hidden object may be from where it should be.")
    margin: float = Field(default=0.15, ge=0, description="How much better than the next best a link must be.")


@dataclass(frozen=True)
class Tracklet:
    """What is known of the two ends of a track."""

    first: int
    last: int  # frames, both inclusive
    first_box: np.ndarray  # (4,) x1 y1 x2 y2
    last_box: np.ndarray
    first_velocity: np.ndarray  # (2,) pixels a frame
    last_velocity: np.ndarray
    area: float  # of the usual box
    side: float  # pixels: usual longer side of its boxes, where the frame does not cut them off
    category: int  # -1: unknown
    embedding: np.ndarray | None  # (D,) mean looks; None if it was never seen clearly
    size: tuple[int, int]  # height and width of the frame

    @classmethod
    def of(
        cls,
        frames: np.ndarray,
        boxes: np.ndarray,
        category: int,
        embedding: np.ndarray | None,
        size: tuple[int, int],
    ) -> Tracklet:
        """Sum up a track that was seen on `frames` (T,), in order, with `boxes` (T, 4)."""
        frames, boxes = np.asarray(frames), np.asarray(boxes, np.float64)
        start, end = slice(None, ENDS), slice(-ENDS, None)
        return cls(
            first=int(frames[0]),
            last=int(frames[-1]),
            first_box=boxes[0],
            last_box=boxes[-1],
            first_velocity=_velocity(frames[start], boxes[start]),
            last_velocity=_velocity(frames[end], boxes[end]),
            area=float(np.median(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))),
            side=_usual_side(boxes, size),
            category=category,
            embedding=embedding,
            size=size,
        )


def relink(tracklets: Sequence[Tracklet], config: ReacquireConfig | None = None) -> np.ndarray:
    """The instance that each tracklet belongs to, (N,) int64: 0, 1, ... in order of first appearance."""
    config = config or ReacquireConfig()
    count = len(tracklets)
    follows = {j: i for i, j in _all_links(tracklets, config)}
    instance = np.full(count, -1, np.int64)
    born = 0
    for index in sorted(range(count), key=lambda k: (tracklets[k].first, k)):
        if index in follows:
            instance[index] = instance[follows[index]]
        else:
            instance[index], born = born, born + 1
    return instance


def _all_links(tracklets: Sequence[Tracklet], config: ReacquireConfig) -> list[tuple[int, int]]:
    """Pairs (earlier, later) of the cheapest assignment in which not linking costs 1, ambiguous ones left out."""
    costs = _costs(tracklets, config)
    if not costs:
        return []
    count = len(tracklets)
    rows, columns = np.array(list(costs)).T
    # Each has a column of its own for not being linked. All are raised by 1, since a cost of 0 would be no entry.
    alone = np.arange(count)
    weights = np.concatenate([list(costs.values()), np.ones(count)]) + 1
    places = np.concatenate([rows, alone]), np.concatenate([columns, count + alone])
    later_ones = min_weight_full_bipartite_matching(csr_array((weights, places), shape=(count, 2 * count)))[1]
    rivals: dict[int, list[tuple[int, int]]] = {}  # links from an earlier end i, or to a later one at count + j
    for i, j in costs:
        rivals.setdefault(i, []).append((i, j))
        rivals.setdefault(count + j, []).append((i, j))
    return [
        (i, j)
        for i, j in enumerate(later_ones.tolist())
        if j < count and _is_clear((i, j), rivals[i] + rivals[count + j], costs, tracklets, config.margin)
    ]


def _costs(tracklets: Sequence[Tracklet], config: ReacquireConfig) -> dict[tuple[int, int], float]:
    """What links (earlier, later) cost that may be. Only beginnings within the longest gap are looked at.

    So time and memory grow with the number of tracklets, however long the video.
    """
    order = sorted(range(len(tracklets)), key=lambda k: tracklets[k].first)
    starts = np.array([tracklets[k].first for k in order])
    costs = {}
    for i, earlier in enumerate(tracklets):
        begin, end = np.searchsorted(starts, [earlier.last + 1 - IN_PIECES, earlier.last + config.longest_gap + 1])
        for j in order[begin:end]:
            if (cost := _cost(earlier, tracklets[j], config)) < 1:
                costs[i, j] = cost
    return costs


def _is_clear(
    link: tuple[int, int], others: list[tuple[int, int]], costs: dict[tuple[int, int], float],
    tracklets: Sequence[Tracklet], margin: float,
) -> bool:  # fmt: skip
    """Is no other link from or to the same tracklet about as good? Tracklets one after the other may be one chain."""
    for other in others:
        ends = [(tracklets[mine], tracklets[its]) for mine, its in zip(link, other, strict=True) if mine != its]
        in_view = all(one.first <= two.last and two.first <= one.last for one, two in ends)
        if ends and in_view and costs[link] + margin > costs[other]:
            return False
    return True


def _cost(earlier: Tracklet, later: Tracklet, config: ReacquireConfig) -> float:
    """How unlikely it is that `later` goes on with `earlier`, 0 to 1; NEVER if it cannot be."""
    gap = later.first - earlier.last
    if earlier.embedding is None or later.embedding is None or (gap <= 0 and not _in_pieces(earlier, later)):
        return NEVER
    gap = max(gap, 1)
    if earlier.category != later.category and min(earlier.category, later.category) >= 0:
        return NEVER
    unlike = (1 - float(earlier.embedding @ later.embedding)) / config.alike
    place = _place_cost(earlier, later, gap, config.reach)
    size = abs(float(np.log(later.side / earlier.side))) / GROWTH
    if unlike > 1 or place > 1 or size > 1:
        return NEVER
    return 0.4 * unlike + 0.4 * place + 0.1 * size + 0.1 * gap / max(1, config.longest_gap)


def _in_pieces(earlier: Tracklet, later: Tracklet) -> bool:
    """Are two tracklets that overlap in time one object behind a post, going on one side and coming on the other?

    Then the two pieces together are not larger than the object, which lasts before and after.
    """
    if not (earlier.first < later.first - IN_PIECES and earlier.last < later.last - IN_PIECES):
        return False
    pieces = [float(np.prod(box[2:] - box[:2])) for box in (earlier.last_box, later.first_box)]
    return sum(pieces) < PIECES_AREA * min(earlier.area, later.area)


def _place_cost(earlier: Tracklet, later: Tracklet, gap: int, reach: float) -> float:
    """How far the later place is from where the object should be, in terms of `reach`; more than 1 cannot be."""
    left, came = _at_border(earlier.last_box, earlier), _at_border(later.first_box, later)
    if left and came:
        return UNKNOWN_PLACE
    if left != came and _inside_out(earlier, later, left):
        return NEVER
    side = max(earlier.side, later.side)
    start, end = _centre(earlier.last_box), _centre(later.first_box)
    straight = np.linalg.norm(end - start - gap * earlier.last_velocity)
    stayed = np.linalg.norm(end - start)
    backwards = np.linalg.norm(start - end + gap * later.first_velocity)
    return float(min(straight, stayed, backwards)) / (side * reach)


def _inside_out(earlier: Tracklet, later: Tracklet, left: bool) -> bool:
    """Did it leave over the border and turn up in the middle, or vanish in the middle and enter over the border?"""
    moving = earlier.last_velocity if left else -later.first_velocity
    box = earlier.last_box if left else later.first_box
    return _outward(box, moving, earlier)


def _outward(box: np.ndarray, velocity: np.ndarray, tracklet: Tracklet) -> bool:
    """Does a box at the border move out of the frame?"""
    height, width = tracklet.size
    near = BORDER * max(height, width)
    walls = [(box[0] <= near, -velocity[0]), (box[2] >= width - near, velocity[0])]
    walls += [(box[1] <= near, -velocity[1]), (box[3] >= height - near, velocity[1])]
    speed = 0.02 * tracklet.side
    return any(touching and out > speed for touching, out in walls)


def _at_border(box: np.ndarray, tracklet: Tracklet) -> bool:
    height, width = tracklet.size
    near = BORDER * max(height, width)
    return bool(box[0] <= near or box[1] <= near or box[2] >= width - near or box[3] >= height - near)


def _usual_side(boxes: np.ndarray, size: tuple[int, int]) -> float:
    """Median longer side of boxes (T, 4), those at the border left out if there are others."""
    height, width = size
    whole = (boxes[:, :2] > 0.5).all(1) & (boxes[:, 2] < width - 0.5) & (boxes[:, 3] < height - 0.5)
    sides = (boxes[:, 2:] - boxes[:, :2]).max(1)
    return max(float(np.median(sides[whole] if whole.any() else sides)), 1.0)


def _velocity(frames: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Median step a frame of the box centres, (2,)."""
    if len(frames) < 2:
        return np.zeros(2)
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    return np.asarray(np.median(np.diff(centres, axis=0) / np.diff(frames)[:, None], axis=0))


def _centre(box: np.ndarray) -> np.ndarray:
    return np.asarray((box[:2] + box[2:]) / 2)
