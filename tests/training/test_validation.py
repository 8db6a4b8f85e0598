"""What is said of a model on held-out frames."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.training.tiny_run import tiny_config, tiny_dataset
from training.dataset import Windows
from training.validation import Validation
from training.world_model import DataFacts, build


def test_running_statistics_that_lag_behind_do_not_count(tmp_path: Path) -> None:
    dataset, config = tiny_dataset(tmp_path / "tiny.zarr"), tiny_config()
    data = DataFacts.of(dataset)
    torch.manual_seed(0)
    objective = build(config, data)
    validation = Validation(dataset, Windows(dataset, batch=config.batch), config, data.categories)
    fresh = validation.look(objective)
    for name, buffer in objective.named_buffers():
        if name.endswith("running_mean"):
            buffer += 100
    assert validation.look(objective) == fresh
    assert objective.training


def test_held_out_frames_are_judged_as_frames_are_trained_on(tmp_path: Path) -> None:
    """With a model that has just been made, whose running statistics are still those of nothing."""
    dataset, config = tiny_dataset(tmp_path / "tiny.zarr"), tiny_config()
    data = DataFacts.of(dataset)
    torch.manual_seed(0)
    objective = build(config, data)
    windows = Windows(dataset, batch=config.batch)
    trained_on = torch.stack([objective(batch, 0).prediction for batch in windows.batches(0)]).mean().item()
    row = Validation(dataset, windows, config, data.categories).look(objective)
    assert row["prediction"] == pytest.approx(trained_on, rel=0.3)
