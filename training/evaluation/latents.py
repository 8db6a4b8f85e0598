"""What does a trained model make of frames, and what is really in them?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from training.dataset import Dataset, DatasetError, Windows
from training.dataset_format import SplitName
from training.envs import Environment
from training.world_model import WorldModel

Say = Callable[[str], None]  # hears what is being done
MEMORY = 1 << 30  # bytes of the dataset that are held while frames are drawn from it
BATCH = 250
ONE_IN = 10  # training episodes that are judged where no others are


@dataclass(frozen=True)
class Seen:
    """Latents of M frames in random order, and what the frames show."""

    latents: np.ndarray  # (M, D)
    frames: np.ndarray  # (M,) row of the dataset
    boxes: np.ndarray  # (M, N, 4) cx cy w h
    present: np.ndarray  # (M, N) bool
    category: np.ndarray  # (M, N)
    velocity: np.ndarray | None = None  # (M, N, 2)
    state: np.ndarray | None = None  # (M, S), the simulator's
    ordered: bool = True  # whether the objects of a category come in the same order everywhere

    def chosen(self, rows: np.ndarray) -> Seen:
        """Only these of the frames."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: one[rows] for name, one in columns.items() if isinstance(one, np.ndarray)})


def encoded(
    model: WorldModel, dataset: Dataset, split: SplitName, count: int, seed: int = 0, say: Say | None = None
) -> Seen:
    """Latents of `count` frames of a split, drawn without repetition; if there are fewer, of almost all.

    `say` hears how far it is.
    """
    there = int(dataset.episode_length[dataset.split(split)].sum())
    # Batches are whole: where all frames count, they are cut so that next to none are left over.
    size = there // -(-there // BATCH) if 0 < there < count else BATCH
    windows = Windows(dataset, split, length=1, batch=size, seed=seed, memory_limit=MEMORY)
    columns: dict[str, list[torch.Tensor]] = {}
    for number, batch in enumerate(windows.batches(epoch=0)):
        if number * size >= count:
            break
        if say:
            say(f"encoding frames, {number * size:,} of {min(there, count):,}")
        found = {
            "latents": model.encode(batch.frames[:, 0]).float().cpu(), "frames": batch.rows,
            "boxes": batch.boxes[:, 0], "present": batch.present[:, 0], "category": batch.category,
        }  # fmt: skip
        extra = {"velocity": batch.velocity, "state": batch.state}
        found |= {name: column[:, 0] for name, column in extra.items() if column is not None}
        for name, column in found.items():
            columns.setdefault(name, []).append(column)
    arrays = {name: torch.cat(parts)[:count].numpy() for name, parts in columns.items()}
    # No camera says which of two balls is the first: only a simulator's own boxes have an order.
    return Seen(**arrays, ordered=dataset.world is not None and not dataset.world.labeled)


def to_fit_and_judge(
    model: WorldModel, dataset: Dataset, split: SplitName, fitted: int, judged: int, say: Say | None = None
) -> tuple[Seen, Seen]:
    """Training frames that probes learn from, and frames of other episodes, of `split`, that they are judged by.

    Where training episodes are judged, every tenth is, and probes learn from the rest.
    """
    if split != "train":
        known = encoded(model, dataset, "train", fitted, say=say)
        return known, encoded(model, dataset, split, judged, seed=1, say=say)
    seen = encoded(model, dataset, "train", fitted + judged, say=say)
    episode = episode_of(dataset, seen.frames)
    there = np.unique(episode)
    if len(there) < 2:
        raise DatasetError(f"{dataset.path} has one training episode: probes cannot be fitted and judged on it alike.")
    apart = np.isin(episode, there[::ONE_IN])
    return seen.chosen(np.flatnonzero(~apart)), seen.chosen(np.flatnonzero(apart)[:judged])


def episode_of(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """The episodes that rows (M,) of a dataset belong to."""
    return np.searchsorted(dataset.episode_offset, rows, side="right") - 1


@runtime_checkable
class Telling(Protocol):
    """A simulator that knows more of its states than boxes."""

    def quantities_of(self, states: np.ndarray) -> dict[str, np.ndarray]:
        """What a latent may be asked for, by name, (T, k) each."""


@dataclass(frozen=True)
class Quantity:
    """Something about the objects that a latent may hold."""

    rows: np.ndarray  # (K,) the frames that show it
    values: np.ndarray  # (K, S)


def quantities(seen: Seen, names: Mapping[int, str]) -> dict[str, Quantity]:
    """Positions and velocities of each category's objects, and of all of them, by name.

    Objects that are always there stand side by side, in their order. Of a category whose objects come and go, or that
    has several without an order, the mean over those that are there counts.
    """
    found: dict[str, Quantity] = {}
    columns = {"position": seen.boxes[..., :2], "velocity": seen.velocity}
    for what, values in columns.items():
        if values is None:
            continue
        known = seen.present & np.isfinite(values).all(axis=-1)
        parts = {
            name: _of(known & (seen.category == category), values, seen.ordered) for category, name in names.items()
        }
        parts = {name: part for name, part in parts.items() if len(part.rows) and part.values.std(axis=0).max() > 0}
        found |= {f"{name}, {what}": part for name, part in parts.items()}
        if len(parts) > 1:
            found[f"{together(names)}, {what}"] = _together(list(parts.values()))
    return found


def together(names: Mapping[int, str]) -> str:
    """What all kinds of objects taken together are called: `all`, unless one of them has that name."""
    title = "all"
    while title in names.values():
        title += " objects"
    return title


def of_the_world(seen: Seen, world: Environment | None) -> dict[str, Quantity]:
    """What the simulator itself can tell of its states, as the yaw of a block; nothing if it does not say."""
    if seen.state is None or not isinstance(world, Telling):
        return {}
    every = np.arange(len(seen.latents))
    return {name: Quantity(every, values) for name, values in world.quantities_of(seen.state).items()}


def _of(member: np.ndarray, values: np.ndarray, ordered: bool) -> Quantity:
    """Of the objects that `member` (M, N) names in each frame."""
    used = member.any(axis=0)
    if used.any() and member[:, used].all() and (ordered or used.sum() == 1):
        return Quantity(np.arange(len(member)), values[:, used].reshape(len(values), -1))
    rows = np.flatnonzero(member.any(axis=1))
    there = member[rows, :, None]
    mean = np.where(there, values[rows], 0).sum(axis=1) / there.sum(axis=1)
    return Quantity(rows, mean)


def _together(parts: list[Quantity]) -> Quantity:
    """Side by side, in the frames that show them all."""
    rows = parts[0].rows
    for part in parts[1:]:
        rows = np.intersect1d(rows, part.rows)
    return Quantity(rows, np.concatenate([part.values[np.isin(part.rows, rows)] for part in parts], axis=1))
