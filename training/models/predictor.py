"""What comes next?

A causal transformer over past latents (B, T, latent), conditioned on actions through adaptive layer normalisation
(AdaLN-zero): at each place it predicts the state of the next frame from this and earlier frames, (B, T, width).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.models.layers import attend
from training.models.products import Linear
from training.settings import PredictorConfig

EPSILON = 1e-6  # of the norms that actions modulate, as in the released weights
ACTION_CHANNELS = 10


class ActionEncoder(nn.Module):
    """From actions (B, T, A) to the conditioning (B, T, width); without actions (A = 0) one learned vector for all."""

    mean: Tensor
    std: Tensor

    def __init__(self, actions: int, width: int) -> None:
        super().__init__()
        self.actions = actions
        self.register_buffer("mean", torch.zeros(actions))
        self.register_buffer("std", torch.ones(actions))
        if actions:
            self.mix = Linear(actions, ACTION_CHANNELS)
            self.fc1 = Linear(ACTION_CHANNELS, 4 * width)
            self.fc2 = Linear(4 * width, width)
        else:
            self.free = nn.Parameter(torch.randn(width))

    def forward(self, actions: Tensor) -> Tensor:
        """Map (B, T, A) to (B, T, width)."""
        if actions.shape[-1] != self.actions:
            raise ValueError(f"The model takes {self.actions} numbers per action; these have {actions.shape[-1]}.")
        if not self.actions:
            return self.free.expand(*actions.shape[:-1], -1)
        conditioning: Tensor = self.fc2(F.silu(self.fc1(self.mix((actions - self.mean) / self.std))))
        return conditioning


class ConditionedBlock(nn.Module):
    """Causal attention and a feed-forward network, each shifted, scaled and gated by the actions."""

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__()
        width, inner = config.width, config.heads * config.head_size
        self.heads, self.dropout = config.heads, config.dropout
        self.norm = nn.LayerNorm(width, EPSILON, elementwise_affine=False)
        self.modulation = Linear(width, 6 * width)
        self.attention_norm = nn.LayerNorm(width) if config.inner_norm else nn.Identity()
        self.qkv = Linear(width, 3 * inner, bias=False)
        self.out = Linear(inner, width)
        self.ffn_norm = nn.LayerNorm(width) if config.inner_norm else nn.Identity()
        self.fc1 = Linear(width, config.ffn)
        self.fc2 = Linear(config.ffn, width)
        # Zero: at first the block passes its input on, and actions join as they prove useful.
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, tokens: Tensor, conditioning: Tensor) -> Tensor:
        """Tokens (B, T, width) and activated conditioning (B, T, width) to tokens."""
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(conditioning).chunk(6, dim=-1)
        # addcmul(a, b, c) is a + b * c in one pass
        moved = torch.addcmul(shift1, self.norm(tokens), 1 + scale1)
        tokens = torch.addcmul(tokens, gate1, self._attend(moved))
        moved = torch.addcmul(shift2, self.norm(tokens), 1 + scale2)
        return torch.addcmul(tokens, gate2, self._think(moved))

    def _attend(self, tokens: Tensor) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        mixed = attend(self.qkv(self.attention_norm(tokens)), self.heads, causal=True, dropout=dropout)
        return self._dropped(self.out(mixed))

    def _think(self, tokens: Tensor) -> Tensor:
        hidden = self._dropped(F.gelu(self.fc1(self.ffn_norm(tokens))))
        return self._dropped(self.fc2(hidden))

    def _dropped(self, values: Tensor) -> Tensor:
        return F.dropout(values, self.dropout, self.training) if self.dropout else values


class Predictor(nn.Module):
    """The transformer, with a linear map in front if latents are not as wide as its tokens."""

    def __init__(self, config: PredictorConfig, latent: int) -> None:
        super().__init__()
        self.context = config.context
        self.inputs = Linear(latent, config.width) if latent != config.width else nn.Identity()
        self.positions = nn.Parameter(torch.randn(config.context, config.width))
        self.blocks = nn.ModuleList(ConditionedBlock(config) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, latents: Tensor, conditioning: Tensor) -> Tensor:
        """Latents (B, T, latent) and conditioning (B, T, width), T at most the context, to (B, T, width)."""
        length = latents.shape[1]
        if length > self.context:
            raise ValueError(f"The predictor sees at most {self.context} frames; these are {length}.")
        tokens = self.inputs(latents) + self.positions[:length]
        conditioning = F.silu(conditioning)
        for block in self.blocks:
            tokens = block(tokens, conditioning)
        state: Tensor = self.norm(tokens)
        return state
