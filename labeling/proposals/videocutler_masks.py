"""Which queries of VideoCutLER are objects, and what shape has each on every frame?

Frames are normalised and padded for the network; of its queries the best are chosen, and only their masks are brought
to the size of the video, one after another: all hundred of a clip at once would take gigabytes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

MEAN, SPREAD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)  # of red, green and blue in ImageNet
STRIDE = 32  # the network halves its input five times
CELL = 4  # pixels of its input to a side of one mask logit


def prepared(frames: np.ndarray, device: torch.device) -> Tensor:
    """Frames (T, H, W, 3) uint8 as the network takes them: (T, 3, H', W'), padded at the right and at the bottom."""
    pixels = torch.from_numpy(np.ascontiguousarray(frames)).to(device).permute(0, 3, 1, 2).float()
    mean, spread = (torch.tensor(value, device=device)[:, None, None] for value in (MEAN, SPREAD))
    height, width = pixels.shape[2:]
    return functional.pad((pixels - mean) / spread, (0, -width % STRIDE, 0, -height % STRIDE))


def best_queries(class_logits: Tensor, top: int, score: float) -> tuple[Tensor, Tensor]:
    """Queries and scores, best first, (K,) each: at most `top`, none below `score`."""
    scores = class_logits.softmax(-1)[:, :-1].amax(-1)
    order = scores.argsort(descending=True, stable=True)[:top]
    order = order[scores[order] >= score]
    return order, scores[order]


def without_doubles(masks: Tensor, size: tuple[int, int], overlap: float) -> list[int]:
    """Places of the masks to keep out of logits (K, T, h, w), best first; a kept one suppresses those much like it.

    Two masks are alike if they share more than `overlap` of their union, over all frames; `size` is that of the input.
    """
    rows, columns = -(-size[0] // CELL), -(-size[1] // CELL)
    solid = (masks[:, :, :rows, :columns] > 0).flatten(1).float()
    shared = solid @ solid.T
    areas = shared.diagonal()
    alike = (shared / (areas[:, None] + areas - shared).clamp(min=1)).cpu().numpy() > overlap
    kept: list[int] = []
    for place in range(len(alike)):
        if not alike[place, kept].any():
            kept.append(place)
    return kept


def enlarged(masks: Tensor, size: tuple[int, int], output: tuple[int, int]) -> Tensor:
    """One query's mask logits (T, h, w) at the `output` size, (T, H, W); `size` is that of the input before padding."""
    padded = (masks.shape[-2] * CELL, masks.shape[-1] * CELL)
    large = functional.interpolate(masks[None], size=padded, mode="bilinear", align_corners=False)
    large = large[..., : size[0], : size[1]]
    return functional.interpolate(large, size=output, mode="bilinear", align_corners=False)[0]


def covered(logits: Tensor) -> Tensor:
    """The share of every pixel that lies inside of a mask's edge, (T, H, W) uint8, out of logits of that shape.

    The edge is where the logit is zero; its distance from a pixel's centre is the logit over its slope. A sigmoid would
    say how sure the network is, and boxes would reach several pixels too far wherever it hesitates.
    """
    around = functional.pad(logits[None], (1, 1, 1, 1), mode="replicate")[0]
    across = (around[:, 1:-1, 2:] - around[:, 1:-1, :-2]) / 2
    down = (around[:, 2:, 1:-1] - around[:, :-2, 1:-1]) / 2
    distance = logits / (across.square() + down.square()).sqrt().clamp(min=1e-12)
    return ((distance + 0.5).clamp(0, 1) * 255).round().to(torch.uint8)


def certainty(logits: Tensor) -> Tensor:
    """How sure the network is of the pixels inside a mask, (T,) out of logits (T, H, W); 0 where there is no mask."""
    inside = logits > 0
    sure = (logits.sigmoid() * inside).sum((1, 2))
    return sure / inside.sum((1, 2)).clamp(min=1)
