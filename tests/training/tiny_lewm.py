"""Weights of LeWM made from the names of its tensors, and the reference's outputs for them."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

FIXTURES = Path(__file__).parents[1] / "fixtures" / "lewm"
LEARNED_TOKENS = {"cls_token", "position_embeddings", "pos_embedding"}


def keys() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((FIXTURES / "keys.json").read_text())["tensors"]
    return rows


def official_weights(names: str = "transformers4") -> dict[str, Tensor]:
    """The official state dict, under the names of transformers 4.x or 5.x."""
    rows = keys()
    name = "transformers5_key" if names == "transformers5" else "key"
    return {row.get(name, row["key"]): recipe_tensor(row["key"], row["shape"]) for row in rows}


def recipe_tensor(key: str, shape: list[int]) -> Tensor:
    """The value of a tensor, from its name alone."""
    leaf = key.rpartition(".")[2]
    if leaf == "num_batches_tracked":
        return torch.zeros((), dtype=torch.int64)
    noise = np.random.Generator(np.random.PCG64(zlib.crc32(key.encode()))).standard_normal(shape)
    if leaf == "running_var":
        values = 1 + 0.1 * np.abs(noise)
    elif leaf == "running_mean" or leaf.endswith("bias"):
        values = 0.1 * noise
    elif LEARNED_TOKENS & set(key.split(".")[-2:]):
        values = noise
    elif len(shape) == 1:
        values = 1 + 0.1 * noise
    else:
        axes = tuple(range(1, len(shape)))
        values = (noise - noise.mean(axes, keepdims=True)) / np.sqrt(np.prod(shape[1:]))
    return torch.from_numpy(values.astype(np.float32))


def reference() -> dict[str, Tensor]:
    """Inputs and outputs of the official code; frames as (B, T, H, W, 3)."""
    with np.load(FIXTURES / "batch.npz") as arrays:
        tensors = {name: torch.from_numpy(arrays[name]) for name in arrays if name != "grad_keys"}
    tensors["frames"] = tensors.pop("pixels").permute(0, 1, 3, 4, 2).contiguous()
    return tensors


def gradient_keys() -> list[str]:
    with np.load(FIXTURES / "batch.npz") as arrays:
        return [str(key) for key in arrays["grad_keys"]]
