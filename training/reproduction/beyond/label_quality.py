"""How good were the boxes that a model was trained with?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from training.reproduction.cells import Figure, Measure

if TYPE_CHECKING:
    from training.dataset import Dataset
    from training.world_model import WorldModel


@dataclass(frozen=True, kw_only=True)
class LabelQuality(Measure):
    """Boxes of a dataset against those that the simulator knows, in its held-out episodes.

    Figures: `HOTA`; `edges`: mean distance of the edges of matching boxes from the true ones, as a share of the image;
    `kinds`: the share of matching boxes whose category stands mostly for their kind of object.
    """

    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Compare them; the model has no say."""
        from labeling.metrics import NOTHING, compare, match
        from training.sources.simulator import kind_of

        agreement, kinds = NOTHING, Counter[tuple[int, str]]()
        for episode in dataset.split("validation"):
            found, true, names = _boxes(dataset, int(episode))
            agreement += compare(found, true)
            pairs, overlaps = match(found, true)
            for _, one, other in pairs[overlaps >= 0.5]:
                kinds[int(dataset.category[episode, one]), kind_of(names[other])] += 1
        figures = {"HOTA": Figure(agreement.hota)}
        if kinds:
            figures["edges"] = Figure(agreement.edge_error)
            most = Counter[int]()  # by category, boxes of the kind that it has most of
            for (category, _), count in kinds.items():
                most[category] = max(most[category], count)
            figures["kinds"] = Figure(most.total() / kinds.total())
        return figures


def _boxes(dataset: Dataset, episode: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Boxes of an episode as the dataset has them, (T, N, 4), and as they are, (T, M, 4), with their names.

    Corners, as shares of the image; NaN where absent.
    """
    from training.evaluation.success import world_of
    from training.sources.framing import Framing
    from training.sources.simulator import Batched

    world = world_of(dataset)
    assert isinstance(world, Batched)
    first = int(dataset.episode_offset[episode])
    rows = slice(first, first + int(dataset.episode_length[episode]))
    boxes, present = (np.asarray(dataset.array(name)[rows]) for name in ("boxes", "present"))
    states = np.asarray(dataset.array("state")[rows], float).reshape(-1, *world.state().shape)
    true = Framing(*world.size, dataset.size[0]).boxes(world.boxes_of(states))
    return _corners(np.where(present[..., None], boxes, np.nan)), _corners(true), world.object_names


def _corners(boxes: np.ndarray) -> np.ndarray:
    """Boxes (..., 4) cx cy w h as x1 y1 x2 y2."""
    return np.concatenate([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], axis=-1)
