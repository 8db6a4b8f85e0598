"""How well are latents predicted, one step ahead and more?"""

from __future__ import annotations

import numpy as np
import torch

from training.dataset import Dataset, Windows
from training.dataset_format import SplitName
from training.evaluation.latents import BATCH, MEMORY
from training.world_model import WorldModel


def prediction_errors(
    model: WorldModel, dataset: Dataset, split: SplitName, horizon: int, windows: int = 1000, seed: int = 0
) -> np.ndarray:
    """Error of latents imagined 1 to `horizon` steps ahead with the true actions, (horizon,).

    In errors of standing still, that is of taking the last latent seen for every later one: 1 is no better than that.
    The model sees as many frames as it can use, then only actions.
    """
    context, skip = model.model.context, model.config.skip
    found = Windows(dataset, split, context + horizon, skip, BATCH, seed, MEMORY)
    errors, still, count = torch.zeros(horizon), torch.zeros(horizon), 0
    for batch in found.batches(epoch=0):
        latents = model.encode(batch.frames)
        actions = batch.actions[:, None, : context + horizon - 1].to(model.device)
        imagined = model.rollout(latents[:, :context], actions)[:, 0, context:]
        truth = latents[:, context:]
        errors += (imagined - truth).square().mean(-1).sum(0).cpu()
        still += (latents[:, context - 1 : context] - truth).square().mean(-1).sum(0).cpu()
        count += len(batch)
        if count >= windows:
            break
    return (errors / still.clamp_min(1e-12)).numpy()
