"""Which answer belongs to which object?

Head answers and true states, one per slot: objects that look alike may come in any order, so each answer gets the
object that it fits best (the Hungarian algorithm), among those of its own group.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

ANOTHER_GROUP = 1e6  # cost of an object that looks different: more than any answer can be wrong


@torch.no_grad()
def fitting_order(answers: Tensor, values: Tensor, known: Tensor, group: Tensor) -> Tensor:
    """For each slot, which object it is about.

    Args:
        answers: (M, N, K) what the head says.
        values: (M, N, K) what is true.
        known: (M, N, K) bool; other numbers cost nothing.
        group: (M, N); objects of different groups never change places.

    Returns:
        (M, N) indices of objects.
    """
    # (a - v)² = a² - 2av + v², summed over the numbers known of the object
    mask = known.float()
    truth = values * mask
    cost = answers.square() @ mask.mT - 2 * answers @ truth.mT + truth.square().sum(-1)[:, None]
    cost = cost + ANOTHER_GROUP * (group[:, :, None] != group[:, None])
    orders = [linear_sum_assignment(frame)[1] for frame in cost.double().cpu().numpy()]
    return torch.from_numpy(np.stack(orders)).to(answers.device)


def reordered(values: Tensor, order: Tensor) -> Tensor:
    """Values (..., N, K) with the objects in the given order (..., N)."""
    return values.gather(-2, order[..., None].expand_as(values))
