"""How do several training processes share one batch?

Means and rows of the global batch, differentiable, on any backend (gloo on CPUs as well as NCCL). Each process must
hold the same number of rows. With these, a loss whose value is global gives each process the gradient of its own rows
times the number of processes; averaged over processes, as DDP does, that is exactly the gradient of the whole batch. In
a single process everything passes through unchanged.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def process_count() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


class _Sum(torch.autograd.Function):
    """Sum over processes; its gradient is summed over processes as well."""

    @staticmethod
    def forward(ctx: object, values: Tensor) -> Tensor:
        total = values.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        return global_sum(gradients[0])


def global_sum(values: Tensor) -> Tensor:
    """Elementwise sum over all processes."""
    return values if process_count() == 1 else _Sum.apply(values)  # type: ignore[no-untyped-call]


def global_mean(values: Tensor) -> Tensor:
    """Elementwise mean over all processes."""
    count = process_count()
    return values if count == 1 else global_sum(values) / count


def global_rows(values: Tensor, dim: int) -> Tensor:
    """The rows of all processes along `dim`, in the order of the processes."""
    count = process_count()
    if count == 1:
        return values
    places = [torch.zeros_like(values)] * count
    places[dist.get_rank()] = values
    return global_sum(torch.cat(places, dim))
