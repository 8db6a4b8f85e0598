"""How does a run survive being killed?

A checkpoint is a folder, visible only when it is complete: weights (with W and statistics) and the optimiser's moments
as safetensors, everything else as JSON. Order of the data, learning rate and random numbers all follow from the step,
so that nothing else has to be kept. A run keeps its last checkpoint and its best.

    RUN/checkpoints/step-00000500/   model.safetensors   optimiser.safetensors   checkpoint.json
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from labeling.problems import in_short
from labeling.settings_files import listed
from training.config import TrainConfig, TrainError
from training.objective import Objective
from training.world_model import DataFacts

SCHEMA = 1
FOLDER, WEIGHTS, MOMENTS, FACTS = "checkpoints", "model.safetensors", "optimiser.safetensors", "checkpoint.json"
DRAFT = ".draft-"


class Facts(BaseModel, frozen=True, extra="forbid"):
    """Where a run stands, and what decides how it goes on."""

    schema_version: int = SCHEMA
    version: str  # of spectrabox
    step: int
    steps: int  # in all
    seconds: float  # spent on training so far
    best_step: int | None  # whose validation loss is lowest
    best_loss: float | None
    sums: list[float]  # of the loss terms since the last line of metrics
    summed: int
    config: TrainConfig
    data: DataFacts
    order: dict[str, Any]  # what decides the order of the windows
    validation: dict[str, Any]  # the last look at the validation split


def save(run: Path, objective: Objective, optimiser: torch.optim.Optimizer, facts: Facts) -> Path:
    """Write a checkpoint, then remove those that are neither the last nor the best."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in objective.state_dict().items()}
    if broken := [name for name, tensor in weights.items() if not tensor.isfinite().all()]:
        raise TrainError(
            f"Weights are no longer numbers at step {facts.step} ({broken[0]}). {kept(run)} "
            "A smaller optimiser.lr usually helps."
        )
    folder = run / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder, prefix=DRAFT))
    save_file(weights, draft / WEIGHTS)
    save_file(_moments(objective, optimiser), draft / MOMENTS)
    (draft / FACTS).write_text(facts.model_dump_json(indent=1), encoding="utf-8")
    for file in draft.iterdir():
        _to_disk(file)
    place = folder / f"step-{facts.step:08d}"
    if place.exists():
        _remove(place)
    os.rename(draft, place)
    _to_disk(folder)
    _prune(folder, {facts.step, facts.best_step})
    return place


def restore(folder: Path, objective: Objective, optimiser: torch.optim.Optimizer | None = None) -> None:
    """Put a checkpoint's weights into a model, and its moments into an optimiser."""
    try:
        objective.load_state_dict(load_file(folder / WEIGHTS))
        if optimiser is None:
            return
        moments = load_file(folder / MOMENTS)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise TrainError(f"{folder} cannot be used: {in_short(error)}") from error
    state: dict[int, dict[str, Tensor]] = {}
    for number, (name, _) in enumerate(objective.named_parameters()):
        own = {key.rpartition("/")[2]: tensor for key, tensor in moments.items() if key.rpartition("/")[0] == name}
        if own:
            state[number] = own
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def read(folder: Path) -> Facts:
    """The facts of a checkpoint."""
    try:
        facts = Facts.model_validate_json((folder / FACTS).read_text(encoding="utf-8"))
    except ValidationError as error:
        reason = listed([f"{'.'.join(map(str, row['loc']))} {row['msg']}".strip() for row in error.errors()])
        raise TrainError(f"{folder} is not a checkpoint that this version reads: {reason}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise TrainError(f"{folder} is not a checkpoint that this version reads: {in_short(error)}") from error
    if facts.schema_version != SCHEMA:
        raise TrainError(f"{folder} has schema {facts.schema_version}, this version reads {SCHEMA}. Train anew.")
    return facts


def last(run: Path) -> Path | None:
    """The newest checkpoint of a run, if there is one."""
    return max(_checkpoints(run / FOLDER).items(), default=(0, None))[1]


def find(run: Path, which: str = "best") -> Path:
    """The checkpoint folder of a run, or `run` itself if it is one; TrainError if there is none."""
    if which not in ("best", "last"):
        raise TrainError(f"There is no checkpoint {which!r}: choose best or last.")
    if (run / FACTS).is_file():
        return run
    newest = last(run)
    if newest is None:
        raise TrainError(f"{run} has no checkpoint. Make one with: spectrabox train DATASET --out {run}")
    known = _checkpoints(run / FOLDER)
    best = read(newest).best_step
    return known.get(best, newest) if which == "best" and best is not None else newest


def kept(run: Path) -> str:
    """A sentence on where one can go on after something went wrong."""
    newest = last(run)
    return f"The last good checkpoint is {newest}." if newest else "There is no checkpoint yet."


def _moments(objective: Objective, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value.detach().cpu().contiguous()
        for name, parameter in objective.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def _checkpoints(folder: Path) -> Mapping[int, Path]:
    """Complete checkpoints by step."""
    if not folder.is_dir():
        return {}
    found = {path: re.fullmatch(r"step-(\d+)", path.name) for path in folder.iterdir()}
    return {int(match[1]): path for path, match in found.items() if match}


def _prune(folder: Path, keep: set[int | None]) -> None:
    for step, path in _checkpoints(folder).items():
        if step not in keep:
            _remove(path)
    for draft in folder.glob(f"{DRAFT}*"):  # of a run that was killed
        shutil.rmtree(draft, ignore_errors=True)


def _remove(place: Path) -> None:
    """Hidden first: a kill halfway leaves no half checkpoint."""
    hidden = place.with_name(f"{DRAFT}{place.name}")
    os.rename(place, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _to_disk(path: Path) -> None:
    """Before the new name becomes visible, what it stands for is on the disk, power cut or not."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
