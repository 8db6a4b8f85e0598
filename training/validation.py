"""How good is the model on frames that it does not train on?

A fixed sample of the validation split is held in memory; `look` gives the terms of the loss on it and what the monitors
say. The probe learns from a sample of the training split. Where no episode is held out, training frames stand in: the
row says so, and nothing is called grounded by frames that it was fitted on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from training.config import TrainConfig
from training.dataset import Batch, Dataset, DatasetError, Windows
from training.dataset_format import SplitName
from training.models.layers import recounting
from training.monitors import Frames, monitor
from training.objective import Objective, Terms

SAMPLE = 2**31  # an epoch that no training reaches: its order draws the sample
FITTED = 2  # training windows for the probe, for each validation window
FIXED = 0  # the step whose directions the regularizer looks along, always the same to be comparable


class Validation:
    """The samples that a run is judged by."""

    def __init__(self, dataset: Dataset, training: Windows, config: TrainConfig, categories: Mapping[int, str]) -> None:
        """Draw the samples; `training` are the windows of the training split."""
        self.names, self.notes = categories, list[str]()
        self.judged_on: SplitName = "validation"
        self._fitted_on = _sample(training, config.monitor_windows * FITTED)
        try:
            held_out = Windows(
                dataset, "validation", config.length, config.skip, config.batch, config.seed, config.memory << 20
            )
        except DatasetError:
            held_out, self.judged_on = training, "train"
            self.notes.append("No validation episode is long enough: training frames are validated on.")
        self._held_out = _sample(held_out, config.monitor_windows)

    @torch.no_grad()
    def look(self, objective: Objective) -> dict[str, Any]:
        """Mean terms of the loss on the validation sample, and the monitors; BatchNorms get statistics of now."""
        training = objective.training
        objective.eval()
        with recounting(objective):
            for batch in _on(objective, self._fitted_on):
                objective.model(batch.frames, batch.actions)
        latents: list[torch.Tensor] = []
        hook = objective.model.register_forward_hook(lambda model, given, found: latents.append(found.latents))
        try:
            terms = [torch.stack([*objective(batch, FIXED)]) for batch in _on(objective, self._held_out)]
        finally:
            hook.remove()
        fitted = [objective.model.encode(batch.frames) for batch in _on(objective, self._fitted_on)]
        objective.train(training)
        sizes = torch.tensor([len(batch) for batch in self._held_out], dtype=torch.float32)
        means = torch.stack(terms).float().cpu().mul(sizes[:, None]).sum(0) / sizes.sum()
        apart = self.judged_on == "validation"
        found = monitor(_frames(self._held_out, latents), _frames(self._fitted_on, fitted), self.names, apart)
        return {
            "judged_on": self.judged_on, **dict(zip(Terms._fields, means.tolist(), strict=True)), **found.as_row()
        }  # fmt: skip


def _sample(windows: Windows, count: int) -> list[Batch]:
    """About `count` windows from all over, in batches."""
    batches: list[Batch] = []
    for batch in windows.batches(SAMPLE, whole=True):
        batches.append(replace(batch, frames=batch.frames.clone()))  # whose memory training uses again
        if sum(len(one) for one in batches) >= count:
            break
    return batches


def _on(objective: Objective, batches: list[Batch]) -> Iterator[Batch]:
    device = next(objective.parameters()).device
    return (batch.to(device) for batch in batches)


def _frames(batches: list[Batch], latents: list[torch.Tensor]) -> Frames:
    """All frames of some batches with their latents (B, T, D)."""

    def flat(parts: list[torch.Tensor]) -> np.ndarray:
        array: np.ndarray = torch.cat([part.flatten(0, 1).cpu() for part in parts]).numpy()
        return array

    category = [batch.category[:, None].expand(batch.present.shape) for batch in batches]
    return Frames(
        flat([part.float() for part in latents]), flat([batch.boxes for batch in batches]),
        flat([batch.present for batch in batches]), flat(category),
    )  # fmt: skip
