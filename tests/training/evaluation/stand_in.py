"""Models that know nothing and plans that were not searched for, where a test is about what is done with them."""

from __future__ import annotations

import numpy as np
import torch

from tests.training.tiny_run import tiny_config
from training.dataset import Dataset
from training.planning.cem import Plan
from training.planning.planner import Found
from training.world_model import DataFacts, WorldModel, build


def untrained(dataset: Dataset, **target: str) -> WorldModel:
    """A tiny model that fits a dataset."""
    torch.manual_seed(0)
    config, data = tiny_config(target=target), DataFacts.of(dataset)
    objective = build(config, data).eval()
    return WorldModel(objective.model, objective.head, objective.target, config, data, 0)


def planned(actions: np.ndarray) -> Found:
    """What a planner hands back that came upon these actions (B, H, A) at once, at no cost."""
    return Found(actions, Plan(torch.from_numpy(actions), torch.zeros(len(actions)), []))
