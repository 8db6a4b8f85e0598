"""Do latents follow the objects of a clip that nobody trained on?

In each held-out clip by itself: frames of one clip look alike, and so do the places of its objects, so that pairs of
frames from two clips would say more about clips than about objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from training.reproduction.cells import Figure, Measure

if TYPE_CHECKING:
    from training.dataset import Dataset
    from training.evaluation.latents import Quantity, Seen
    from training.world_model import WorldModel

FIGURES = ("Spearman", "probe r")


@dataclass(frozen=True, kw_only=True)
class WithinClips(Measure):
    """How latents of held-out clips go with where objects truly are there.

    Figures, by clip: `NAME: Spearman` of distances, over all pairs of its frames; `NAME: probe r` of the mean place of
    its objects with what a linear map, fitted on the other clips, reads off latents. Clips whose objects stay where
    they are, or are seen too seldom, are not judged.
    """

    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Encode all frames, clip by clip."""
        from training.evaluation.geometry import distance_correlation
        from training.evaluation.probes import Task, linear_probe

        fitted = [_places(_seen(model, dataset, int(episode))) for episode in dataset.split("train")]
        latents, targets = (np.concatenate(parts) for parts in zip(*fitted, strict=True))
        figures: dict[str, Figure] = {}
        for episode in dataset.split("validation"):
            seen = _seen(model, dataset, int(episode))
            moving = _moving(seen)
            if moving is None:
                continue
            name = clip_name(dataset.sources[episode])
            spearman = distance_correlation(seen.latents[moving.rows], moving.values)
            figures[f"{name}: Spearman"] = Figure(spearman)
            if len(latents):
                figures[f"{name}: probe r"] = Figure(linear_probe(Task(latents, targets, *_places(seen))).pearson)
        return figures


def clip_name(video: str) -> str:
    """A clip as a reader knows it."""
    return str(PurePosixPath(video).with_suffix(""))


def _seen(model: WorldModel, dataset: Dataset, episode: int) -> Seen:
    """All frames of an episode."""
    from training.evaluation.latents import BATCH, Seen

    first, length = int(dataset.episode_offset[episode]), int(dataset.episode_length[episode])
    rows = np.arange(first, first + length)
    frames = dataset.array("frames")
    latents = [
        model.encode(np.asarray(frames[start : min(start + BATCH, first + length)])).float().cpu().numpy()
        for start in range(first, first + length, BATCH)
    ]
    boxes, present = (np.asarray(dataset.array(name)[first : first + length]) for name in ("boxes", "present"))
    category = np.broadcast_to(dataset.category[episode], present.shape)
    return Seen(np.concatenate(latents), rows, boxes, present, category)


def _moving(seen: Seen) -> Quantity | None:
    """Where the objects of a clip are, unless they hardly move or are hardly seen."""
    from training.evaluation.latents import quantities
    from training.monitors import ENOUGH, STILL

    found = quantities(seen, {0: "object"}).get("object, position")
    judged = found is not None and len(found.rows) >= ENOUGH and found.values.std(axis=0).max() > STILL
    return found if judged else None


def _places(seen: Seen) -> tuple[np.ndarray, np.ndarray]:
    """Latents of the frames that show objects, and the mean centre of these, (K, D) and (K, 2)."""
    rows = np.flatnonzero(seen.present.any(axis=1))
    there = seen.present[rows, :, None]
    return seen.latents[rows], np.where(there, seen.boxes[rows, :, :2], 0).sum(axis=1) / there.sum(axis=1)
