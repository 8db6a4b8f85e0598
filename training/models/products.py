"""How are matrices multiplied fast on a CPU?

torch gives 32-bit products to MKL, which does not make use of AVX-512 on CPUs that are not Intel's. It comes with
oneDNN as well, whose products are as exact, and there twice as fast. `Linear` takes these where they pay, and is
`nn.Linear` in all else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LARGE = 2_000_000  # multiplications; smaller products are done before oneDNN has begun


class Linear(nn.Linear):
    """`nn.Linear` with faster products where there are any."""

    def forward(self, values: Tensor) -> Tensor:
        """(..., in) to (..., out)."""
        return linear(values, self.weight, self.bias)


def linear(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`F.linear` with faster products where there are any."""
    if not _pays(values, weight):
        return F.linear(values, weight, bias)
    if torch.is_grad_enabled():
        return _LEARNED(values, weight, bias)
    return _product(values, weight, bias)


@cache
def there_are_faster() -> bool:
    """Whether this is a CPU that MKL does not know how to use, and torch's oneDNN can be asked directly.

    torch's public way to ask it, allowing 16 bits inside of products, is one switch for the whole process.
    """
    onednn: Any = torch.backends.mkldnn
    asked = onednn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(asked and known.get("avx512_f") and "intel" not in str(known.get("cpu_name", "intel")).lower())


def _pays(values: Tensor, weight: Tensor) -> bool:
    if values.device.type != "cpu" or values.ndim < 2 or prod(values.shape) * len(weight) < LARGE:
        return False
    if values.dtype != torch.float32 or weight.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
        return False
    return there_are_faster() and not torch.compiler.is_compiling()


def _product(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
    return product


class _Learned(torch.autograd.Function):
    """The product and its gradients, which are products too."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _product(values, weight, bias)

    @staticmethod
    def setup_context(context: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
        context.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        values, weight = context.saved_tensors
        for_values, for_weight, for_bias = context.needs_input_grad
        rows, inputs = gradient.flatten(0, -2), values.flatten(0, -2)
        return (
            linear(gradient, weight.T, None) if for_values else None,
            _across(rows, inputs) if for_weight else None,
            rows.sum(0) if for_bias else None,
        )


def _across(rows: Tensor, inputs: Tensor) -> Tensor:
    """What M gradients (M, out) and inputs (M, in) come to together, (out, in); oneDNN wants the smaller one first."""
    if rows.shape[1] <= inputs.shape[1]:
        return linear(rows.T, inputs.T, None)
    return linear(inputs.T, rows.T, None).T


_LEARNED: Callable[..., Tensor] = _Learned.apply
