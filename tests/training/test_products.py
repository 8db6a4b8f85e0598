"""Fast products: as exact as torch's own, in training as well, and a layer that is `nn.Linear` in all else."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from training.models import products
from training.models.products import Linear, linear


@pytest.fixture(autouse=True)
def every_cpu(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """oneDNN's products also where they do not pay; what they were asked for."""
    asked: list[torch.Size] = []
    product = products._product

    def watched(values: torch.Tensor, *others: torch.Tensor | None) -> torch.Tensor:
        asked.append(values.shape)
        return product(values, *others)

    monkeypatch.setattr(products, "there_are_faster", lambda: True)
    monkeypatch.setattr(products, "LARGE", 1)
    monkeypatch.setattr(products, "_product", watched)
    return asked


@pytest.mark.parametrize("shape", [(3,), (2, 3), (7, 5), (2, 6, 5, 3), (0, 4), (3, 0)])
@pytest.mark.parametrize("bias", [True, False])
def test_products_and_gradients_are_those_of_torch(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    usual, ours = nn.Linear(shape[-1], 4, bias=bias), Linear(shape[-1], 4, bias=bias)
    ours.load_state_dict(usual.state_dict())
    here, there = torch.randn(shape), torch.empty(shape)
    there.copy_(here)
    answers = [layer(values.requires_grad_()) for layer, values in ((usual, here), (ours, there))]
    torch.testing.assert_close(answers[1], answers[0])
    for answer in answers:
        answer.square().sum().backward()
    torch.testing.assert_close(there.grad, here.grad)
    for one, other in zip(ours.parameters(), usual.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize(("rows", "summed", "columns"), [(1, 7, 1), (96, 2048, 33), (6240, 64, 192), (50, 512, 128)])
def test_all_32_bits_are_kept(rows: int, summed: int, columns: int, every_cpu: list[torch.Size]) -> None:
    torch.manual_seed(1)
    values, weight, bias = torch.randn(rows, summed), torch.randn(columns, summed), torch.randn(columns)
    true = nn.functional.linear(values.double(), weight.double(), bias.double())
    with torch.inference_mode():
        error = (linear(values, weight, bias) - true).abs().max()
    assert error <= 1e-5 * true.abs().max()  # 16 bits would err by 1e-3
    assert every_cpu == [(rows, summed)]


def test_in_training_all_three_products_are_fast(every_cpu: list[torch.Size]) -> None:
    Linear(3, 2)(torch.randn(2, 5, 3, requires_grad=True)).sum().backward()
    assert every_cpu == [(2, 5, 3), (2, 5, 2), (2, 10)]  # forwards, for the inputs, for the weights


def test_rows_that_do_not_lie_side_by_side_are_multiplied_as_they_are() -> None:
    layer, values = Linear(4, 6), torch.randn(4, 9, 5).transpose(0, 2)
    torch.testing.assert_close(layer(values), nn.functional.linear(values, layer.weight, layer.bias))


def test_frozen_weights_get_no_gradient_and_pass_it_on() -> None:
    layer = Linear(3, 2).requires_grad_(False)
    values = torch.randn(4, 3, requires_grad=True)
    layer(values).sum().backward()
    assert layer.weight.grad is None
    torch.testing.assert_close(values.grad, layer.weight.sum(0).expand(4, 3))


def test_gradients_of_gradients_are_right() -> None:
    torch.manual_seed(2)
    values, weight, bias = (
        torch.randn(shape, requires_grad=True, dtype=torch.float64) for shape in ((4, 3), (2, 3), (2,))
    )
    found = []
    for kind in (torch.float64, torch.float32):
        answer = linear(values.to(kind), weight.to(kind), bias.to(kind)).pow(3).sum()
        (slope,) = torch.autograd.grad(answer, values, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), (values, weight)))
    for exact, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-4, atol=1e-4)


def test_functions_of_functions_take_it() -> None:
    layer, values = Linear(3, 2), torch.randn(5, 4, 3)
    usual = torch.func.vmap(torch.func.grad(lambda one: nn.functional.linear(one, layer.weight).sum()))(values)
    ours = torch.func.vmap(torch.func.grad(lambda one: linear(one, layer.weight, None).sum()))(values)
    torch.testing.assert_close(ours, usual)


def test_what_does_not_pay_is_torchs_own(monkeypatch: pytest.MonkeyPatch, every_cpu: list[torch.Size]) -> None:
    monkeypatch.setattr(products, "LARGE", 2_000_000)
    with torch.inference_mode():
        Linear(10, 64)(torch.randn(50, 10))  # small
        Linear(512, 512, dtype=torch.float64)(torch.randn(100, 512, dtype=torch.float64))
        with torch.autocast("cpu", torch.bfloat16):
            assert Linear(512, 512)(torch.randn(100, 512)).dtype == torch.bfloat16
        assert every_cpu == []
        Linear(512, 512)(torch.randn(100, 512))
    assert every_cpu == [(100, 512)]


@pytest.mark.parametrize(
    ("known", "faster"),
    [({"avx512_f": True, "cpu_name": "AMD EPYC"}, True), ({"avx512_f": True, "cpu_name": "Intel(R) Xeon(R)"}, False),
     ({"avx512_f": False, "cpu_name": "AMD Ryzen"}, False), ({}, False)],
)  # fmt: skip
def test_they_are_taken_on_cpus_that_mkl_does_not_know(
    monkeypatch: pytest.MonkeyPatch, known: dict[str, object], faster: bool
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known)
    products.there_are_faster.cache_clear()
    try:
        assert products.there_are_faster() is faster
    finally:
        products.there_are_faster.cache_clear()
