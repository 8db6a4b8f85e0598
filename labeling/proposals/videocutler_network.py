"""What does VideoCutLER see in a clip?

A video Mask2Former out of the parts that transformers has for pictures: a ResNet and a pixel decoder look at each frame
alone, then queries look at all frames of the clip at once, so that one query is one object with a mask on every frame.
Frames (T, 3, H, W) go in, class logits (Q, classes + 1) and mask logits (Q, T, H/4, W/4) come out.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Mask2FormerConfig, ResNetBackbone, ResNetConfig
from transformers.models.mask2former.modeling_mask2former import Mask2FormerPixelDecoder, Mask2FormerTransformerModule

from labeling.devices import working_dtype
from labeling.problems import shown
from labeling.proposals.videocutler_keys import (
    REMEDY,
    CheckpointError,
    Sizes,
    listed,
    names,
    read_checkpoint,
    renamed,
    sizes_in,
)

STAGES = ["stage1", "stage2", "stage3", "stage4"]
TEMPERATURE = 10000.0
TINY = 1e-6  # as in training: keeps the last position a hair below the full circle
AT_ONCE = 2  # frames in the per-frame part at once: each of 360 x 640 takes 180 MB to sample, and more are not faster


class VideoCutLERNetwork(nn.Module):
    """The network, of any size."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        backbone: dict[str, Any] = {
            "embedding_size": sizes.stem, "hidden_sizes": sizes.stages, "depths": sizes.depths, "out_features": STAGES
        }  # fmt: skip
        self.backbone = ResNetBackbone(ResNetConfig(**backbone))  # type: ignore[no-untyped-call]  # transformers' own
        config = Mask2FormerConfig(
            feature_size=sizes.channels, hidden_dim=sizes.channels, mask_feature_size=sizes.mask_channels,
            num_attention_heads=sizes.heads, num_queries=sizes.queries,
            encoder_layers=sizes.encoder_layers, encoder_feedforward_dim=sizes.encoder_width,
            decoder_layers=sizes.decoder_layers + 1,  # transformers counts the heads, one more than the layers
            dim_feedforward=sizes.decoder_width,
        )  # fmt: skip
        self.pixel_decoder = Mask2FormerPixelDecoder(config, feature_channels=self.backbone.channels)
        self.transformer = Mask2FormerTransformerModule(in_features=sizes.channels, config=config)
        self.class_predictor = nn.Linear(sizes.channels, sizes.classes + 1)

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Class logits (Q, classes + 1) and mask logits (Q, T, H/4, W/4) of normalised frames (T, 3, H, W)."""
        levels, features = self._looked_at(frames)
        places = [self._places(level) for level in levels]
        keys = [_in_a_row(level) + self.transformer.level_embed.weight[index] for index, level in enumerate(levels)]
        decoder = self.transformer.decoder
        own_places = self.transformer.queries_embedder.weight[:, None]
        queries = self.transformer.queries_features.weight[:, None]  # (Q, 1, C)
        for index, layer in enumerate(decoder.layers):
            level = index % len(levels)
            queries = layer(
                queries,
                level_index=level,
                position_embeddings=places,
                query_position_embeddings=own_places,
                encoder_hidden_states=keys,
                encoder_attention_mask=_blocked(self._masks(queries, features), levels[level].shape[-2:]),
            )[0]
        return self.class_predictor(decoder.layernorm(queries)[:, 0]), self._masks(queries, features).transpose(0, 1)

    def _looked_at(self, frames: Tensor) -> tuple[list[Tensor], Tensor]:
        """Features of every frame alone: at strides 32, 16 and 8, [(T, C, h, w)], and for masks, (T, M, H/4, W/4)."""
        parts = []
        for some in torch.split(frames, AT_ONCE):
            # Half the bits are enough for a ResNet. Not for what follows: there they would have to say where to sample
            # a map to a fraction of a cell, and on which side of zero a mask lies.
            with torch.autocast(frames.device.type, working_dtype(frames.device), enabled=frames.is_cuda):
                maps = self.backbone(some).feature_maps
            decoded = self.pixel_decoder([one.float() for one in maps])
            parts.append([*decoded.multi_scale_features, decoded.mask_features])
        *levels, features = [torch.cat(part) for part in zip(*parts, strict=True)]
        return levels, features

    def _masks(self, queries: Tensor, features: Tensor) -> Tensor:
        """Mask logits (T, Q, H/4, W/4) of queries (Q, 1, C)."""
        decoder = self.transformer.decoder
        wanted = decoder.mask_predictor.mask_embedder(decoder.layernorm(queries)[:, 0])
        return torch.einsum("qc,tchw->tqhw", wanted, features)

    def _places(self, level: Tensor) -> Tensor:
        """Where and when each key is, (T * h * w, 1, C): sines of the row, the column and the share of time gone."""
        count, channels = level.shape[:2]
        within = self.transformer.position_embedder(level[:1].shape, level.device, level.dtype)
        step = torch.arange(channels, device=level.device).div(2, rounding_mode="floor") * 2 / channels
        time = torch.arange(1, count + 1, device=level.device) / (count + TINY) * (2 * math.pi)
        angle = time[:, None] / TEMPERATURE**step
        when = torch.stack([angle[:, 0::2].sin(), angle[:, 1::2].cos()], 2).flatten(1)
        return _in_a_row(within + when[:, :, None, None])


def load_network(path: str | Path, device: torch.device) -> VideoCutLERNetwork:
    """The network in a checkpoint, ready to run; CheckpointError if the file is not one of VideoCutLER."""
    theirs = read_checkpoint(path)
    sizes = sizes_in(theirs, path)
    try:
        with torch.device("meta"):  # without memory or random numbers, for all of it is replaced
            network = VideoCutLERNetwork(sizes)
    except ValueError as error:
        raise CheckpointError(f"{shown(path)} does not fit VideoCutLER: {error}. {REMEDY}") from error
    expected = network.state_dict()
    wrong = [
        f"{name} has shape {tuple(theirs[name].shape)}, not {shape}"
        for name, parts in names(sizes).items()
        if tuple(theirs[name].shape) != (shape := _stacked([expected[part] for part in parts]))
    ]
    if wrong:
        raise CheckpointError(f"{shown(path)} does not fit VideoCutLER: {listed(wrong)}. {REMEDY}")
    counters = {name: torch.zeros((), dtype=torch.long) for name in expected if name.endswith("num_batches_tracked")}
    network.load_state_dict(renamed(theirs, sizes) | counters, assign=True)
    return network.requires_grad_(False).eval().to(device)


def _stacked(parts: list[Tensor]) -> tuple[int, ...]:
    """The shape of equal parts on top of one another."""
    return len(parts) * parts[0].shape[0], *parts[0].shape[1:]


def _in_a_row(level: Tensor) -> Tensor:
    """(T, C, h, w) as keys (T * h * w, 1, C)."""
    return level.permute(0, 2, 3, 1).flatten(0, 2)[:, None]


def _blocked(masks: Tensor, size: torch.Size) -> Tensor:
    """Which keys of a level lie outside of each query's mask, (Q, T * h * w) bool; nothing is for an empty mask."""
    shares = functional.interpolate(masks, size=size, mode="bilinear", align_corners=False).sigmoid()
    outside = (shares < 0.5).transpose(0, 1).flatten(1)
    return outside & ~outside.all(1, keepdim=True)
