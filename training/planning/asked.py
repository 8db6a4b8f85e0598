"""Can what was asked of the planner be planned for?

Pictures, past actions and limits as a user hands them over, each checked before the search: what does not fit is named
in a sentence, for a search would make a plan of almost anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def pictures(values: Tensor | np.ndarray, name: str, size: tuple[int, int], shapes: Sequence[str]) -> Tensor:
    """Pictures (..., H, W, 3) as a tensor; ValueError if they are not of one of the `shapes`, as `C H W 3`."""
    # Mirrored or BGR views, as frame[..., ::-1], have strides that torch does not take.
    tensor = torch.as_tensor(np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values)
    wanted = " or ".join(f"({shape.replace(' ', ', ')})" for shape in shapes)
    if tensor.dtype != torch.uint8:
        raise ValueError(f"{name}: pictures are uint8, 0 to 255; these are {str(tensor.dtype).removeprefix('torch.')}.")
    if tensor.ndim not in [len(shape.split()) for shape in shapes] or tuple(tensor.shape[-3:]) != (*size, 3):
        raise ValueError(
            f"{name} must be {wanted} with H = {size[0]} and W = {size[1]}, as the model was trained; this is "
            f"{tuple(tensor.shape)}."
        )
    return tensor


def one_goal_each(frames: Tensor, goal: Tensor) -> None:
    """ValueError if starts (B, ...) and goals (B, ...) are not as many, or none."""
    if not len(frames):
        raise ValueError("There is nothing to plan for: frames and goal hold no environment.")
    if len(frames) != len(goal):
        raise ValueError(f"Each start needs a goal of its own: there are {len(frames)} starts and {len(goal)} goals.")


def finite(past: np.ndarray) -> None:
    """ValueError if past actions hold NaN or infinity."""
    if not np.isfinite(past).all():
        raise ValueError("past holds numbers that are not finite: give the actions that were carried out.")


def in_order(limits: tuple[object, object] | None, size: int) -> None:
    """ValueError if limits do not fit actions of `size` numbers, or the lowest are above the highest."""
    if limits is None:
        return
    try:
        low, high = (np.broadcast_to(np.asarray(end, float), (size,)) for end in limits)
    except ValueError as error:
        raise ValueError(f"limits are a number or {size} numbers each, lowest and highest: {limits}.") from error
    if not (low <= high).all():  # also where one is NaN
        raise ValueError(f"limits are (lowest, highest) action; these are {low.tolist()} and {high.tolist()}.")
