"""Which blob is which target?

One linear assignment over all pairs that are near each other; then another for targets that turn up farther away.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from labeling.masks import Mask
from labeling.trackers.targets import NEVER, Target, mask_iou
from labeling.trackers.views import Blob, View

EVIDENT = 0.6  # overlap from which on two that have only each other belong together, whatever they look like


def match(
    targets: list[Target], shapes: list[Mask | None], blobs: list[Blob], view: View, strictness: float
) -> list[list[int]]:
    """For each blob the targets that are in it, at most one so far; `shapes` are those that the targets should have."""
    owners: list[list[int]] = [[] for _ in blobs]
    cost = np.full((len(targets), len(blobs)), NEVER)
    near = np.zeros(cost.shape, bool)
    places = [target.place(view) for target in targets]
    centres = np.array([blob.centre for blob in blobs]).reshape(-1, 2)
    bounds = np.array([blob.mask.bounds for blob in blobs]).reshape(-1, 4)
    for i, (target, place, shape) in enumerate(zip(targets, places, shapes, strict=True)):
        near[i] = np.hypot(*(centres - place).T) <= target.gate
        if shape is not None:
            x1, y1, x2, y2 = shape.bounds
            near[i] |= (bounds[:, 0] < x2) & (bounds[:, 1] < y2) & (bounds[:, 2] > x1) & (bounds[:, 3] > y1)
    single = (near.sum(1) == 1)[:, None] & (near.sum(0) == 1)
    for i, j in np.argwhere(near).tolist():
        shape = shapes[i]
        if single[i, j] and shape is not None and mask_iou(shape, blobs[j].mask) > EVIDENT:
            cost[i, j] = 0
        else:
            cost[i, j] = targets[i].cost(shape, places[i], blobs[j])
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


def _assign(cost: np.ndarray, limit: float) -> list[tuple[int, int]]:
    """Pairs of the cheapest assignment that cost less than `limit`."""
    if not cost.size:
        return []
    rows, columns = linear_sum_assignment(np.minimum(cost, limit))
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if cost[i, j] < limit]
