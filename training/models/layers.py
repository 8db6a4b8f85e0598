"""Parts that encoder and predictor share: attention, the projector, and a BatchNorm over the global batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.models.products import Linear
from training.processes import global_mean, process_count


def attend(qkv: Tensor, heads: int, causal: bool = False, dropout: float = 0.0) -> Tensor:
    """Self-attention of packed queries, keys and values (B, L, 3·H·S); returns (B, L, H·S)."""
    batch, length, _ = qkv.shape
    # Split last: the gradients of the three are then put side by side in one copy instead of two.
    query, key, value = (part.view(batch, length, heads, -1).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
    mixed = weighed(query, key, value, dropout_p=dropout, is_causal=causal)
    return mixed.transpose(1, 2).reshape(batch, length, -1)


def weighed(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """torch's fused attention; on a CPU never with 16 bits, since the gradient takes six times as long."""
    if query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, **options)
    wide = torch.promote_types(query.dtype, torch.float32)
    with torch.autocast("cpu", enabled=False):
        mixed = F.scaled_dot_product_attention(query.to(wide), key.to(wide), value.to(wide), **options)
    return mixed.to(query.dtype)


class GlobalBatchNorm(nn.BatchNorm1d):
    """BatchNorm whose statistics are those of the rows of all processes.

    torch's SyncBatchNorm refuses CPUs. In a single process this is `nn.BatchNorm1d`.
    """

    alone = False  # whether other processes are left out

    def forward(self, rows: Tensor) -> Tensor:
        """Normalise rows (M, D)."""
        if not self.training or self.alone or process_count() == 1:
            return super().forward(rows)
        with torch.autocast(rows.device.type, enabled=False):  # statistics need all their bits, as torch's own have
            values = rows.float()
            mean = global_mean(values.mean(0))
            centred = values - mean
            variance = global_mean(centred.square().mean(0))
            self._remember(mean.detach(), variance.detach(), len(rows) * process_count())
            normalised = centred * (torch.rsqrt(variance + self.eps) * self.weight) + self.bias
        return normalised.to(rows.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor, count: int) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)


@contextmanager
def recounting(model: nn.Module) -> Iterator[None]:
    """Within, BatchNorms of a model that is not training count their statistics anew, in this process alone.

    Running statistics are of weights that have moved on since: with a high learning rate, latents are far off.
    """
    norms = [module for module in model.modules() if isinstance(module, GlobalBatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum, norm.alone = None, True  # no momentum: the mean of all that is seen
        norm.train()
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum, norm.alone = momentum, False
            norm.eval()


class Projector(nn.Module):
    """Linear, BatchNorm, GELU, Linear.

    The BatchNorm is needed: a transformer's last LayerNorm fixes the length of its output, which keeps the regularizer
    from shaping the distribution.
    """

    def __init__(self, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.fc1 = Linear(width, hidden)
        self.norm = GlobalBatchNorm(hidden)
        self.fc2 = Linear(hidden, out)

    def forward(self, values: Tensor) -> Tensor:
        """Map (..., width) to (..., out); all rows count for the statistics."""
        rows = self.norm(self.fc1(values.reshape(-1, values.shape[-1])))
        projected: Tensor = self.fc2(F.gelu(rows))
        return projected.view(*values.shape[:-1], -1)
