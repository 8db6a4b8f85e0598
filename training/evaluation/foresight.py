"""How well does a model foresee where objects will be?

The model sees a few frames, imagines what comes with the true actions, and its auxiliary head says where it imagines
the objects. Objects of a kind have no order that a picture shows: each counts as the imagined one that fits it best.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from training.dataset import Dataset, Windows
from training.dataset_format import SplitName
from training.evaluation.latents import BATCH, MEMORY
from training.matching import fitting_order, reordered
from training.planning.costs import in_pixels
from training.planning.reading import ImaginedBoxes
from training.planning.settings import Way
from training.world_model import WorldModel


@dataclass(frozen=True)
class Foreseen:
    """Mean distances in pixels, of the objects of one kind."""

    off: float  # of imagined places from true ones
    blind: float  # of the better of two guesses: places of another moment, matched in the same way, or the middle


@torch.inference_mode()
def foreseen_places(
    model: WorldModel, dataset: Dataset, split: SplitName, horizon: int, windows: int = 1000, seed: int = 0,
    way: Way | None = None,
) -> dict[str, Foreseen]:  # fmt: skip
    """Places imagined `horizon` steps ahead, for each kind of objects, by its name.

    Args:
        model: With an auxiliary head from which boxes can be read.
        dataset: With the same objects in all episodes, as simulators have them.
        split: Episodes that are looked at.
        horizon: Steps of the model.
        windows: How many moments, at the most a batch more.
        seed: Chooses them.
        way: Boxes back from spectra, if the head says those; see `ImaginedBoxes`.
    """
    context = model.model.context
    objects = dataset.category[0].tolist()
    read = ImaginedBoxes(model, objects, way)
    found, true = list[Tensor](), list[Tensor]()
    for batch in Windows(dataset, split, context + horizon, model.config.skip, BATCH, seed, MEMORY).batches(epoch=0):
        start = model.encode(batch.frames[:, :context])
        actions = batch.actions[:, None, : context + horizon - 1].to(model.device)
        found.append(in_pixels(read, model.rollout(start, actions)[:, 0, -1])[..., :2].float().cpu())
        true.append(batch.boxes[:, -1, : len(objects), :2] * torch.tensor(model.data.size[::-1]))
        if sum(map(len, true)) >= windows:
            break
    kinds, truth = torch.tensor(objects), torch.cat(true)
    middle = torch.tensor(model.data.size[::-1]).expand_as(truth) / 2
    off = _by_kind(_apart(torch.cat(found), truth, kinds), kinds)
    blind = [_by_kind(_apart(guess, truth, kinds), kinds) for guess in (truth.roll(len(truth) // 2, 0), middle)]
    return {
        name: Foreseen(off[kind], min(guess[kind] for guess in blind)) for kind, name in dataset.category_names.items()
    }


def _by_kind(distances: Tensor, kinds: Tensor) -> dict[int, float]:
    return {int(kind): float(distances[:, kinds == kind].mean()) for kind in set(kinds.tolist())}


def _apart(places: Tensor, truth: Tensor, kinds: Tensor) -> Tensor:
    """Distances (M, N) between places and true ones (M, N, 2), each of the place that fits it best."""
    order = fitting_order(places, truth, torch.ones_like(truth, dtype=torch.bool), kinds.expand(len(truth), -1))
    return torch.linalg.vector_norm(places - reordered(truth, order), dim=-1)
