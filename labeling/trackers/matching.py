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
