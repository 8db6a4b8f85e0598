"""SIGReg and VISReg equal the reference implementations, on one process and on several."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch import multiprocessing as mp

from training.regularizers import draw_directions, sigreg, visreg

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sigreg"
CASES = [str(name) for name in np.load(FIXTURES / "sigreg.npz")["names"]]
GAUSSIAN_SIGREG = 1.05


@pytest.fixture(scope="module")
def reference() -> dict[str, Tensor]:
    with np.load(FIXTURES / "sigreg.npz") as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays if name != "names"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("statistic", [sigreg, visreg])
def test_value_and_gradient_are_the_references(
    case: str, statistic: Callable[..., Tensor], reference: dict[str, Tensor]
) -> None:
    number, name = CASES.index(case), statistic.__name__
    latents = reference["x"][number].clone().requires_grad_()
    value = statistic(latents, reference["directions"])
    value.backward()
    assert value.item() == pytest.approx(reference[name][number].item(), rel=1e-4)
    assert latents.grad is not None
    assert latents.grad.isfinite().all()
    if (name, case) != ("visreg", "collapsed_zero"):  # there it depends on how a sort breaks ties
        expected = reference[f"{name}_grad"][number]
        assert (latents.grad - expected).norm() <= 1e-4 * expected.norm() + 1e-8


@pytest.mark.parametrize("statistic", [sigreg, visreg])
def test_each_time_step_is_judged_on_its_own_and_then_averaged(
    statistic: Callable[..., Tensor], reference: dict[str, Tensor]
) -> None:
    stack = reference["x"][reference["stack_index"]]
    expected = reference[f"{statistic.__name__}_stack"].item()
    assert statistic(stack, reference["directions"]).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("batch", [64, 1024])
def test_gaussian_latents_give_the_same_small_value_for_any_batch(batch: int) -> None:
    latents = torch.randn(16, batch, 32, generator=torch.Generator().manual_seed(0))
    assert sigreg(latents, draw_directions(32, 256, 0, 0)).item() == pytest.approx(GAUSSIAN_SIGREG, abs=0.08)


@pytest.mark.parametrize("batch", [8, 64])
def test_collapsed_latents_raise_an_alarm_that_grows_with_the_batch(batch: int) -> None:
    directions = draw_directions(32, 64, 0, 0)
    assert sigreg(torch.zeros(batch, 32), directions).item() == pytest.approx(0.402 * batch, rel=1e-3)
    assert sigreg(torch.full((batch, 32), 0.7), directions).item() > 0.402 * batch


def test_gradient_is_that_of_the_plain_formula() -> None:
    latents = torch.randn(3, 20, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 2
    directions = draw_directions(8, 30, 5, 2)

    def plainly(values: Tensor) -> Tensor:
        knots = torch.linspace(0, 3, 17, dtype=torch.float64)
        weights = torch.full((17,), 3 / 8, dtype=torch.float64)
        weights[[0, -1]] /= 2
        gaussian = torch.exp(-(knots**2) / 2)
        angles = (values @ directions.double()).unsqueeze(-1) * knots
        error = (angles.cos().mean(-3) - gaussian) ** 2 + angles.sin().mean(-3) ** 2
        return (error @ (weights * gaussian)).mean() * values.shape[-2]

    ours, theirs = latents.float().requires_grad_(), latents.clone().requires_grad_()
    sigreg(ours, directions).backward()
    plainly(theirs).backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-5)


def test_directions_are_unit_fresh_each_step_and_decided_by_seed_and_step() -> None:
    first = draw_directions(16, 32, seed=3, step=7)
    torch.testing.assert_close(first.norm(dim=0), torch.ones(32))
    assert torch.equal(first, draw_directions(16, 32, seed=3, step=7))
    assert not torch.equal(first, draw_directions(16, 32, seed=3, step=8))
    assert not torch.equal(first, draw_directions(16, 32, seed=4, step=7))


def _share(rank: int, count: int, port: int, out: str) -> None:
    """One process of several: both statistics and their gradients on this process's part of the batch."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=count)
    results = {}
    with np.load(FIXTURES / "sigreg.npz") as arrays:
        for statistic in (sigreg, visreg):
            latents = torch.from_numpy(arrays["x"][CASES.index("normal_scaled")]).chunk(count)[rank].requires_grad_()
            value = statistic(latents, torch.from_numpy(arrays["directions"]), distributed=True)
            value.backward()  # type: ignore[no-untyped-call]
            assert latents.grad is not None
            results |= {statistic.__name__: value.item(), f"{statistic.__name__}_grad": latents.grad.numpy()}
    np.savez(Path(out) / f"{rank}.npz", **results)
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_every_process_gets_the_value_and_gradient_of_the_global_batch(
    count: int, tmp_path: Path, free_port: int, reference: dict[str, Tensor]
) -> None:
    mp.spawn(_share, (count, free_port, str(tmp_path)), nprocs=count)  # type: ignore[no-untyped-call]
    parts = [np.load(tmp_path / f"{rank}.npz") for rank in range(count)]
    number = CASES.index("normal_scaled")
    expected = {
        "sigreg": json.loads((FIXTURES / "ddp.json").read_text())["required"][str(count)],
        "visreg": [reference["visreg"][number].item()] * count,
    }
    for name, values in expected.items():
        assert [part[name].item() for part in parts] == pytest.approx(values, rel=1e-5)
        gradient = np.concatenate([part[f"{name}_grad"] for part in parts]) / count  # averaged, as DDP does
        np.testing.assert_allclose(gradient, reference[f"{name}_grad"][number], rtol=1e-4, atol=1e-6)
