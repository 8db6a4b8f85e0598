"""How fast would one train without us? The rival of `train_speed.py`: LeWM's training step from ready-made parts.

It does what the released code does, in the obvious way: transformers' `ViTModel`, an AdaLN predictor, both with torch's
fused attention, projectors with `BatchNorm1d`, SIGReg by its formula and, so that the loss is that of our presets, the
auxiliary head. It has what an attentive user would give it: a fused AdamW, no pooling layer that nobody reads, pixels
normalised in place. `take_weights` copies our model into it: both then have the same loss.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import ViTConfig, ViTModel

from training.config import TrainConfig
from training.dataset import Batch
from training.models.encoder import PIXELS
from training.objective import Objective
from training.regularizers import draw_directions

KNOTS, LAST_KNOT = 17, 3.0
TOLERANCE = 1e-4
MOVED = 0.1
# Our names of tensors to the rival's, one replacement after another.
NAMES = (
    (r"^model\.", ""),
    (r"^encoder\.cls$", "vit.embeddings.cls_token"),
    (r"^encoder\.positions$", "vit.embeddings.position_embeddings"),
    (r"^encoder\.patch\.", "vit.embeddings.patch_embeddings.projection."),
    (r"^encoder\.norm\.", "vit.layernorm."),
    (r"^encoder\.blocks\.", "vit.layers."),
    (r"^(vit\.layers\.\d+)\.out\.", r"\1.attention.o_proj."),
    (r"^(vit\.layers\.\d+)\.norm1\.", r"\1.layernorm_before."),
    (r"^(vit\.layers\.\d+)\.norm2\.", r"\1.layernorm_after."),
    (r"^(vit\.layers\.\d+)\.fc(\d)\.", r"\1.mlp.fc\2."),
    (r"^predictor\.", ""),
    (r"^(blocks\.\d+)\.modulation\.", r"\1.modulation.1."),
    (r"^(blocks\.\d+)\.attention_norm\.", r"\1.attention.norm."),
    (r"^(blocks\.\d+)\.qkv\.", r"\1.attention.qkv."),
    (r"^(blocks\.\d+)\.out\.", r"\1.attention.out.0."),
    (r"^(blocks\.\d+)\.ffn_norm\.", r"\1.ffn.0."),
    (r"^(blocks\.\d+)\.fc1\.", r"\1.ffn.1."),
    (r"^(blocks\.\d+)\.fc2\.", r"\1.ffn.4."),
    (r"^action_encoder\.mix\.", "actions.0."),
    (r"^action_encoder\.fc1\.", "actions.1."),
    (r"^action_encoder\.fc2\.", "actions.3."),
    (r"^((predicted_)?projector)\.fc1\.", r"\1.0."),
    (r"^((predicted_)?projector)\.norm\.", r"\1.1."),
    (r"^((predicted_)?projector)\.fc2\.", r"\1.3."),
    (r"^head\.fc1\.", "head.0."),
    (r"^head\.fc2\.", "head.2."),
)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, head_size: int, dropout: float, inner_norm: bool) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm = nn.LayerNorm(width) if inner_norm else nn.Identity()
        self.qkv = nn.Linear(width, 3 * heads * head_size, bias=False)
        self.out = nn.Sequential(nn.Linear(heads * head_size, width), nn.Dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, head_size: int, ffn: int, dropout: float, inner_norm: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.attention = Attention(width, heads, head_size, dropout, inner_norm)
        self.norm2 = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.ffn = nn.Sequential(
            nn.LayerNorm(width) if inner_norm else nn.Identity(), nn.Linear(width, ffn), nn.GELU(),
            nn.Dropout(dropout), nn.Linear(ffn, width), nn.Dropout(dropout),
        )  # fmt: skip
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(c).chunk(6, dim=-1)
        x = x + gate1 * self.attention(self.norm1(x) * (1 + scale1) + shift1)
        return x + gate2 * self.ffn(self.norm2(x) * (1 + scale2) + shift2)


class Rival(nn.Module):
    """Model and loss."""

    def __init__(self, config: TrainConfig, ours: Objective) -> None:
        """Built from the settings; of `ours`, the fixed numbers are taken: W and the statistics of actions."""
        super().__init__()
        self.config = config.objective
        model, encoder, predictor = config.model, config.model.encoder, config.model.predictor
        self.vit = ViTModel(
            ViTConfig(
                hidden_size=encoder.width, num_hidden_layers=encoder.depth, num_attention_heads=encoder.heads,
                intermediate_size=encoder.ffn, image_size=encoder.size, patch_size=encoder.patch,
                attn_implementation="sdpa",
            ),
            add_pooling_layer=False,
        )  # fmt: skip
        self.projector = projector(encoder.width, model.projector, model.latent)
        self.actions = nn.Sequential(
            nn.Linear(ours.model.actions, 10), nn.Linear(10, 4 * predictor.width), nn.SiLU(),
            nn.Linear(4 * predictor.width, predictor.width),
        )  # fmt: skip
        same = model.latent == predictor.width
        self.inputs = nn.Identity() if same else nn.Linear(model.latent, predictor.width)
        self.positions = nn.Parameter(torch.randn(predictor.context, predictor.width))
        self.blocks = nn.ModuleList(
            Block(
                predictor.width, predictor.heads, predictor.head_size, predictor.ffn, predictor.dropout,
                predictor.inner_norm,
            )
            for _ in range(predictor.depth)
        )  # fmt: skip
        self.norm = nn.LayerNorm(predictor.width)
        self.predicted_projector = projector(predictor.width, model.projector, model.latent)
        assert ours.head is not None
        assert ours.target is not None
        assert ours.target.fourier is not None
        self.head = nn.Sequential(
            nn.Linear(model.latent, self.config.head_hidden), nn.GELU(),
            nn.Linear(self.config.head_hidden, ours.target.size),
        )  # fmt: skip
        mean, std = torch.tensor(PIXELS[encoder.pixels])
        self.register_buffer("pixel_mean", 255 * mean.view(3, 1, 1))
        self.register_buffer("pixel_std", 255 * std.view(3, 1, 1))
        self.register_buffer("action_mean", ours.model.action_encoder.mean.clone())
        self.register_buffer("action_std", ours.model.action_encoder.std.clone())
        self.register_buffer("W", ours.target.fourier.W.clone())
        self.categories = ours.target.fourier.categories.tolist()
        knots = torch.linspace(0, LAST_KNOT, KNOTS)
        weights = torch.full((KNOTS,), 2 * LAST_KNOT / (KNOTS - 1))
        weights[[0, -1]] /= 2
        self.register_buffer("knots", knots)
        self.register_buffer("gaussian", torch.exp(-(knots**2) / 2))
        self.register_buffer("weights", weights * self.gaussian)

    def forward(self, batch: Batch, directions: Tensor | None = None) -> Tensor:
        """The loss of a batch; directions (D, M) are drawn unless given."""
        z = self.encode(batch.frames)
        predicted = self.predict(z[:, :-1], batch.actions[:, :-1])
        target = self.spectrum(batch)
        fixed = self.head_held_fixed(predicted)
        return (
            F.mse_loss(predicted, z[:, 1:])
            + self.config.regularizer_weight * self.sigreg(z.transpose(0, 1), directions)
            + self.config.encoded_weight * F.mse_loss(self.head(z), target)
            + self.config.predicted_weight * F.mse_loss(fixed, target[:, 1:])
        )

    def encode(self, frames: Tensor) -> Tensor:
        pixels = frames.flatten(0, 1).permute(0, 3, 1, 2).float().sub_(self.pixel_mean).div_(self.pixel_std)
        tokens = self.vit(pixels).last_hidden_state[:, 0]
        return self.projector(tokens).unflatten(0, frames.shape[:2])

    def predict(self, z: Tensor, actions: Tensor) -> Tensor:
        c = self.actions((actions - self.action_mean) / self.action_std)
        x = self.inputs(z) + self.positions
        for block in self.blocks:
            x = block(x, c)
        return self.predicted_projector(self.norm(x).flatten(0, 1)).unflatten(0, z.shape[:2])

    def sigreg(self, z: Tensor, directions: Tensor | None) -> Tensor:
        """Of latents (T, B, D)."""
        if directions is None:
            directions = torch.randn(z.shape[-1], self.config.directions)
            directions = directions / directions.norm(dim=0)
        angles = (z @ directions).unsqueeze(-1) * self.knots  # (T, B, M, K)
        error = (angles.cos().mean(1) - self.gaussian).square() + angles.sin().mean(1).square()
        return (error @ self.weights).mean() * z.shape[1]

    def spectrum(self, batch: Batch) -> Tensor:
        boxes = torch.where(batch.present[..., None], batch.boxes, 0)
        features = torch.cat([torch.cos(boxes @ self.W), torch.sin(boxes @ self.W)], dim=-1)
        members = [(batch.category[:, None] == category) & batch.present for category in self.categories]
        return torch.cat([(features * member[..., None]).sum(2) for member in members], dim=-1)

    def head_held_fixed(self, predicted: Tensor) -> Tensor:
        first, _, last = self.head
        hidden = F.gelu(F.linear(predicted, first.weight.detach(), first.bias.detach()))
        return F.linear(hidden, last.weight.detach(), last.bias.detach())

    def take_weights(self, ours: Objective) -> None:
        """Become the same model."""
        copied = {}
        for name, value in ours.state_dict().items():
            for pattern, theirs in NAMES:
                name = re.sub(pattern, theirs, name)
            if name == "vit.embeddings.patch_embeddings.projection.weight":
                patch = self.vit.config.patch_size
                value = value.view(-1, patch, patch, 3).permute(0, 3, 1, 2)
            if name.startswith("vit.") and ".qkv." in name:
                for part, rows in zip("qkv", value.chunk(3), strict=True):
                    copied[name.replace("qkv", f"attention.{part}_proj")] = rows
            else:
                copied[name] = value
        own = self.state_dict()
        self.load_state_dict({name: copied.get(name, value).reshape(value.shape) for name, value in own.items()})
        assert all(name in copied for name, _ in self.named_parameters())


def projector(width: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.GELU(), nn.Linear(hidden, out))


class RivalStep:
    """One training step after another: forward, backward, clipping, AdamW."""

    def __init__(self, model: Rival, config: TrainConfig) -> None:
        self.model, self.clip = model.train(), config.optimiser.clip
        self.optimiser = torch.optim.AdamW(
            model.parameters(), config.optimiser.lr, weight_decay=config.optimiser.weight_decay, fused=True
        )

    def __call__(self, batch: Batch) -> Tensor:
        loss: Tensor = self.model(batch)
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimiser.step()
        return loss.detach()


@torch.no_grad()
def apart(rival: Rival, ours: Objective, batch: Batch) -> float:
    """How far the losses for the same weights, directions and batch are from each other; AssertionError above 1e-4.

    Weights are moved for the comparison, since fresh ones hide half of the model: actions do nothing yet. There is no
    dropout here, for it is drawn in another order. Afterwards ours has its weights back, and the rival has them too.
    """
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    for parameter in ours.parameters():
        parameter.add_(torch.randn_like(parameter), alpha=MOVED)
    rival.take_weights(ours)
    directions = draw_directions(ours.model.config.latent, ours.config.directions, ours.seed, step=0)
    with no_dropout(ours), no_dropout(rival):
        difference = abs(ours(batch, 0).total.item() - rival(batch, directions).item())
    assert difference < TOLERANCE, f"The losses differ by {difference:.2e}: one of them is wrong."
    ours.load_state_dict(before)
    rival.take_weights(ours)
    return difference


@contextmanager
def no_dropout(model: nn.Module) -> Iterator[None]:
    """The model without dropout, else in training."""
    found = [(part, name) for part in model.modules() for name in ("dropout", "p") if _is_share(part, name)]
    before = [getattr(part, name) for part, name in found]
    for part, name in found:
        setattr(part, name, 0.0)
    yield
    for (part, name), value in zip(found, before, strict=True):
        setattr(part, name, value)


def _is_share(part: nn.Module, name: str) -> bool:
    return isinstance(getattr(part, name, None), float)
