"""Are the latents spread out like a Gaussian?

`sigreg` and `visreg` take latents (..., B, D) and directions (D, M) and return one number, small for a standard
Gaussian: the statistic is over the batch B, for each of the leading dimensions (time) apart, then averaged. With
`distributed=True` the batch is that of all processes, which must then look along the same directions.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from training.processes import global_mean, global_rows, process_count

KNOTS, LAST_KNOT = 16, 3.0  # besides the knot at 0, where every distribution agrees
SMALLEST_SPREAD = 1e-6


def draw_directions(size: int, count: int, seed: int, step: int, device: torch.device | str = "cpu") -> Tensor:
    """Unit directions (size, count) for one step: the same on every process, and after a resume."""
    generator = torch.Generator(device).manual_seed((seed * 1_000_003 + step) % 2**63)
    return _unit(torch.randn(size, count, generator=generator, device=device))


def sigreg(latents: Tensor, directions: Tensor, distributed: bool = False) -> Tensor:
    """Epps-Pulley distance of the projected latents from a standard Gaussian (LeJEPA's SIGReg).

    About 1.05 for a Gaussian of any batch size, at least 0.402·B where all latents are equal.
    """
    with torch.autocast(latents.device.type, enabled=False):
        projections = latents.float() @ _unit(directions.float())
        knots = torch.arange(1, KNOTS + 1, device=latents.device) * (LAST_KNOT / KNOTS)
        gaussian = torch.exp(-(knots**2) / 2)
        weights = gaussian * (2 * LAST_KNOT / KNOTS)
        weights[-1] /= 2  # the trapezoid rule
        # The statistic is not linear in the data: means are averaged over processes, never statistics.
        cosines, sines = _characteristic(projections, distributed)
        mismatch = (cosines - gaussian.view(-1, *[1] * (cosines.ndim - 1))).square() + sines.square()
        batch = latents.shape[-2] * (process_count() if distributed else 1)
        return batch * torch.tensordot(weights, mismatch.flatten(1), 1).mean()


def visreg(latents: Tensor, directions: Tensor, distributed: bool = False) -> Tensor:
    """Off-centre mean, spread other than 1, and sorted projections off the Gaussian's quantiles (VISReg), summed."""
    with torch.autocast(latents.device.type, enabled=False):
        latents = latents.float()
        if distributed:
            latents = global_rows(latents, dim=-2)
        batch = latents.shape[-2]
        mean = latents.mean(-2, keepdim=True)
        centred = latents - mean
        # A vector norm has a gradient at total collapse, where the square root of a mean has none.
        spread = torch.linalg.vector_norm(centred, dim=-2, keepdim=True) / math.sqrt(batch) + SMALLEST_SPREAD
        projections = (centred / spread.detach()) @ _unit(directions.float())
        ranks = torch.arange(1, batch + 1, device=latents.device, dtype=torch.float64)
        quantiles = torch.special.ndtri(ranks / (batch + 1)).float()
        shape = projections.sort(dim=-2).values - quantiles[:, None]
        return mean.square().mean() + (spread - 1).square().mean() + shape.square().mean()


def _unit(directions: Tensor) -> Tensor:
    return directions / torch.linalg.vector_norm(directions, dim=0, keepdim=True)


def _characteristic(projections: Tensor, distributed: bool) -> tuple[Tensor, Tensor]:
    """Mean cosine and mean sine over the batch at each knot, (K, ..., M) each, of projections (..., B, M)."""
    means: Tensor = _Characteristic.apply(projections)  # type: ignore[no-untyped-call]
    if distributed:
        means = global_mean(means)
    return means[..., 0], means[..., 1]


class _Characteristic(torch.autograd.Function):
    """The empirical characteristic function at equidistant knots.

    exp(i k θ) is the k-th power of exp(i θ): one cosine and one sine serve all knots, and the gradient is a polynomial
    by Horner's rule. That is several times as fast, and nothing of the size knots x projections is kept.
    """

    @staticmethod
    def forward(ctx: Any, projections: Tensor) -> Tensor:
        """(..., B, M) to (K, ..., M, 2): real and imaginary part."""
        angles = projections.detach() * (LAST_KNOT / KNOTS)
        turn = torch.complex(angles.cos(), angles.sin())
        ctx.save_for_backward(turn)
        power = turn.clone()
        means = [power.mean(-2)]
        for _ in range(KNOTS - 1):
            power *= turn
            means.append(power.mean(-2))
        return torch.view_as_real(torch.stack(means))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """(K, ..., M, 2) to (..., B, M)."""
        (turn,) = ctx.saved_tensors
        knots = torch.arange(1, KNOTS + 1, device=turn.device) * (LAST_KNOT / KNOTS)
        factors = torch.complex(gradient[..., 1], gradient[..., 0]) / turn.shape[-2]
        factors = (factors * knots.view(-1, *[1] * (factors.ndim - 1))).unsqueeze(-2)
        total = factors[-1] * turn
        for factor in reversed(factors[:-1].unbind()):
            total += factor
            total *= turn
        return total.real.contiguous()
