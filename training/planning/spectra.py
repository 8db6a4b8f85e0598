"""Which boxes have this spectrum?

The auxiliary head says y = Σ_i Φ(b_i): where are the N boxes? Three answers to the same question: `Minimised` searches
for plausible boxes whose spectrum is nearest to y; a `Decoder` has learned it from made-up boxes and is much faster
(`training.planning.decoder`); `Refined` begins with the decoder's answer and searches from there. Each takes spectra
(..., 2d) of one group of objects and returns (..., N, 4), cx cy w h in shares of the frame, in no particular order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from training.dataset_format import Statistics

GRID = 16  # places along each side that a search begins at; spectra are smooth in between
ROUNDS = 3  # in which each object looks for its best place, the others held
TRUST = 0.05  # of the prior of sizes: a deviation of one counts like this error in one number of the spectrum
SMALLEST = 2e-3  # deviation of sizes: below it they count as known
WIDEST = 0.5  # deviation that shares of a frame can have: statistics say 1 of numbers that are all the same
SLICE = 4096  # spectra that are worked on at once


@dataclass(frozen=True)
class Plausible:
    """What boxes look like: anywhere in the frame, of usual sizes."""

    mean: tuple[float, float]  # width and height
    std: tuple[float, float]

    @classmethod
    def of(cls, boxes: Statistics) -> Plausible:
        """From the statistics of boxes cx cy w h."""
        mean, std = boxes.mean.tolist(), np.where(boxes.std > WIDEST, 0, boxes.std).tolist()
        return cls((mean[2], mean[3]), (std[2], std[3]))

    def draw(self, count: int, objects: int, generator: torch.Generator) -> Tensor:
        """Made-up boxes (count, objects, 4), whole within the frame."""
        size = torch.randn(count, objects, 2, generator=generator) * torch.tensor(self.std) + torch.tensor(self.mean)
        size = size.clamp(0.01, 0.9)
        centre = size / 2 + torch.rand(count, objects, 2, generator=generator) * (1 - size)
        return torch.cat([centre, size], dim=-1)


def spectrum(boxes: Tensor, frequencies: Tensor) -> Tensor:
    """Φ of each box, (..., 2d), for boxes (..., 4) and W (4, d)."""
    phases = boxes @ frequencies
    return torch.cat([phases.cos(), phases.sin()], dim=-1)


class Minimised:
    """Boxes whose spectrum is nearest, found by search."""

    def __init__(
        self, frequencies: Tensor, objects: int, plausible: Plausible, starts: int = 8, steps: int = 12, seed: int = 0
    ) -> None:
        """Search for `objects` boxes.

        Args:
            frequencies: W, (4, d).
            objects: N.
            plausible: Which sizes are usual.
            starts: Searches from different places, of which the best counts; one is enough for one object.
            steps: Of refinement (Levenberg and Marquardt's method).
            seed: Draws the places.
        """
        self.frequencies, self.objects, self.plausible = frequencies, objects, plausible
        self.starts, self.steps = (1 if objects == 1 else starts), steps
        places = (torch.arange(GRID) + 0.5) / GRID
        centre = torch.cartesian_prod(places, places)
        self.grid = torch.cat([centre, torch.tensor(plausible.mean).expand(GRID**2, 2)], dim=-1).to(frequencies)
        self.grid_spectra = spectrum(self.grid, frequencies)
        generator = torch.Generator().manual_seed(seed)
        self.begin = torch.randint(GRID**2, (self.starts, objects), generator=generator).to(frequencies.device)

    def __call__(self, spectra: Tensor) -> Tensor:
        """(..., 2d) to (..., N, 4)."""
        rows = spectra.reshape(-1, spectra.shape[-1])
        found = torch.cat([self._search(piece) for piece in rows.split(SLICE)])  # type: ignore[no-untyped-call]
        return found.view(*spectra.shape[:-1], self.objects, 4)

    def refined(self, boxes: Tensor, spectra: Tensor) -> Tensor:
        """Boxes (..., N, 4) moved to where their spectrum is nearest to `spectra` (..., 2d)."""
        rows = spectra.reshape(-1, spectra.shape[-1])
        moved, _ = _descend(boxes.reshape(len(rows), -1, 4), rows, self.frequencies, self.plausible, self.steps)
        return moved.view_as(boxes)

    def _search(self, rows: Tensor) -> Tensor:
        many = rows.repeat_interleave(self.starts, dim=0)
        boxes, errors = _descend(self._placed(many), many, self.frequencies, self.plausible, self.steps)
        best = errors.view(-1, self.starts).argmin(1)
        return boxes.view(len(rows), self.starts, self.objects, 4)[torch.arange(len(rows), device=rows.device), best]

    def _placed(self, rows: Tensor) -> Tensor:
        """Boxes on the grid, (M, N, 4): each where it explains most of what the others leave over."""
        chosen = self.begin.repeat(len(rows) // self.starts, 1)
        there = self.grid_spectra[chosen]  # (M, N, 2d)
        for _ in range(ROUNDS if self.objects > 1 else 1):
            for number in range(self.objects):
                left = rows - there.sum(1) + there[:, number]
                # |left - Φ|² is least where left · Φ is most: all Φ are equally long
                chosen[:, number] = (left @ self.grid_spectra.mT).argmax(1)
                there[:, number] = self.grid_spectra[chosen[:, number]]
        return self.grid[chosen]


@dataclass(frozen=True)
class Refined:
    """A decoder's boxes, moved by search."""

    decoder: Callable[[Tensor], Tensor]
    search: Minimised

    def __call__(self, spectra: Tensor) -> Tensor:
        """(..., 2d) to (..., N, 4)."""
        return self.search.refined(self.decoder(spectra), spectra)


def _descend(
    boxes: Tensor, rows: Tensor, frequencies: Tensor, plausible: Plausible, steps: int
) -> tuple[Tensor, Tensor]:
    """Levenberg and Marquardt's method on boxes (M, N, 4); also their errors (M,), squared."""
    objects = boxes.shape[1]
    mean, std = (boxes.new_tensor(values) for values in (plausible.mean, plausible.std))
    pull = torch.cat([torch.zeros_like(std), TRUST / std.clamp_min(SMALLEST)])  # on cx cy w h
    usual = torch.cat([torch.zeros_like(mean), mean])
    identity = torch.eye(4 * objects, dtype=boxes.dtype, device=boxes.device)
    damping = torch.full((len(boxes),), 1e-2, dtype=boxes.dtype, device=boxes.device)

    def misfit(boxes: Tensor) -> Tensor:
        apart = spectrum(boxes, frequencies).sum(1) - rows
        return torch.cat([apart, (pull * (boxes - usual)).flatten(1)], dim=1)

    missed = misfit(boxes)
    errors = missed.square().sum(1)
    for _ in range(steps):
        phases = boxes @ frequencies
        slopes = torch.cat([-phases.sin(), phases.cos()], dim=-1)[..., None] * frequencies.mT.repeat(2, 1)
        jacobian = torch.cat([
            slopes.transpose(1, 2).flatten(2), torch.diag(pull.repeat(objects)).expand(len(boxes), -1, -1),
        ], dim=1)  # fmt: skip
        normal = jacobian.mT @ jacobian + damping[:, None, None] * identity
        # Boxes that lie on one another make it singular: such a step is no better, and the next is damped more.
        step = torch.linalg.solve_ex(normal, jacobian.mT @ missed[..., None]).result.view_as(boxes)
        moved = boxes - step
        moved[..., :2].clamp_(0, 1)
        new_missed = misfit(moved)
        new_errors = new_missed.square().sum(1)
        better = new_errors < errors
        boxes = torch.where(better[:, None, None], moved, boxes)
        missed = torch.where(better[:, None], new_missed, missed)
        errors = torch.where(better, new_errors, errors)
        damping = torch.where(better, damping / 5, damping * 5).clamp(1e-6, 1e3)
    return boxes, errors
