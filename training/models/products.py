"""How are matrices multiplied fast on a CPU?

torch gives 32-bit products to MKL, which on other CPUs than Intel's uses half of what they can do. It has oneDNN as
well, whose products are as exact, and there twice as fast; torch asks it only where 16 bits inside a product are
allowed. `Linear` allows that for its own products alone, where a trial shows that oneDNN keeps 32 bits all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

EXACT = 1e-5  # error of a product's numbers, in shares of the largest: 32 bits stay below a tenth of it, 16 err by 1e-3
ONEDNN: Any = torch.backends.mkldnn  # its former name
TRIALS = ((32, 64, 32), (512, 256, 256), (4096, 64, 192))  # rows, what is summed, columns


class Linear(nn.Linear):
    """`nn.Linear` with faster products where there are any."""

    def forward(self, values: Tensor) -> Tensor:
        """(..., in) to (..., out)."""
        return linear(values, self.weight, self.bias)


def linear(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear` with faster products where there are any."""
    usual = values.device.type != "cpu" or values.dtype != torch.float32 or torch.is_autocast_enabled("cpu")
    if usual or not onednn_is_exact():
        return F.linear(values, weight, bias)
    if torch.is_grad_enabled():
        return _PRODUCT(values, weight, bias)
    with _SWITCH.on():
        return F.linear(values, weight, bias)


@cache
def onednn_is_exact() -> bool:
    """Whether this CPU's oneDNN can be asked, and computes with all 32 bits although it need not."""
    if not (ONEDNN.is_available() and hasattr(ONEDNN, "matmul")):
        return False
    numbers = torch.Generator().manual_seed(0)
    for rows, summed, columns in TRIALS:
        left, right = torch.randn(rows, summed, generator=numbers), torch.randn(summed, columns, generator=numbers)
        with _SWITCH.on(), torch.inference_mode():
            product = left @ right
        true = left.double() @ right.double()
        if (product - true).abs().max() > EXACT * true.abs().max():
            return False
    return True


class _Linear(torch.autograd.Function):
    """The product and its gradient; what torch would do by itself, in the gradient too, if it could be asked to."""

    @staticmethod
    def forward(context: Any, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        context.save_for_backward(values, weight)
        with _SWITCH.on():
            return F.linear(values, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        values, weight = context.saved_tensors
        for_values, for_weight, for_bias = context.needs_input_grad
        rows = gradient.reshape(-1, gradient.shape[-1])
        with _SWITCH.on():
            return (
                torch.mm(rows, weight).view(values.shape) if for_values else None,
                torch.mm(rows.T, values.reshape(-1, values.shape[-1])) if for_weight else None,
                rows.sum(0) if for_bias else None,
            )


class _Switch:
    """torch's switch is one for all threads: the first who needs it turns it on, the last one off."""

    def __init__(self) -> None:
        self._turn, self._users, self._before = Lock(), 0, "none"

    @contextmanager
    def on(self) -> Iterator[None]:
        """Products are oneDNN's."""
        with self._turn:
            if not self._users:
                self._before = ONEDNN.matmul.fp32_precision
                ONEDNN.matmul.fp32_precision = "bf16"
            self._users += 1
        try:
            yield
        finally:
            with self._turn:
                self._users -= 1
                if not self._users:
                    ONEDNN.matmul.fp32_precision = self._before


_SWITCH = _Switch()
_PRODUCT: Callable[..., Tensor] = _Linear.apply
