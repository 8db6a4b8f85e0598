"""What does a frame look like, as one vector?

A vision transformer: frames (N, H, W, 3) uint8 in, the class token after the last normalisation (N, width) out. Frames
stay bytes until they are patches on the device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.models.layers import attend, weighed
from training.models.products import Linear, linear
from training.settings import EncoderConfig, PixelRange

EPSILON = 1e-12  # as in the released weights

# mean and standard deviation of red, green and blue, in pixel values of [0, 1]
PIXELS: dict[PixelRange, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "symmetric": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "unit": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


class Block(nn.Module):
    """One block of the transformer: attention, then a feed-forward network, each added to its normalised input."""

    def __init__(self, width: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, EPSILON)
        self.qkv = Linear(width, 3 * width)
        self.out = Linear(width, width)
        self.norm2 = nn.LayerNorm(width, EPSILON)
        self.fc1 = Linear(width, ffn)
        self.fc2 = Linear(ffn, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """(N, L, width) to (N, L, width)."""
        return self._think(tokens + self.out(attend(self.qkv(self.norm1(tokens)), self.heads)))

    def first_token(self, tokens: Tensor) -> Tensor:
        """What `forward` gives for the first token, (N, width), without the work for the others.

        With one query per head, keys and values of all tokens need not be made: q·(Kx) is (Kᵀq)·x, and the mean of Vx
        is V times the mean of x. The bias of the keys adds the same to all scores, so it changes nothing.
        """
        count, _, width = tokens.shape
        normed = self.norm1(tokens)
        ask, key, value = self.qkv.weight.chunk(3)
        ask_bias, _, value_bias = self.qkv.bias.chunk(3)
        query = linear(normed[:, 0], ask, ask_bias).view(count, self.heads, -1)
        sought = torch.matmul(query.transpose(0, 1), key.view(self.heads, -1, width)).transpose(0, 1)
        mean = weighed(sought, normed, normed, scale=query.shape[-1] ** -0.5)
        mixed = torch.matmul(mean.transpose(0, 1), value.view(self.heads, -1, width).mT).transpose(0, 1)
        return self._think(tokens[:, 0] + self.out(mixed.reshape(count, width) + value_bias))

    def _think(self, tokens: Tensor) -> Tensor:
        thought: Tensor = self.fc2(F.gelu(self.fc1(self.norm2(tokens))))
        return tokens + thought


class Encoder(nn.Module):
    """A vision transformer that returns its class token."""

    scale: Tensor
    shift: Tensor

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.size, self.patch_size = config.size, config.patch
        side = config.size // config.patch
        inputs = 3 * config.patch**2
        self.cls = nn.Parameter(torch.empty(config.width))
        self.positions = nn.Parameter(torch.empty(1 + side**2, config.width))
        self.patch = Linear(inputs, config.width)
        self.blocks = nn.ModuleList(Block(config.width, config.heads, config.ffn) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width, EPSILON)
        mean, std = torch.tensor(PIXELS[config.pixels])
        self.register_buffer("scale", (1 / (255 * std)).repeat(config.patch**2), persistent=False)
        self.register_buffer("shift", (-mean / std).repeat(config.patch**2), persistent=False)
        self._initialise(config)

    @torch.no_grad()
    def _initialise(self, config: EncoderConfig) -> None:
        for parameter in (self.cls, self.positions):
            nn.init.trunc_normal_(parameter, std=config.init)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=config.init)
                nn.init.zeros_(module.bias)
        if config.waves:
            # As strong as what an empty patch adds to its token: less is lost beside it, more drowns it.
            strength = config.init * self.patch.in_features**0.5
            self.positions[1:] += strength * waves(config.waves, config.size // config.patch, config.width)

    def forward(self, frames: Tensor) -> Tensor:
        """Frames (N, H, W, 3) uint8 to class tokens (N, width)."""
        if frames.dtype != torch.uint8 or frames.shape[1:] != (self.size, self.size, 3):
            raise ValueError(
                f"The encoder takes frames of {self.size} x {self.size} x 3 bytes; these are "
                f"{' x '.join(map(str, frames.shape[1:]))} of {str(frames.dtype).removeprefix('torch.')}."
            )
        tokens = self.patch(self._patches(frames)) + self.positions[1:]
        first = (self.cls + self.positions[0]).expand(len(frames), 1, -1)
        tokens = torch.cat([first, tokens], dim=1)
        *blocks, last = self.blocks
        for block in blocks:
            tokens = block(tokens)
        assert isinstance(last, Block)
        token: Tensor = self.norm(last.first_token(tokens))
        return token

    def _patches(self, frames: Tensor) -> Tensor:
        """Normalised pixels of each patch, rows first, (N, patches, P·P·3); moved as bytes, which is cheap."""
        side, patch = self.size // self.patch_size, self.patch_size
        moved = frames.reshape(len(frames), side, patch, side, patch * 3).transpose(2, 3)
        pixels = moved.reshape(len(frames), side**2, -1).to(self.scale.dtype)
        return torch.addcmul(self.shift, pixels, self.scale)


def waves(most: float, side: int, width: int) -> Tensor:
    """Sines and cosines of the row and column of each patch, (side², width), each with a mean square of about 1.

    They go from half a wave over the picture to `most`. Beside empty patches, which all look the same, small noise is
    lost for thousands of steps; and neighbours that are alike make it easy to say where between them something is.
    """
    count = -(-width // 4)
    speeds = torch.logspace(0, math.log2(2 * most), count, base=2) * torch.pi / side
    angles = (torch.arange(side) + 0.5)[:, None] * speeds
    along = torch.cat([angles.sin(), angles.cos()], dim=1)  # (side, 2 · count)
    down = along[:, None].expand(-1, side, -1)
    across = along[None].expand(side, -1, -1)
    return 2**0.5 * torch.cat([down, across], dim=2).flatten(0, 1)[:, :width]
