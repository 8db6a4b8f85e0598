"""The world model: frames to latents, latents and actions to the next latents.

`LeWM` encodes frames (..., H, W, 3) uint8 to latents (..., D), predicts the next latent from up to three past ones and
their actions, rolls candidate action sequences out and says how far each ends from a goal. Latents are the projector's
output: prediction, regularizer and planning all use these.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from training.models.encoder import Encoder
from training.models.layers import Projector
from training.models.predictor import ActionEncoder, Predictor
from training.models.unrolling import Unrolling
from training.settings import MODELS, ModelConfig


class Prediction(NamedTuple):
    """What the model makes of B windows of T frames."""

    latents: Tensor  # (B, T, D), one per frame
    predicted: Tensor  # (B, T - 1, D); predicted[:, t] is the guess for latents[:, t + 1]


class LeWM(nn.Module):
    """Encoder, predictor, and a projector behind each."""

    def __init__(self, config: ModelConfig | None = None, actions: int = 2) -> None:
        """A fresh model; `actions` is the size of an action times the frame skip, 0 for video without actions."""
        super().__init__()
        self.config, self.actions = config or MODELS["nball"], actions
        self.encoder = Encoder(self.config.encoder)
        self.projector = Projector(self.config.encoder.width, self.config.projector, self.config.latent)
        self.action_encoder = ActionEncoder(actions, self.config.predictor.width)
        self.predictor = Predictor(self.config.predictor, self.config.latent)
        self.predicted_projector = Projector(self.config.predictor.width, self.config.projector, self.config.latent)

    @property
    def context(self) -> int:
        """How many past frames a prediction uses at most."""
        return self.config.predictor.context

    def expect_actions(self, mean: Tensor, std: Tensor) -> None:
        """From now on normalise actions by these, (A,) each; they are saved with the model. At first: as given."""
        self.action_encoder.mean.copy_(mean)
        self.action_encoder.std.copy_(std)

    def forward(self, frames: Tensor, actions: Tensor) -> Prediction:
        """Encode windows (B, T, H, W, 3) and predict each frame from those before it.

        Actions (B, T, A): actions[:, t] leads from frame t to t + 1, so the last of a window is not used.
        """
        latents = self.encode(frames)
        return Prediction(latents, self.predict(latents[:, :-1], actions[:, : frames.shape[1] - 1]))

    def encode(self, frames: Tensor) -> Tensor:
        """Latents (..., D) of frames (..., H, W, 3) uint8; in training, BatchNorm counts all of them."""
        tokens = self.encoder(frames.reshape(-1, *frames.shape[-3:]))
        latents: Tensor = self.projector(tokens)
        return latents.view(*frames.shape[:-3], -1)

    def predict(self, latents: Tensor, actions: Tensor) -> Tensor:
        """The next latent at each place, (B, T, D), from latents (B, T, D) and actions (B, T, A) up to there."""
        states = self.predictor(latents, self.action_encoder(actions))
        predicted: Tensor = self.predicted_projector(states)
        return predicted

    def rollout(self, start: Tensor, actions: Tensor) -> Tensor:
        """Imagine what candidate actions lead to; nothing is dropped out, not even in training.

        Args:
            start: (B, C, D), latents of C context frames.
            actions: (B, S, H, A), S candidates for each start. The first C go with the context frames, so that the
                last of these leads to the first prediction.

        Returns:
            (B, S, H + 1, D): the context, then H + 1 - C predictions, all starts and candidates in one batch.
        """
        batch, candidates, horizon, _ = actions.shape
        context = start.shape[1]
        if not 1 <= context <= horizon:
            raise ValueError(f"{context} frames of context need at least as many actions; there are {horizon}.")
        unrolling = Unrolling(self.predictor, self.action_encoder(actions.flatten(0, 1)))
        path = [*start.repeat_interleave(candidates, dim=0).unbind(1)]
        while len(path) <= horizon:
            path.append(self.predicted_projector(unrolling.next(path)))
        return torch.stack(path, dim=1).view(batch, candidates, horizon + 1, -1)

    def cost(self, start: Tensor, goal: Tensor, actions: Tensor) -> Tensor:
        """Squared distance (B, S) of the last imagined latent from the goal's latent (B, D); see `rollout`."""
        return (self.rollout(start, actions)[:, :, -1] - goal[:, None]).square().sum(-1)
