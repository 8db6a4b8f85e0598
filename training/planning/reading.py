"""Which boxes does the model imagine?

`ImaginedBoxes` reads boxes (..., N, 4) from latents (..., D) through the auxiliary head: as they are where the head has
a slot for each object, and back from spectra where it says Fourier sums. Costs about boxes are built on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import torch
from torch import Tensor

from training.planning.decoder import decoder
from training.planning.settings import Way
from training.planning.spectra import Minimised, Plausible, Refined

if TYPE_CHECKING:
    from training.world_model import WorldModel


class ImaginedBoxes:
    """Boxes of named objects, read from latents."""

    def __init__(
        self, model: WorldModel, objects: Sequence[int] | None = None, way: Way | None = None, run: Path | None = None
    ) -> None:
        """Read `objects` of a model.

        Args:
            model: A model with an auxiliary head whose target is `bb`.
            objects: The category of each object there is, like (0, 1, 1); by default one of each category.
            way: Back from spectra by a learned decoder, by one and then some steps of search, or by search alone; by
                default learned for the only object of its category, refined for several.
            run: The folder where decoders are kept; by default that of the model's run.
        """
        if model.head is None or model.target is None:
            raise ValueError("This model was trained without an auxiliary head: no boxes can be read from it.")
        if model.config.target.state != "bb":
            raise ValueError(f"The head says {model.config.target.state}; only plain boxes (bb) can be read back.")
        self.head, self.size = model.head, model.data.size
        self.categories = tuple(model.data.categories if objects is None else objects)
        if way not in (None, *get_args(Way)):
            raise ValueError(f"There is no way {way!r} back from spectra. Choose one of: {', '.join(get_args(Way))}.")
        if not self.categories:
            raise ValueError("Name the category of at least one object, or leave objects out for one of each.")
        self.slots = model.target.slots
        fourier, target = model.target.fourier, model.config.target
        if target.grouping == "all" and target.matching != "none":
            raise ValueError("The head was taught objects of all kinds together: it cannot be told which box is whose.")
        self.ways: dict[int, Callable[[Tensor], Tensor]] | None = None
        if fourier is None:
            if len(self.categories) != self.slots:
                raise ValueError(f"The head has {self.slots} slots: name the category of each, in the dataset's order.")
            return
        self.blocks: list[int] = fourier.categories.tolist()
        if unknown := set(self.categories) - set(self.blocks):
            raise ValueError(f"The head knows the categories {self.blocks}, not {sorted(unknown)}.")
        plausible = Plausible.of(model.data.arrays()["boxes"])
        counts = {category: self.categories.count(category) for category in dict.fromkeys(self.categories)}
        back = {
            count: _way_back(way, fourier.W, count, plausible, run or model.folder) for count in set(counts.values())
        }
        self.ways = {category: back[count] for category, count in counts.items()}

    def __call__(self, latents: Tensor) -> Tensor:
        """Boxes (..., N, 4) of latents (..., D), in the order of `categories`."""
        answers = self.head(latents)
        if self.ways is None:
            return answers.view(*answers.shape[:-1], self.slots, 4)
        blocks = answers.view(*answers.shape[:-1], len(self.blocks), -1)
        found = {category: way(blocks[..., self.blocks.index(category), :]) for category, way in self.ways.items()}
        taken = dict.fromkeys(found, 0)
        boxes = []
        for category in self.categories:
            boxes.append(found[category][..., taken[category], :])
            taken[category] += 1
        return torch.stack(boxes, dim=-2)


def _way_back(
    way: Way | None, frequencies: Tensor, objects: int, plausible: Plausible, run: Path | None
) -> Callable[[Tensor], Tensor]:
    way = way or ("learned" if objects == 1 else "refined")
    if way == "minimised":
        return Minimised(frequencies, objects, plausible)
    learned = decoder(frequencies, objects, plausible, run)
    return Refined(learned, Minimised(frequencies, objects, plausible)) if way == "refined" else learned
