"""What does a trained model make of frames?"""

from __future__ import annotations

import numpy as np
import torch

from training.dataset import Dataset, Windows
from training.dataset_format import SplitName
from training.monitors import Frames
from training.world_model import WorldModel

MEMORY = 1 << 30  # bytes of the dataset that are held while frames are drawn from it
BATCH = 250


def encoded(model: WorldModel, dataset: Dataset, split: SplitName, count: int, seed: int = 0) -> Frames:
    """Latents of `count` frames of a split, drawn without repetition (or all, if there are fewer), and their boxes."""
    windows = Windows(dataset, split, length=1, batch=BATCH, seed=seed, memory_limit=MEMORY)
    latents, boxes, present, category = [], [], [], []
    for number, batch in enumerate(windows.batches(epoch=0)):
        if number * BATCH >= count:
            break
        latents.append(model.encode(batch.frames[:, 0]).float().cpu())
        boxes.append(batch.boxes[:, 0])
        present.append(batch.present[:, 0])
        category.append(batch.category)
    parts = (torch.cat(column)[:count].numpy() for column in (latents, boxes, present, category))
    return Frames(*parts)


def positions(frames: Frames, category: int) -> np.ndarray:
    """Centres of the objects of a category side by side, (M, 2 * objects); they must be there in every frame."""
    chosen = (frames.category == category).all(axis=0)
    if not frames.present[:, chosen].all():
        raise ValueError(f"Objects of category {category} are missing in some frames.")
    return frames.boxes[:, chosen, :2].reshape(len(frames.boxes), -1)
