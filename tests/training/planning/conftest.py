"""A tiny world model of n-ball, trained for a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.tiny_run import tiny_config
from training import load
from training.dataset import open_dataset
from training.simulate import simulate
from training.trainer import train
from training.world_model import WorldModel


def tiny_nball(folder: Path, **changes: object) -> Path:
    """A run on one ball in pictures of 64 pixels."""
    dataset = open_dataset(simulate("nball", folder / "data.zarr", 20, 12, seed=1, balls=1).path)
    model = {"encoder": {"size": 64, "patch": 16}, "predictor": {"depth": 2, "dropout": 0.0}}
    train(dataset, folder / "run", tiny_config(model=model, **changes), device="cpu")
    return folder / "run"


@pytest.fixture(scope="session")
def nball_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_nball(tmp_path_factory.mktemp("nball"))


@pytest.fixture(scope="session")
def nball_model(nball_run: Path) -> WorldModel:
    return load(nball_run)
