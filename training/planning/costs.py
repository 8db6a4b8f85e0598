"""What makes an imagined future good or bad?

A cost takes imagined latents (B, S, T, D), T steps of S candidates for each of B starts, and returns (B, S). The usual
one is the distance to the goal at the last step; rules about boxes read these from the latents through the auxiliary
head (`training.planning.spectra`) and penalise what must not happen, at any step. Lengths are pixels of the model's
frames. `total` adds costs with their weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

Cost = Callable[[Tensor], Tensor]  # imagined latents (B, S, T, D) -> (B, S)


class BoxReader(Protocol):
    """Reads boxes from latents."""

    categories: tuple[int, ...]  # (N,), of the objects that it reads, in its order
    size: tuple[int, int]  # height and width of the frames, in pixels

    def __call__(self, latents: Tensor) -> Tensor:
        """Boxes (..., N, 4) of latents (..., D): cx cy w h in shares of the frame."""


@dataclass(frozen=True)
class GoalDistance:
    """Squared distance of the last imagined latent from the goal's."""

    goal: Tensor  # (B, D)

    def __call__(self, latents: Tensor) -> Tensor:
        """(B, S, T, D) to (B, S)."""
        return (latents[:, :, -1] - self.goal[:, None]).square().sum(-1)


@dataclass(frozen=True)
class Collision:
    """Squared depth to which objects of one category come nearer to others than `distance`, summed over steps.

    With balls of radius r, `distance` is 2r and this is the paper's collision cost.
    """

    read: BoxReader
    control: int  # category of the objects that actions move
    distance: float  # between centres, in pixels

    def __call__(self, latents: Tensor) -> Tensor:
        """(B, S, T, D) to (B, S)."""
        centre = in_pixels(self.read, latents)[..., :2]
        ours = _mask(self.read, self.control, latents.device)
        if ours.all():
            raise ValueError(f"All objects that are read are of category {self.control}: there is nothing to meet.")
        gaps = torch.linalg.vector_norm(centre[..., ours, None, :] - centre[..., None, ~ours, :], dim=-1)
        return (self.distance - gaps).relu().square().sum((-3, -2, -1))


@dataclass(frozen=True)
class Boundary:
    """Squared depth to which boxes of a category stand out of the frame, less a margin, summed over steps."""

    read: BoxReader
    control: int
    margin: float = 0.0  # from the edge of the frame, in pixels

    def __call__(self, latents: Tensor) -> Tensor:
        """(B, S, T, D) to (B, S)."""
        boxes = _own(self.read, self.control, latents)
        height, width = self.read.size
        centre, half = boxes[..., :2], boxes[..., 2:] / 2
        far = centre.new_tensor([width, height]) - self.margin
        outside = (self.margin - (centre - half)).relu().square() + (centre + half - far).relu().square()
        return outside.sum((-3, -2, -1))


@dataclass(frozen=True)
class KeepOut:
    """Squared depth to which boxes of a category enter forbidden boxes, summed over steps."""

    read: BoxReader
    control: int
    forbidden: Tensor | np.ndarray | Sequence[Sequence[float]]  # (K, 4), x1 y1 x2 y2 in pixels

    def __call__(self, latents: Tensor) -> Tensor:
        """(B, S, T, D) to (B, S)."""
        boxes = _own(self.read, self.control, latents).unsqueeze(-2)
        low, high = torch.as_tensor(self.forbidden).to(boxes).chunk(2, dim=-1)
        centre, half = boxes[..., :2], boxes[..., 2:] / 2
        # The shortest way out, along one of the axes.
        depth = torch.minimum(centre + half - low, high - (centre - half)).amin(-1)
        return depth.relu().square().sum((-3, -2, -1))


def total(costs: Sequence[tuple[float, Cost]]) -> Cost:
    """The weighted sum of costs."""

    def cost(latents: Tensor) -> Tensor:
        return torch.stack([weight * one(latents) for weight, one in costs]).sum(0)

    return cost


def in_pixels(read: BoxReader, latents: Tensor) -> Tensor:
    """Boxes (..., N, 4) of latents (..., D), cx cy w h in pixels."""
    height, width = read.size
    boxes = read(latents)
    return boxes * boxes.new_tensor([width, height, width, height])


def _own(read: BoxReader, control: int, latents: Tensor) -> Tensor:
    """Boxes of one category's objects, in pixels."""
    return in_pixels(read, latents)[..., _mask(read, control, latents.device), :]


def _mask(read: BoxReader, control: int, device: torch.device) -> Tensor:
    mask = torch.tensor(read.categories, device=device) == control
    if not mask.any():
        raise ValueError(f"No object of category {control} is read; there are those of {sorted(set(read.categories))}.")
    return mask
