"""Are these two targets one object?

An object may come in pieces: where a limb leaves the frame and comes back, or where part of it looks like what is
behind. Pieces are told by how they behave: never apart, cut by the same border, or moving together side by side.
"""

from __future__ import annotations

import numpy as np

from labeling.masks import Mask
from labeling.trackers.targets import RIGID, Target

APART = 8  # sightings alone after which a target has proved to be an object of its own
INSEPARABLE = 4  # frames in which a piece must share the blob of the object it is part of
SAME_STEP = 0.15  # difference of velocity, as a share of the speed, of pieces that move together
UNDER_WAY = 0.02  # speed, in sizes a frame, from which on moving together says anything
SIDE_BY_SIDE = 0.25  # gap between pieces of one object, in sizes of the larger
SMALLER = 0.5  # most area of a piece, as a share of the object's
COMMON_FATE = 8  # frames of moving together after which two targets are one


def gap(first: Mask, second: Mask) -> float:
    """Distance in pixels between the rectangles around two masks."""
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = first.bounds, second.bounds
    return float(np.hypot(max(bx1 - ax2, ax1 - bx2, 0), max(by1 - ay2, ay1 - by2, 0)))


def is_piece(target: Target, group: list[Target]) -> bool:
    """Is a target of a group that shares a blob a piece of a larger one of the group?

    What keeps its shape was recognised as an object of its own.
    """
    if target.together < INSEPARABLE or target.rigid >= RIGID:
        return False
    larger = [other for other in group if other is not target and other.area >= target.area and other.rigid < RIGID]
    if target.alone < APART and larger:
        return True
    return any(other.sides & target.sides for other in larger)


class CommonFate:
    """Finds small targets that move along with a larger one beside them."""

    def __init__(self) -> None:
        """Begin without any pair."""
        self._frames: dict[tuple[int, int], int] = {}

    def pieces(self, seen: list[tuple[Target, Mask]]) -> list[tuple[Target, Target]]:
        """Pairs of a target and its piece, among those `seen` alone on a frame with their masks."""
        frames: dict[tuple[int, int], int] = {}
        found = []
        for target, mask in seen:
            speed = float(np.linalg.norm(target.motion.velocity))
            if speed < UNDER_WAY * target.size:
                continue
            for piece, part in seen:
                if piece is target or piece.area > SMALLER * target.area:
                    continue
                apart = float(np.linalg.norm(piece.motion.velocity - target.motion.velocity))
                if gap(mask, part) > SIDE_BY_SIDE * target.size or apart > SAME_STEP * speed:
                    continue
                key = target.number, piece.number
                frames[key] = self._frames.get(key, 0) + 1
                if frames[key] >= COMMON_FATE:
                    found.append((target, piece))
        self._frames = frames
        return found
