"""Is a world model any good?

`evaluate` judges a run on episodes that it was not trained on: what its latents know of the objects (distances, linear
and network probes), how far ahead it can imagine, and the verdict in one line; in a simulator also whether it plans.
The result is plain data, written as JSON, Markdown, figures and one HTML page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from training import monitors
from training.dataset import Dataset, DatasetError, open_dataset
from training.dataset_format import SplitName
from training.evaluation.geometry import distance_correlation
from training.evaluation.latents import Quantity, Seen, encoded, of_the_world, quantities
from training.evaluation.prediction import prediction_errors
from training.evaluation.probes import Reading, Task, linear_probe, network_probe
from training.evaluation.success import Success, try_out, world_of
from training.world_model import WorldModel

FITTED, JUDGED = 50_000, 5_000  # frames that probes learn from, and are judged by
AHEAD = 8  # steps

Say = Callable[[str], None]


@dataclass(frozen=True)
class Knowledge:
    """What latents know of one quantity, as the position of the control ball."""

    spearman: float  # of distances
    linear: Reading
    network: Reading
    frames: int  # held-out frames that show it


@dataclass(frozen=True)
class Evaluation:
    """All figures of a world model."""

    run: str
    step: int
    dataset: str
    split: str  # the episodes that it was judged on
    verdict: str
    knowledge: dict[str, Knowledge]  # by quantity
    prediction: list[float]  # error 1, 2, ... steps ahead over that of standing still
    success: list[Success]  # of plans; none without a simulator
    notes: list[str]  # what could not be judged, and why

    def as_data(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Material:
    """What figures are drawn from."""

    model: WorldModel
    dataset: Dataset
    fitted: Seen
    held_out: Seen


def evaluate(
    model: WorldModel, dataset: Dataset, run: Path, split: SplitName = "validation", say: Say | None = None,
    epochs: int | None = None, starts: int = 0,
) -> tuple[Evaluation, Material]:  # fmt: skip
    """Judge a world model.

    Args:
        model: The model.
        dataset: With the training episodes, which probes learn from, and those to judge by.
        run: Its folder, for the name.
        split: Judge on these episodes.
        say: Hears what is being done.
        epochs: Of the network probe, if not as in the paper.
        starts: From how many places plans are tried out, if the episodes come from a simulator.
    """
    say = say or (lambda what: None)
    names = model.data.categories
    say("encoding frames")
    fitted = encoded(model, dataset, "train", FITTED)
    held_out = encoded(model, dataset, split, JUDGED, seed=1)
    knowledge, notes = dict[str, Knowledge](), list[str]()
    known = quantities(fitted, names) | _told(fitted, dataset, notes)
    for name, there in (quantities(held_out, names) | _told(held_out, dataset, [])).items():
        if name not in known or known[name].values.shape[1] != there.values.shape[1]:
            notes.append(f"{name} is not judged: training episodes show other objects of that kind, or none.")
            continue
        if not there.values.std(axis=0).max() > 0:
            notes.append(f"{name} is not judged: it never changes.")
            continue
        say(f"probing: {name}")
        latents = held_out.latents[there.rows]
        task = Task(fitted.latents[known[name].rows], known[name].values, latents, there.values)
        network = network_probe(task, model.device, epochs) if epochs else network_probe(task, model.device)
        spearman = distance_correlation(latents, there.values)
        knowledge[name] = Knowledge(spearman, linear_probe(task), network, len(there.rows))
    say("imagining")
    prediction = prediction_errors(model, dataset, split, _ahead(model, dataset, split))
    verdict = monitors.monitor(_frames(held_out), _frames(fitted), names).verdict
    success = list[Success]()
    if starts and dataset.world and model.data.action_dim:
        say("planning")
        try:
            success = try_out(model, dataset, split, starts)
        except DatasetError as error:
            notes.append(f"Plans were not tried out: {error}")
    found = Evaluation(
        run.name, model.step, dataset.name, split, verdict, knowledge, prediction.tolist(), success, notes
    )
    return found, Material(model, dataset, fitted, held_out)


def _told(seen: Seen, dataset: Dataset, notes: list[str]) -> dict[str, Quantity]:
    """What the simulator itself says, if there is one that can be opened here."""
    try:
        return of_the_world(seen, world_of(dataset) if dataset.world else None)
    except DatasetError as error:
        notes.append(f"The simulator was not asked: {error}")
        return {}


def dataset_of(model: WorldModel, path: Path | None) -> Dataset:
    """The dataset at `path`, or the one that a model was trained on; DatasetError if it is gone or does not fit."""
    if path is None and not (model.data.path and Path(model.data.path).exists()):
        where = f" ({model.data.path})" if model.data.path else ""
        raise DatasetError(f"The dataset {model.data.name}{where} is not where it was: give --dataset.")
    dataset = open_dataset(path or model.data.path)
    if dataset.size != model.data.size or dataset.action_dim != model.data.action_dim:
        raise DatasetError(
            f"{dataset.path} has frames of {dataset.size} and {dataset.action_dim} numbers an action; the model takes "
            f"{model.data.size} and {model.data.action_dim}. Prepare it with the same settings as {model.data.name}."
        )
    return dataset


def _ahead(model: WorldModel, dataset: Dataset, split: SplitName) -> int:
    """How many steps ahead the episodes allow, at most AHEAD."""
    longest = int(np.max(dataset.episode_length[dataset.split(split)], initial=0))
    steps = longest // model.config.skip - model.model.context
    if steps < 1:
        raise DatasetError(f"{dataset.path} has no {split} episode that is long enough to look ahead in.")
    return min(AHEAD, steps)


def _frames(seen: Seen) -> monitors.Frames:
    return monitors.Frames(seen.latents, seen.boxes, seen.present, seen.category)
