"""What was trained, and on what?

`build` makes world model, auxiliary head, target and loss from the settings and a few facts about the dataset: a fresh
run and a saved one come from the same place. `load` opens the world model of a finished (or stopped) run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor

from labeling.places import on_disk
from labeling.problems import in_short
from training.boxes import TargetError
from training.config import TrainConfig, TrainError
from training.dataset_format import Dataset, Statistics, World
from training.models.heads import AuxiliaryHead
from training.models.lewm import LeWM
from training.objective import Objective
from training.settings import MODELS, ModelConfig
from training.targets import BoxTarget

if TYPE_CHECKING:
    from training.planning.costs import Cost
    from training.planning.planner import Limits
    from training.planning.settings import PlanConfig

RELEASED_SKIP = 5  # actions in a step of LeWM's released models
AT_ONCE = 256  # frames that are encoded together: more only take memory


class Usual(BaseModel, frozen=True, extra="forbid"):
    """Mean, standard deviation and extremes of a column."""

    mean: list[float]
    std: list[float]
    low: list[float] | None = None
    high: list[float] | None = None

    @classmethod
    def of(cls, statistics: Statistics) -> Self:
        """The same as plain data."""
        low, high = (None if end is None else end.tolist() for end in (statistics.low, statistics.high))
        return cls(mean=statistics.mean.tolist(), std=statistics.std.tolist(), low=low, high=high)


class DataFacts(BaseModel, frozen=True, extra="forbid"):
    """What a model has to know of the dataset that it is trained on."""

    name: str
    fingerprint: str
    size: tuple[int, int]
    action_dim: int
    objects: int
    categories: dict[int, str]  # id -> name
    statistics: dict[str, Usual]
    path: str = ""  # where it was
    world: World | None = None  # the simulator that it comes from

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """The facts of a dataset."""
        return cls(
            name=dataset.name, fingerprint=dataset.fingerprint, size=dataset.size, action_dim=dataset.action_dim,
            objects=dataset.objects, categories=dataset.category_names,
            statistics={name: Usual.of(usual) for name, usual in dataset.statistics.items()},
            path=str(dataset.path.resolve()), world=dataset.world,
        )  # fmt: skip

    def arrays(self) -> Mapping[str, Statistics]:
        """The statistics as arrays."""
        return {name: Statistics.of(usual.model_dump()) for name, usual in self.statistics.items()}


def build(config: TrainConfig, data: DataFacts) -> Objective:
    """A fresh model with its loss, drawn from torch's random numbers; TrainError if dataset and settings disagree."""
    size = config.model.encoder.size
    if data.size != (size, size):
        height, width = data.size
        raise TrainError(
            f"The frames of {data.name} are {height} by {width} pixels, the model takes {size} by {size}. Prepare the "
            f"dataset with --size {size}, or choose model.encoder.size."
        )
    model = LeWM(config.model, data.action_dim * config.skip)
    if data.action_dim:
        usual = data.statistics["actions"]
        model.expect_actions(*(torch.tensor(values).repeat(config.skip) for values in (usual.mean, usual.std)))
    target = None
    if config.objective.auxiliary:
        if not data.objects or not data.categories:
            raise TrainError(
                f"{data.name} has no boxes for the auxiliary head. Label the videos first, or train without it: "
                "--set objective.encoded_weight=0 --set objective.predicted_weight=0."
            )
        try:
            target = BoxTarget(config.target, list(data.categories), data.objects, data.arrays(), config.skip)
        except TargetError as error:
            raise TrainError(str(error)) from error
    return Objective(config.objective, model, target, config.seed)


@dataclass(frozen=True)
class WorldModel:
    """A trained world model, ready for use, with everything that was saved beside it."""

    model: LeWM
    head: AuxiliaryHead | None  # reads box targets from latents
    target: BoxTarget | None  # makes those targets from boxes; holds W
    config: TrainConfig
    data: DataFacts
    step: int  # training steps so far
    folder: Path | None = None  # the run that it comes from

    @torch.inference_mode()
    def encode(self, frames: Tensor | np.ndarray) -> Tensor:
        """Latents (..., D) of frames (..., H, W, 3) uint8; so many at once that memory does not grow with them."""
        here = self._here(frames)
        parts = torch.split(here.reshape(-1, *here.shape[-3:]), AT_ONCE)
        return torch.cat([self.model.encode(part) for part in parts]).view(*here.shape[:-3], -1)

    @torch.inference_mode()
    def rollout(self, start: Tensor, actions: Tensor | np.ndarray) -> Tensor:
        """What candidate actions (B, S, H, A) lead to from latents (B, C, D): (B, S, H + 1, D)."""
        return self.model.rollout(self._here(start), self._here(actions))

    @torch.inference_mode()
    def cost(self, start: Tensor, goal: Tensor, actions: Tensor | np.ndarray) -> Tensor:
        """Squared distance (B, S) from the goal's latent (B, D) after candidate actions; see `rollout`."""
        return self.model.cost(self._here(start), self._here(goal), self._here(actions))

    def plan(
        self,
        frames: Tensor | np.ndarray,
        goal: Tensor | np.ndarray,
        past: np.ndarray | None = None,
        config: PlanConfig | None = None,
        rules: Sequence[tuple[float, Cost]] = (),
        limits: Limits | None = None,
    ) -> np.ndarray:
        """Actions that lead from what is seen now to a goal.

        Args:
            frames: What is seen, (H, W, 3) uint8, or the last C observations (C, H, W, 3), the newest last; for B
                environments at once (B, C, H, W, 3).
            goal: What should be seen in the end, (H, W, 3), or (B, H, W, 3).
            past: Needed if C > 1: the actions ((C - 1) * skip, A) between these observations, or (B, ..., A).
            config: How to search; by default as LeWM does.
            rules: Further costs with their weights, from `training.planning.costs`.
            limits: Lowest and highest action, numbers or (A,) each. By default plans are cut to the range of the
                training data.

        Returns:
            (horizon * skip, A), or (B, horizon * skip, A), in the units of the training data.

        Raises:
            ValueError: If something does not fit the model or the rest, or is not a number.
        """
        from training.planning.asked import pictures
        from training.planning.planner import find_actions

        frames = pictures(frames, "frames", self.data.size, ("H W 3", "C H W 3", "B C H W 3"))
        many = frames.ndim == 5
        goal = pictures(goal, "goal", self.data.size, ("B H W 3",) if many else ("H W 3",))
        past = None if past is None else np.asarray(past)
        if not many:
            frames, goal = frames.reshape(1, -1, *frames.shape[-3:]), goal[None]
            past = None if past is None else past[None]
        actions = find_actions(self, frames, goal, past, config, rules, limits).actions
        return actions if many else actions[0]

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def export(self, path: str | Path) -> None:
        """Write the weights in LeWM's own format, `.pt` or `.safetensors`, with `NAME.actions.json` beside them.

        `load_released` opens them. WeightsDoNotFit if the model is not built like LeWM.
        """
        from training.models.released import export_weights

        usual = self.data.statistics.get("actions")
        low, high = (usual.low, usual.high) if usual else (None, None)
        export_weights(self.model, path, skip=self.config.skip, low=low, high=high)

    def _here(self, values: Tensor | np.ndarray) -> Tensor:
        # Mirrored or BGR views, as frame[..., ::-1], have strides that torch does not take.
        here = torch.as_tensor(np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values)
        here = here.to(self.device)
        return here.to(next(self.model.parameters()).dtype) if here.is_floating_point() else here


def load(run: str | Path, which: str = "best", device: str | torch.device = "cpu") -> WorldModel:
    """Open the world model of a run.

    Args:
        run: The folder that `spectrabox train --out` wrote, or one of its checkpoints.
        which: `best` by validation loss, or `last`.
        device: Where the model goes.
    """
    from training import checkpoint

    folder = checkpoint.find(on_disk(run, "a run"), which)
    facts = checkpoint.read(folder)
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
        try:
            objective = build(facts.config, facts.data)
        except (RuntimeError, ValueError, LookupError, ArithmeticError, MemoryError) as error:
            raise TrainError(f"{folder} cannot be used: no model can be as it says ({in_short(error)}).") from error
    checkpoint.restore(folder, objective)
    objective.requires_grad_(False).eval().to(device)
    home = folder.parent.parent if folder.parent.name == checkpoint.FOLDER else None  # a checkpoint may stand alone
    return WorldModel(objective.model, objective.head, objective.target, facts.config, facts.data, facts.step, home)


def load_released(
    path: str | Path, skip: int | None = None, model: ModelConfig = MODELS["lewm"], device: str | torch.device = "cpu"
) -> WorldModel:
    """Open weights in LeWM's own format, as `WorldModel.export` writes them or as they were released, ready to plan.

    Args:
        path: A `.pt` or `.safetensors` file. Beside it `NAME.actions.json` tells how actions are normalised and the
            range that they had; without it, plans are in standard deviations of the actions that it was trained on.
        skip: Actions in a step of the model, if no file tells; 5 in released ones.
        model: How it is built.
        device: Where the model goes.
    """
    from training.models.released import import_weights, known_actions

    network, known = import_weights(path, model), known_actions(path)
    skip = skip or (known and known.skip) or RELEASED_SKIP
    if network.actions % skip:
        raise TrainError(f"{path} takes {network.actions} numbers a step, which {skip} actions cannot share.")
    size, actions = model.encoder.size, network.actions // skip
    mean, std = (values[:actions].tolist() for values in (network.action_encoder.mean, network.action_encoder.std))
    low, high = (known.low, known.high) if known else (None, None)
    if low and len(low) != actions:
        raise TrainError(f"{path} has a range for {len(low)} actions beside it, not {actions}: choose another skip.")
    facts = DataFacts(
        name=Path(path).name, fingerprint="", size=(size, size), action_dim=actions, objects=0, categories={},
        statistics={"actions": Usual(mean=mean, std=std, low=low, high=high)},
    )  # fmt: skip
    config = TrainConfig.model_validate({"preset": "lewm", "skip": skip, "model": model.model_dump()})
    return WorldModel(network.requires_grad_(False).to(device), None, None, config, facts, step=0)
