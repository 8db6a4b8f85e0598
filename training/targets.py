"""What has the auxiliary head to say?

`FourierTarget` turns the boxes of a frame into a spectrum that does not depend on their order: y = Σ_i Φ(b_i) with
Φ(b) = [cos(Wᵀb), sin(Wᵀb)], one sum per group of objects that look alike. `BoxTarget` makes the target of a batch,
(B, T, S), spectrum or one slot per object, and compares it with the head's answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from training.boxes import BoxStates, jittered, sigmas
from training.dataset import Batch, Dataset
from training.dataset_format import Statistics
from training.matching import fitting_order, reordered
from training.processes import global_mean
from training.settings import TargetConfig

NOTHING = 1e-3  # less than any count, shared by however many processes: a batch without objects has no error


class FourierTarget(nn.Module):
    """The spectrum of a set of boxes at fixed random frequencies W ~ N(0, σ²), which are saved with the model."""

    W: Tensor  # (K, d)
    categories: Tensor  # (G,)

    def __init__(
        self,
        frequencies: int = 9,
        sigma: float | Sequence[float] = 4.0,
        seed: int = 0,
        categories: Sequence[int] | None = None,
        state_size: int = 4,
    ) -> None:
        """Draw the frequencies.

        Args:
            frequencies: d; each gives a cosine and a sine.
            sigma: Spread of the frequencies, one for all numbers of a state or one each.
            seed: Decides the draw.
            categories: One block of 2d numbers for each of these; None: one block for all objects.
            state_size: K, numbers per object.
        """
        super().__init__()
        spread = np.broadcast_to(np.asarray(sigma, float), state_size)
        drawn = np.random.default_rng(seed).standard_normal((state_size, frequencies)) * spread[:, None]
        self.register_buffer("W", torch.from_numpy(drawn.astype(np.float32)))
        self.register_buffer("categories", torch.tensor([] if categories is None else list(categories)).long())
        self.grouping = "all" if categories is None else "category"
        self.size = 2 * frequencies * (1 if categories is None else len(categories))

    def forward(self, boxes: Tensor, present: Tensor, category: Tensor | None = None) -> Tensor:
        """The spectrum (..., S) of boxes (..., N, K); objects that are not `present` (..., N) are not in the sum.

        `category` (..., N) may lack the time dimension of (B, T, N), which it then has for all times. Objects whose
        category has no block are not in the sum either.
        """
        boxes = torch.where(present[..., None], boxes, 0)
        phases = boxes @ self.W
        features = torch.cat([phases.cos(), phases.sin()], dim=-1)
        if self.grouping == "all":
            return (features * present[..., None]).sum(-2)
        if category is None:
            raise ValueError("Grouping by category needs the category of each object.")
        if category.ndim < present.ndim:
            category = category.unsqueeze(-2)
        member = (category[..., None] == self.categories) & present[..., None]  # (..., N, G)
        return (member.to(features.dtype).mT @ features).flatten(-2)


@dataclass(frozen=True)
class Truth:
    """What the head should say about a batch."""

    values: Tensor  # (B, T, S)
    known: Tensor | None = None  # (B, T, S) bool: numbers that count; None: all

    def later(self) -> Truth:
        """The same without the first frame, which nothing predicts."""
        return Truth(self.values[:, 1:], None if self.known is None else self.known[:, 1:])


class BoxTarget(nn.Module):
    """Target and loss of the auxiliary head for one dataset."""

    def __init__(
        self,
        config: TargetConfig,
        categories: Sequence[int],
        objects: int,
        statistics: Mapping[str, Statistics] | None = None,
        skip: int = 1,
    ) -> None:
        """Targets for datasets of one kind.

        Args:
            config: The user's choice.
            categories: Ids of the categories that have a block of their own in the spectrum.
            objects: N, slots for objects.
            statistics: Of the training split, for states that need them.
            skip: Frames from one observation of a window to the next.
        """
        super().__init__()
        self.config, self.skip = config, skip
        self.states = BoxStates(config.state, statistics)
        self.slots = 1 if config.state == "exact" else objects
        self.fourier: FourierTarget | None = None
        if config.matching == "fourier":
            blocks = categories if config.grouping == "category" else None
            self.fourier = FourierTarget(config.frequencies, sigmas(config), config.seed, blocks, self.states.size)
        self.size = self.fourier.size if self.fourier else self.slots * self.states.size

    @classmethod
    def of(cls, config: TargetConfig, dataset: Dataset, skip: int = 1) -> Self:
        """Targets for one dataset."""
        return cls(config, [row.id for row in dataset.categories], dataset.objects, dataset.statistics, skip)

    def forward(self, batch: Batch) -> Truth:
        """The target of a batch, slots in the dataset's order."""
        states = self.states(self._noisy(batch))
        if self.fourier:
            return Truth(self.fourier(states.values, states.present, batch.category))
        return Truth(states.values.flatten(-2), states.known.flatten(-2))

    def matched(self, truth: Truth, answers: Tensor, batch: Batch) -> Truth:
        """The truth with objects in the order in which the head's answers (B, T, S) about the frames name them.

        By frame, or for a whole window by its first frame. The order found on encoded latents also serves predicted
        ones, which stand for the same frames.
        """
        if self.config.matching in ("fourier", "none"):
            return truth
        assert truth.known is not None
        shape = (*answers.shape[:2], self.slots, self.states.size)
        answers, values, known = answers.view(shape), truth.values.view(shape), truth.known.view(shape)
        group = batch.category if self.config.grouping == "category" else torch.zeros_like(batch.category)
        group = group[:, None].expand(shape[:3])
        seen = slice(0, 1) if self.config.matching == "sequence" else slice(None)
        order = fitting_order(*(part[:, seen].flatten(0, 1) for part in (answers, values, known, group)))
        order = order.view(shape[0], -1, self.slots).expand(shape[:3])
        return Truth(reordered(values, order).flatten(-2), reordered(known, order).flatten(-2))

    def _noisy(self, batch: Batch) -> Batch:
        if not self.config.noise:
            return batch
        rows = batch.rows[:, None] + torch.arange(batch.boxes.shape[1], device=batch.rows.device) * self.skip
        return replace(batch, boxes=jittered(batch.boxes, rows, self.config.noise, self.config.seed))


def box_error(answers: Tensor, truth: Truth, distributed: bool = False) -> Tensor:
    """Mean squared error over all numbers that count, in all processes if `distributed`."""
    errors = (answers - truth.values).square()
    if truth.known is None:
        return errors.mean()
    count = truth.known.sum().float()
    if distributed:
        count = global_mean(count)  # so that the mean over processes is the mean over all numbers
    return torch.where(truth.known, errors, 0).sum() / count.clamp_min(NOTHING)
