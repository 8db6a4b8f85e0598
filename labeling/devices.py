"""Where do networks run? `auto` takes a GPU where there is one."""

from __future__ import annotations

import torch


def torch_device(name: str) -> torch.device:
    """The device of this name; `auto` is CUDA, else MPS, else the CPU."""
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def working_dtype(device: torch.device) -> torch.dtype:
    """The number format of activations: half the bits on a GPU, where it doubles the speed, all of them elsewhere."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32
