"""Is a world model any good?

`evaluate` judges a run on episodes that it was not trained on: what its latents know of the objects (distances, linear
and network probes), how far ahead it can imagine, and the verdict in one line; in a simulator also whether it plans.
What was not judged is said. The result is plain data, written as JSON, Markdown, figures and one HTML page.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from training import monitors
from training.dataset import Dataset, DatasetError, observations, open_dataset
from training.dataset_format import SplitName
from training.evaluation.geometry import distance_correlation
from training.evaluation.latents import Quantity, Say, Seen, episode_of, of_the_world, quantities, to_fit_and_judge
from training.evaluation.prediction import prediction_errors
from training.evaluation.probes import Reading, Task, linear_probe, network_probe
from training.evaluation.success import Success, nball_ways, of_nball, try_out, world_of
from training.evaluation.trips import Trip, make_trips
from training.world_model import WorldModel

FITTED, JUDGED = 50_000, 5_000  # frames that probes learn from, and are judged by
AHEAD = 8  # steps


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
    episodes: int = 0  # that it was judged on
    frames: int = 0  # of these episodes, as many as were looked at
    same_dataset: bool = True  # as it was trained on; else it is not known which of the episodes are new to it

    def as_data(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Material:
    """What figures are drawn from."""

    model: WorldModel
    dataset: Dataset
    fitted: Seen  # training frames that probes learned from
    held_out: Seen  # frames that were judged
    trips: list[Trip] = field(default_factory=list)  # plans, carried out; none without a simulator


def evaluate(
    model: WorldModel, dataset: Dataset, run: Path, split: SplitName = "validation", say: Say | None = None,
    epochs: int | None = None, starts: int | None = 0, seeds: int = 1,
) -> tuple[Evaluation, Material]:  # fmt: skip
    """Judge a world model.

    Args:
        model: The model.
        dataset: With the training episodes, which probes learn from, and those to judge by.
        run: Its folder, for the name.
        split: Judge on these episodes.
        say: Hears what is being done.
        epochs: Of the network probe, if not as in the paper.
        starts: From how many places plans are tried out, if the episodes come from a simulator; None: as many as is
            usual for it.
        seeds: Of planning, each with starts of its own.
    """
    say = say or (lambda what: None)
    names = dataset.category_names
    fitted, held_out = to_fit_and_judge(model, dataset, split, FITTED, JUDGED, say)
    knowledge, notes, left_out = dict[str, Knowledge](), list[str](), dict[str, list[str]]()
    known = quantities(fitted, names) | _told(fitted, dataset, notes)
    asked = quantities(held_out, names) | _told(held_out, dataset, [])
    for name in [*asked, *(f"{kind}, position" for kind in names.values() if f"{kind}, position" not in asked)]:
        if why_not := _cannot_be_judged(name, known.get(name), asked.get(name)):
            left_out.setdefault(why_not, []).append(name)
            continue
        say(f"probing: {name}")
        there, latents = asked[name], held_out.latents[asked[name].rows]
        task = Task(fitted.latents[known[name].rows], known[name].values, latents, there.values)
        network = network_probe(task, model.device, epochs) if epochs else network_probe(task, model.device)
        spearman = distance_correlation(latents, there.values)
        knowledge[name] = Knowledge(spearman, linear_probe(task), network, len(there.rows))
    notes += [f"Not judged: {'; '.join(missing)}: {why_not}." for why_not, missing in left_out.items()]
    say("imagining")
    ahead = _ahead(model, dataset, split)
    prediction = prediction_errors(model, dataset, split, ahead).tolist() if ahead else []
    notes += [] if ahead else [f"No {split} episode is long enough to look ahead in: nothing was imagined."]
    apart = split != "train"
    verdict = _said_of_its_sample(monitors.monitor(_frames(held_out), _frames(fitted), names, apart).verdict)
    success, trips = list[Success](), list[Trip]()
    notes += _no_trial(model, dataset)
    if starts != 0 and dataset.world and model.data.action_dim:
        try:
            success = try_out(model, dataset, split, starts, seeds, say)
            notes += _too_far(model, dataset, split)
        except DatasetError as error:
            notes.append(f"Plans were not tried out: {error}")
    if success:
        say("driving, for the pictures")
        try:
            trips = make_trips(model, dataset, split)
        except DatasetError as error:
            notes.append(f"There are no pictures of plans: {error}")
    if success and min(one.seeds for one in success) < seeds:
        notes.append(
            "Some of the seeds of planning were not used: all starts of the episodes were taken by the others."
        )
    episodes = np.unique(episode_of(dataset, held_out.frames))
    same = dataset.fingerprint == model.data.fingerprint
    notes += _whose_videos(dataset, split, episodes, same)
    found = Evaluation(
        run.resolve().name, model.step, dataset.name, split, verdict, knowledge, prediction, success, notes,
        len(episodes), len(held_out.frames), same,
    )  # fmt: skip
    return found, Material(model, dataset, fitted, held_out, trips)


def _too_far(model: WorldModel, dataset: Dataset, split: SplitName) -> list[str]:
    """Which of the ways to plan in n-ball no episode is long enough for."""
    ways = nball_ways(model, dataset, split) if of_nball(dataset) else {}
    left_out = [
        f"{horizon} steps ahead with {context} frames seen" for (horizon, context), fits in ways.items() if not fits
    ]
    return [f"Not tried out, for episodes are too short: plans {', '.join(left_out)}."] if left_out else []


def _said_of_its_sample(verdict: str) -> str:
    """A verdict with what its figures are of: the table's are of more frames, and of each object for itself."""
    if "R²" not in verdict:
        return verdict
    return f"{verdict} (measured as while training: mean place of each kind, pairs of up to {monitors.PAIRED} frames)"


def _cannot_be_judged(name: str, known: Quantity | None, there: Quantity | None) -> str:
    """Why something cannot be judged from what training frames and judged ones show; empty if it can."""
    if there is None:
        return "the judged frames do not show it, or it never moves there"
    if len(there.rows) < monitors.ENOUGH:
        return f"fewer than {monitors.ENOUGH} of the judged frames show it"
    if known is None or known.values.shape[1] != there.values.shape[1]:
        return "training episodes show other objects of that kind, or none"
    least = monitors.STILL if name.endswith(", position") else 0
    return "" if there.values.std(axis=0).max() > least else "it hardly changes"


def _no_trial(model: WorldModel, dataset: Dataset) -> list[str]:
    """Why there are no plans to try out, if there are none."""
    if not model.data.action_dim:
        return ["The model was trained without actions: it imagines what comes, but cannot plan."]
    return [] if dataset.world else ["The episodes come from no simulator: plans cannot be tried out on recordings."]


def _whose_videos(dataset: Dataset, split: SplitName, episodes: np.ndarray, same: bool) -> list[str]:
    """How far recordings can be trusted as judges."""
    if dataset.world and not dataset.world.labeled:
        return []
    notes = ["Where objects are is taken from the boxes of the dataset: mistakes in these count as the model's."]
    judged, trained = ({dataset.sources[one] for one in which} for which in (episodes, dataset.split("train")))
    if same and split != "train" and (both := judged & trained):
        which = "All" if both == judged else f"{len(both)} of {len(judged)}"
        notes.append(
            f"{which} recordings that are judged are trained on as well, in other stretches: a new one may look "
            "different."
        )
    return notes


def _told(seen: Seen, dataset: Dataset, notes: list[str]) -> dict[str, Quantity]:
    """What the simulator itself says, if there is one that can be opened here."""
    try:
        return of_the_world(seen, world_of(dataset) if dataset.world else None)
    except DatasetError as error:
        notes.append(f"The simulator was not asked: {error}")
        return {}


def dataset_of(model: WorldModel, path: Path | None) -> Dataset:
    """The dataset at `path`, or the one that a model was trained on; DatasetError if that is gone or does not fit."""
    if path is None and not (model.data.path and Path(model.data.path).exists()):
        where = f" ({model.data.path})" if model.data.path else ""
        raise DatasetError(f"The dataset {model.data.name}{where} is not where it was: give --dataset.")
    dataset = open_dataset(path or model.data.path)
    if dataset.size != model.data.size or dataset.action_dim != model.data.action_dim:
        raise DatasetError(
            f"{dataset.path} has frames of {dataset.size} and {dataset.action_dim} numbers an action; the model takes "
            f"{model.data.size} and {model.data.action_dim}. Prepare it with the same settings as {model.data.name}."
        )
    if path is None and dataset.fingerprint != model.data.fingerprint:
        raise DatasetError(
            f"{dataset.path} is another dataset than when the model was trained on it (fingerprint "
            f"{dataset.fingerprint[:12]}, then {model.data.fingerprint[:12]}): which of its episodes the model knows "
            f"cannot be told. Bring the old one back, or judge on this one, marked so: --dataset {dataset.path}"
        )
    return dataset


def _ahead(model: WorldModel, dataset: Dataset, split: SplitName) -> int:
    """How many steps ahead the episodes allow, 0 to AHEAD."""
    longest = int(np.max(dataset.episode_length[dataset.split(split)], initial=0))
    return max(0, min(AHEAD, observations(dataset, longest, model.config.skip) - model.model.context))


def _frames(seen: Seen) -> monitors.Frames:
    return monitors.Frames(seen.latents, seen.boxes, seen.present, seen.category)
