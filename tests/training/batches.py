"""Small batches for tests of targets and losses."""

from __future__ import annotations

import torch

from training.dataset import Batch


def make_batch(
    windows: int = 6, frames: int = 4, objects: int = 3, actions: int = 2, size: int = 16, seed: int = 0
) -> Batch:
    """Random frames, actions and objects; the first object is of category 0, the others of category 1."""
    random = torch.Generator().manual_seed(seed)
    place = (windows, frames, objects)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=random)

    return Batch(
        frames=torch.randint(0, 256, (windows, frames, size, size, 3), dtype=torch.uint8, generator=random),
        actions=uniform(windows, frames, actions) * 2 - 1,
        boxes=uniform(*place, 4) * 0.5 + 0.1,
        present=uniform(*place) > 0.2,
        category=(torch.arange(objects) > 0).long().expand(windows, -1),
        rows=torch.arange(windows) * 100,
        oriented=torch.cat([uniform(*place, 4) * 0.5 + 0.1, uniform(*place, 1) * 3 - 1.5], dim=-1),
        mass=uniform(*place, 2),
        depth=uniform(*place, 5).cumsum(-1) + 1,
        velocity=uniform(*place, 2) * 0.1,
        pose=uniform(*place, 6),
        pose_velocity=uniform(*place, 3) * 0.1,
        state=uniform(windows, frames, 7),
    )
