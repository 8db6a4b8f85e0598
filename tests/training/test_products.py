"""Fast products: as exact as torch's own, for training as well, and nothing is left switched."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from training.models import products
from training.models.products import Linear, linear, onednn_is_exact


@pytest.mark.parametrize("shape", [(3,), (7, 5), (2, 6, 5, 3), (0, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_products_and_gradients_are_those_of_torch(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    usual = nn.Linear(shape[-1], 4, bias=bias)
    ours = Linear(shape[-1], 4, bias=bias)
    ours.load_state_dict(usual.state_dict())
    seen = [torch.randn(shape), None]
    values = [seen[0].requires_grad_(), seen[0].detach().clone().requires_grad_()]
    answers = [layer(one) for layer, one in zip((usual, ours), values, strict=True)]
    torch.testing.assert_close(answers[1], answers[0])
    for answer in answers:
        answer.square().sum().backward()
    torch.testing.assert_close(values[1].grad, values[0].grad)
    for one, other in zip(ours.parameters(), usual.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize(("rows", "summed", "columns"), [(1, 7, 1), (96, 2048, 33), (6240, 64, 192), (50, 512, 128)])
def test_all_32_bits_are_kept(rows: int, summed: int, columns: int) -> None:
    torch.manual_seed(1)
    values, weight, bias = torch.randn(rows, summed), torch.randn(columns, summed), torch.randn(columns)
    true = nn.functional.linear(values.double(), weight.double(), bias.double())
    errors = [(answer - true).abs().max() for answer in (linear(values, weight, bias), true.float())]
    assert errors[0] <= 1e-5 * true.abs().max()
    assert errors[1] <= 1e-6 * true.abs().max()  # what is left of the measure


def test_frozen_weights_get_no_gradient_and_pass_it_on() -> None:
    layer = Linear(3, 2).requires_grad_(False)
    values = torch.randn(4, 3, requires_grad=True)
    layer(values).sum().backward()
    assert layer.weight.grad is None
    torch.testing.assert_close(values.grad, layer.weight.sum(0).expand(4, 3))


def test_products_that_round_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    onednn_is_exact.cache_clear()
    plain = torch.Tensor.__matmul__

    def rounding(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        if left.dtype == torch.float64:
            return plain(left, right)
        return plain(left.bfloat16().float(), right.bfloat16().float())

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounding)
    try:
        assert not onednn_is_exact()
    finally:
        onednn_is_exact.cache_clear()


def test_the_switch_is_on_for_our_products_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    plain = nn.functional.linear

    def watched(*arguments: torch.Tensor) -> torch.Tensor:
        seen.append(products.ONEDNN.matmul.fp32_precision)
        return plain(*arguments)

    before = products.ONEDNN.matmul.fp32_precision
    monkeypatch.setattr(nn.functional, "linear", watched)
    layer = Linear(8, 8)
    with torch.inference_mode():
        layer(torch.randn(2, 8))
    layer(torch.randn(2, 8)).sum().backward()
    assert seen == ["bf16" if onednn_is_exact() else before] * 2
    assert products.ONEDNN.matmul.fp32_precision == before


def test_threads_leave_the_switch_as_it_was() -> None:
    before = products.ONEDNN.matmul.fp32_precision
    layer = Linear(16, 16)

    def many(_: int) -> None:
        with torch.inference_mode():
            for _ in range(300):
                layer(torch.randn(4, 16))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(many, range(4)))
    assert products.ONEDNN.matmul.fp32_precision == before


def test_under_autocast_products_are_torchs_own() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert Linear(4, 4)(torch.randn(2, 4)).dtype == torch.bfloat16
