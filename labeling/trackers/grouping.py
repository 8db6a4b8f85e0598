"""Are these two targets one object?

An object may come in pieces: where a limb leaves the frame and comes back, or where part of it looks like what is
behind. Pieces are told by how they behave: they are never apart for long, or cut off by the same border of the frame.
"""

from __future__ import annotations

import numpy as np

from labeling.masks import Mask
from labeling.trackers.targets import RIGID, Target

APART = 8  # sightings alone after which a target has proved to be an object of its own
LIMB = 0.25  # of the area of another object: what is smaller and is as long with it as it was alone is part of it
LARGER, OTHER_COLOUR = 1.5, 25.0  # times the area and Lab units: from there on colour tells two objects apart
INSEPARABLE = 4  # frames in which a piece must share the blob of the object it is part of


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
    if target.together >= target.alone and any(target.area < LIMB * other.area for other in larger):
        return True
    return any(other.sides & target.sides for other in larger)


def flexible_one(targets: list[Target]) -> Target | None:
    """The one target that is much larger than the others and differs from them in colour, so that it may turn."""
    *others, largest = sorted(targets, key=lambda target: target.area)
    if all(
        largest.area > LARGER * other.area
        and np.linalg.norm(largest.template.colour - other.template.colour) > OTHER_COLOUR
        for other in others
    ):
        return largest if others else None
    return None
