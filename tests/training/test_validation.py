"""What is said of a model on held-out frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from flows import train_console
from tests.training.tiny_run import tiny_config, tiny_dataset
from training import run_report
from training.dataset import Windows
from training.monitors import Frames, monitor
from training.trainer import train
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


def test_training_frames_are_not_called_the_validation_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without validation episodes, table and report named a split that was not there."""
    dataset = tiny_dataset(tmp_path / "tiny.zarr", share=0.0)
    trained = train(dataset, tmp_path / "run", tiny_config(steps=4, validate_every=4))
    assert trained.validation["judged_on"] == "train"
    console = Console(record=True, width=200)
    monkeypatch.setattr(train_console, "terminal", console)
    train_console.print_trained(trained)
    for text in (run_report.markdown(trained.run), console.export_text()):
        assert "on training episodes: none are held out" in text
        assert "validation split" not in text


def test_nothing_is_called_grounded_by_frames_that_the_probe_was_fitted_on() -> None:
    rng = np.random.default_rng(0)
    places = rng.random((200, 1, 2))
    boxes = np.concatenate([places, np.full((200, 1, 2), 0.1)], axis=-1)
    latents = np.concatenate([places[:, 0] * 4 - 2, rng.normal(0, 0.5, (200, 4))], axis=1)
    frames = Frames(latents, boxes, np.ones((200, 1), bool), np.zeros((200, 1), int))
    assert monitor(frames, frames, {0: "ball"}).verdict.startswith("grounded")
    verdict = monitor(frames, frames, {0: "ball"}, apart=False).verdict
    assert verdict.startswith("not judged: whether it is grounded cannot be told without held-out episodes (least ball")


def test_memory_of_batches_is_used_again_after_the_sample_was_drawn(tmp_path: Path) -> None:
    dataset, config = tiny_dataset(tmp_path / "tiny.zarr"), tiny_config()
    windows = Windows(dataset, batch=config.batch)
    kept = Validation(dataset, windows, config, DataFacts.of(dataset).categories)
    places = {batch.frames.data_ptr() for batch in windows.batches(0)}
    assert len(places) <= 2
    assert kept
