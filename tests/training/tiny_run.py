"""A tiny dataset and tiny settings, with which a run takes a second or two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from training import metrics
from training.config import TrainConfig, merged
from training.dataset_format import Dataset, DatasetCategory
from training.dataset_writer import DatasetWriter
from training.manifest import Split
from training.takes import Layout, Take

SIZE, FRAMES, EPISODES = 16, 12, 24


def tiny_dataset(
    path: Path, actions: int = 2, seed: int = 0, sometimes: bool = True, names: tuple[str, str] = ("red", "white"),
    share: float = 0.25,
) -> Dataset:  # fmt: skip
    """A red square that obeys its actions and a white one that drifts; `sometimes` the white one is not there.

    A `share` of the episodes is held out.
    """
    rng = np.random.default_rng(seed)
    with DatasetWriter(path, Layout((SIZE, SIZE), actions, 2, {})) as writer:
        for episode in range(EPISODES):
            moves = rng.normal(0, 1.5, (FRAMES, 2))
            red = np.clip(8 + np.cumsum(np.vstack([[0, 0], moves[:-1]]), axis=0), 2, 14)
            white = np.clip(rng.uniform(4, 12, 2) + np.arange(FRAMES)[:, None] * rng.normal(0, 0.5, 2), 2, 14)
            pictures = np.zeros((FRAMES, SIZE, SIZE, 3), np.uint8)
            boxes = np.full((FRAMES, 2, 4), 4 / SIZE)
            there = np.ones(FRAMES, bool) if not sometimes else rng.random(FRAMES) < 0.8
            for t in range(FRAMES):
                if there[t]:
                    _square(pictures[t], white[t], (255, 255, 255))
                _square(pictures[t], red[t], (255, 0, 0))
            boxes[:, 0, :2], boxes[:, 1, :2] = red / SIZE, white / SIZE
            boxes[~there, 1] = np.nan
            columns = {"actions": moves[:, :actions], "boxes": boxes}
            writer.add(Take(f"episode-{episode}", 0, [pictures], columns, np.array([0, 1]), np.array([0, 1])))
        kinds = [DatasetCategory(number, name, (name,), EPISODES) for number, name in enumerate(names)]
        return writer.finish("tiny", kinds, Split(validation=share))


def _square(picture: np.ndarray, centre: np.ndarray, colour: tuple[int, int, int]) -> None:
    x, y = np.round(centre).astype(int)
    picture[max(0, y - 2) : y + 2, max(0, x - 2) : x + 2] = colour


def tiny_config(**changes: Any) -> TrainConfig:
    """Settings of a run of 24 steps, 13 an epoch; `changes` on top, of groups only what they name."""
    small = {"width": 16, "depth": 1, "heads": 2, "ffn": 32}
    data = {
        "preset": "nball-cpu", "steps": 24, "batch": 12, "log_every": 5, "validate_every": 8, "checkpoint_every": 6,
        "monitor_windows": 24, "optimiser": {"lr": 3e-3},
        "objective": {"directions": 16, "head_hidden": 16},
        "model": {
            "latent": 16, "projector": 32, "encoder": {**small, "size": SIZE, "patch": 4},
            "predictor": {**small, "head_size": 8, "dropout": 0.1},
        },
    }  # fmt: skip
    return TrainConfig.model_validate(merged(data, changes))


def numbers(run: Path) -> list[dict[str, Any]]:
    """All metrics of a run but the clock's."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in metrics.read(run)]


def weights(run: Path) -> dict[str, torch.Tensor]:
    """Everything in the last checkpoint of a run: model and optimiser."""
    from safetensors.torch import load_file

    from training import checkpoint

    folder = checkpoint.find(run, "last")
    return {**load_file(folder / checkpoint.WEIGHTS), **load_file(folder / checkpoint.MOMENTS)}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
