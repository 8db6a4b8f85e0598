"""Small DINO networks with random weights, written to disk the way real ones are."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import (
    Dinov2Config,
    Dinov2Model,
    Dinov2WithRegistersConfig,
    Dinov2WithRegistersModel,
    PreTrainedModel,
    ViTConfig,
    ViTModel,
)

DEPTH = 24
SIZE = {"hidden_size": DEPTH, "num_hidden_layers": 2, "num_attention_heads": 3, "initializer_range": 0.2}


def write_dinov2(folder: Path, patch: int = 14, seed: int = 0) -> Path:
    """A `Dinov2Model`, like facebook/dinov2-small."""
    return _written(Dinov2Model, Dinov2Config(patch_size=patch, image_size=8 * patch, **SIZE), folder, seed)


def write_dinov2_with_registers(folder: Path, registers: int = 4, seed: int = 0) -> Path:
    """A `Dinov2WithRegistersModel`, like facebook/dinov2-with-registers-small."""
    config = Dinov2WithRegistersConfig(patch_size=14, image_size=112, num_register_tokens=registers, **SIZE)
    return _written(Dinov2WithRegistersModel, config, folder, seed)


def write_dino(folder: Path, seed: int = 0) -> Path:
    """A `ViTModel`, like facebook/dino-vits8."""
    return _written(ViTModel, ViTConfig(patch_size=8, image_size=64, intermediate_size=48, **SIZE), folder, seed)


def _written(kind: type[PreTrainedModel], config: object, folder: Path, seed: int) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        kind(config).save_pretrained(folder)
    return folder
