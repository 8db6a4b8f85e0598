"""What is a good world model?

The loss, term by term, of a batch of windows: predict the next latent, keep latents from collapsing, and let boxes be
read from encoded and from predicted latents. In training, batch statistics are those of all processes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from training.dataset import Batch
from training.models.heads import AuxiliaryHead
from training.models.lewm import LeWM
from training.regularizers import draw_directions, sigreg, visreg
from training.settings import ObjectiveConfig
from training.targets import BoxTarget, box_error


class Terms(NamedTuple):
    """The loss and what it is made of, each before its weight; a term that is switched off is 0."""

    total: Tensor
    prediction: Tensor
    regularizer: Tensor
    encoded: Tensor  # boxes from encoded latents
    predicted: Tensor  # boxes from predicted latents


class Objective(nn.Module):
    """World model, auxiliary head and target with the loss that trains them."""

    def __init__(self, config: ObjectiveConfig, model: LeWM, target: BoxTarget | None = None, seed: int = 0) -> None:
        """`target` is needed if boxes take part; `seed` decides the regularizer's directions."""
        super().__init__()
        self.config, self.model, self.seed = config, model, seed
        self.target, self.head = None, None
        if config.auxiliary:
            if target is None:
                raise ValueError("encoded_weight is above 0, but there is no target. Set both box weights to 0.")
            self.target = target
            self.head = AuxiliaryHead(model.config.latent, config.head_hidden, target.size, config.head_depth)

    def forward(self, batch: Batch, step: int) -> Terms:
        """The loss of a batch; `step` decides the regularizer's directions."""
        latents, predicted = self.model(batch.frames, batch.actions)

        prediction = (predicted.float() - latents[:, 1:].float()).square().mean()
        regularizer = self._regularizer(latents, step)
        on_encoded, on_predicted = self._boxes(latents, predicted, batch)

        total = (
            prediction
            + self.config.regularizer_weight * regularizer
            + self.config.encoded_weight * on_encoded
            + self.config.predicted_weight * on_predicted
        )
        return Terms(total, prediction, regularizer, on_encoded, on_predicted)

    def _regularizer(self, latents: Tensor, step: int) -> Tensor:
        if self.config.regularizer == "none":
            return latents.new_zeros(())
        statistic = {"sigreg": sigreg, "visreg": visreg}[self.config.regularizer]
        directions = draw_directions(latents.shape[-1], self.config.directions, self.seed, step, latents.device)
        return statistic(latents.transpose(0, 1), directions, distributed=self.training)

    def _boxes(self, latents: Tensor, predicted: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """How wrong the boxes are that the head reads from encoded and from predicted latents.

        The head learns from encoded latents only; held fixed, it passes the error of predicted latents on to the
        predictor and, through the latents it started from, to the encoder.
        """
        nothing = latents.new_zeros(())
        if self.head is None or self.target is None:
            return nothing, nothing
        answers = self.head(latents).float()
        with torch.autocast(latents.device.type, enabled=False):  # in 16 bits places would be off by a pixel
            truth = self.target.matched(self.target(batch), answers, batch)
        on_encoded = box_error(answers, truth, distributed=self.training)
        if not self.config.predicted_weight:
            return on_encoded, nothing
        later = self.head.frozen(predicted).float()
        return on_encoded, box_error(later, truth.later(), distributed=self.training)
