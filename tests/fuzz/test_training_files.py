"""Broken runs and datasets are refused with one sentence, or read: nothing in them is run, and nothing is changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.fuzz.cases import Case
from tests.training.tiny_run import SIZE, tiny_config, tiny_dataset
from training import checkpoint, load
from training.config import TrainError
from training.damage import bad_numbers
from training.dataset import Windows, open_dataset
from training.dataset_format import DatasetError
from training.trainer import train
from training.world_model import build


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound dataset."""
    torch.set_num_threads(1)
    return tiny_dataset(tmp_path_factory.mktemp("sound") / "tiny.zarr").path


@pytest.fixture(scope="module")
def run(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound run."""
    folder = tmp_path_factory.mktemp("sound") / "run"
    train(open_dataset(dataset), folder, tiny_config(steps=2, checkpoint_every=2, validate_every=2))
    return folder


@pytest.mark.fuzz(16)
def test_broken_checkpoints(case: Case, run: Path) -> None:
    folder = case.given / "run"
    shutil.copytree(run / "checkpoints", folder / "checkpoints")
    case.mutate(folder)
    with case.judged(TrainError):
        world = load(folder, "last")
        assert world.encode(np.zeros((1, SIZE, SIZE, 3), np.uint8)).shape == (1, 16)
    facts = checkpoint.read(checkpoint.find(run, "last"))  # a run that goes on has settings and dataset of its own
    objective = build(facts.config, facts.data)
    with case.judged(TrainError):
        place = checkpoint.find(folder, "last")
        checkpoint.read(place)
        checkpoint.restore(place, objective, torch.optim.AdamW(objective.parameters()))


@pytest.mark.fuzz(16)
def test_broken_datasets(case: Case, dataset: Path) -> None:
    folder = case.given / "tiny.zarr"
    shutil.copytree(dataset, folder)
    case.mutate(folder)
    with case.judged(DatasetError):
        opened = open_dataset(folder)
        if not bad_numbers(opened):
            windows = Windows(opened, "train", length=4, batch=8)
            for batch in windows.batches(0):
                assert batch.frames.dtype == torch.uint8
