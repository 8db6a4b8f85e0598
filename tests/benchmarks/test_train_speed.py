"""The rival of the training benchmark is the same model, and the benchmark prints what it promises."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.training.tiny_run import tiny_config, tiny_dataset
from training.config import TrainConfig
from training.dataset import Batch, Windows
from training.objective import Objective
from training.regularizers import draw_directions
from training.world_model import DataFacts, build

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KINDS: dict[str, dict[str, Any]] = {
    "like nball": {},
    "like lewm": {"latent": 16, "encoder": {"pixels": "imagenet"}, "predictor": {"inner_norm": True}},
}


@pytest.fixture
def rivals(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("rival_lewm")


@pytest.fixture(params=KINDS)
def settings(request: pytest.FixtureRequest) -> TrainConfig:
    return tiny_config(model=KINDS[request.param])


@pytest.fixture
def ours_and_batch(settings: TrainConfig, tmp_path: Path) -> tuple[Objective, Batch]:
    torch.manual_seed(0)
    dataset = tiny_dataset(tmp_path / "tiny.zarr")
    batch = next(Windows(dataset, batch=12).batches(0))
    return build(settings, DataFacts.of(dataset)).train(), batch


def test_ours_and_the_rival_have_the_same_loss_and_gradients(
    rivals: ModuleType, settings: TrainConfig, ours_and_batch: tuple[Objective, Batch]
) -> None:
    ours, batch = ours_and_batch
    rival = rivals.Rival(settings, ours)
    assert rivals.apart(rival, ours, batch) < 1e-4
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    rival.take_weights(ours)

    directions = draw_directions(ours.model.config.latent, ours.config.directions, ours.seed, step=0)
    with rivals.no_dropout(ours), rivals.no_dropout(rival):
        ours(batch, 0).total.backward()
        rival(batch, directions).backward()
    lengths = [sum(p.grad.square().sum().item() for p in model.parameters()) ** 0.5 for model in (ours, rival)]
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-4)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in rival.parameters())


def test_a_rival_that_is_another_model_is_noticed(
    rivals: ModuleType, settings: TrainConfig, ours_and_batch: tuple[Objective, Batch]
) -> None:
    ours, batch = ours_and_batch
    rival = rivals.Rival(settings, ours)
    rival.knots.mul_(1.05)
    with pytest.raises(AssertionError, match="losses differ"):
        rivals.apart(rival, ours, batch)


def test_the_rival_learns_with_its_own_directions_and_dropout(
    rivals: ModuleType, settings: TrainConfig, ours_and_batch: tuple[Objective, Batch]
) -> None:
    ours, batch = ours_and_batch
    step = rivals.RivalStep(rivals.Rival(settings, ours), settings)
    losses = [step(batch).item() for _ in range(30)]
    assert sum(losses[-5:]) < sum(losses[:5])


@pytest.mark.slow
def test_the_benchmark_prints_its_ratios() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "train_speed.py", "--quick", "--only", "nball-cpu"],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    faster = re.search(r"(\S+) times as fast as the rival", done.stdout)
    assert faster, done.stdout
    assert float(faster[1]) > 1
    loaders = [int(ratio) for ratio in re.findall(r"a batch, (\d+) times as fast as needed", done.stdout)]
    assert len(loaders) == 2
    assert min(loaders) > 20
    shares = re.search(r"matrix products (\d+) % of the step, fused attention (\d+) %", done.stdout)
    assert shares, done.stdout
    assert 20 < int(shares[1]) + int(shares[2]) < 100
