"""Which blob is which target?

One linear assignment over all pairs that are near each other; then another for targets that turn up farther away.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from labeling.masks import Mask, intersection
from labeling.trackers.targets import NEVER, RIGID, Target, mask_iou
from labeling.trackers.views import Blob, View

EVIDENT = 0.6  # overlap from which on two that have only each other belong together, whatever they look like
SURELY_INSIDE = 0.7  # share of an expected shape
NOWHERE = (0, 0, 0, 0)


def match(
    targets: list[Target], shapes: list[Mask | None], blobs: list[Blob], view: View, strictness: float
) -> list[list[int]]:
    """For each blob the targets that are in it, at most one so far; `shapes` are those that the targets should have."""
    owners: list[list[int]] = [[] for _ in blobs]
    if not targets or not blobs:
        return owners
    cost = np.full((len(targets), len(blobs)), NEVER)
    places = [target.place(view) for target in targets]
    gates = np.array([target.gate for target in targets])
    apart = np.array(places)[:, None] - np.array([blob.centre for blob in blobs])
    expected = np.array([NOWHERE if shape is None else shape.bounds for shape in shapes])[:, None]
    bounds = np.array([blob.mask.bounds for blob in blobs])
    overlapping = ((expected[..., :2] < bounds[:, 2:]) & (expected[..., 2:] > bounds[:, :2])).all(2)
    near = overlapping | (np.hypot(apart[..., 0], apart[..., 1]) <= gates[:, None])
    only = near.sum(1) == 1
    for j, blob in enumerate(blobs):
        rivals = np.flatnonzero(near[:, j]).tolist()
        if rivals and only[rivals].all() and _evident([(targets[i], shapes[i]) for i in rivals], blob):
            cost[rivals[0], j] = 0
        else:
            for i in rivals:
                cost[i, j] = targets[i].cost(shapes[i], places[i], blob, strictness)
    for i, j in _assign(cost, strictness):
        owners[j].append(i)
    return owners


def match_lost(targets: list[Target], blobs: list[Blob], owners: list[list[int]], view: View) -> None:
    """Look for targets without a blob farther away, among the blobs without a target; adds to `owners`."""
    found = {i for members in owners for i in members}
    lost = [i for i in range(len(targets)) if i not in found]
    free = [j for j, members in enumerate(owners) if not members]
    cost = np.array([[targets[i].far_cost(blobs[j], view.shape) for j in free] for i in lost])
    for i, j in _assign(cost, NEVER):
        owners[free[j]].append(lost[i])


def _evident(rivals: list[tuple[Target, Mask | None]], blob: Blob) -> bool:
    """Is a blob just the targets, with their expected shapes, that have no other blob near them and keep their shape?

    If so, nobody need look at it: who of several has it does not matter, as the others are put into it as well.
    """
    if len(rivals) == 1:
        _, shape = rivals[0]
        return shape is not None and mask_iou(shape, blob.mask) > EVIDENT
    return all(
        shape is not None
        and target.confirmed
        and target.rigid >= RIGID
        and intersection(shape, blob.mask) > SURELY_INSIDE * shape.area
        for target, shape in rivals
    )


def _assign(cost: np.ndarray, limit: float) -> list[tuple[int, int]]:
    """Pairs of the cheapest assignment that cost less than `limit`."""
    if not cost.size:
        return []
    rows, columns = linear_sum_assignment(np.minimum(cost, limit))
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if cost[i, j] < limit]
