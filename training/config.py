"""What can a user choose about training?

One typed model for the command line, YAML files and the Prefect form. A preset fills in what is not chosen; a wrong
name or value is refused before any work starts. Nothing heavy is imported here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from labeling.settings_files import plainly, read_settings
from training.settings import MODELS, OBJECTIVES, ModelConfig, ObjectiveConfig, PresetName, TargetConfig

Precision = Literal["auto", "fp32", "bf16"]
Tracker = Literal["none", "tensorboard"]
Device = Literal["auto", "cpu", "cuda", "mps"]
CheckpointName = Literal["best", "last"]


class TrainError(Exception):
    """Training cannot start or go on; the message says why and what to do."""


class OptimiserConfig(BaseModel, frozen=True, extra="forbid"):
    """AdamW, its learning rate over time, and gradient clipping."""

    lr: float = Field(3e-4, gt=0, description="Highest learning rate.")
    weight_decay: float = Field(1e-3, ge=0, description="Pull of the weights towards 0.")
    warmup: float = Field(0.01, ge=0, lt=1, description="Share of the schedule in which the learning rate rises.")
    schedule: float = Field(
        1.0, ge=1, description="Length of the cosine schedule in lengths of the run; LeWM stops at a tenth of it: 10."
    )
    clip: float = Field(1.0, gt=0, description="Longer gradients are shortened to this norm.")


class TrainConfig(BaseModel, frozen=True, extra="forbid"):
    """Everything that decides what comes out of training on a dataset."""

    preset: PresetName = Field("nball", description="Fills in what is not chosen: nball, nball-cpu or lewm.")
    steps: int = Field(0, ge=0, description="Training steps; 0: as many as the epochs have.")
    epochs: int = Field(10, ge=1, description="How often every window is seen, unless steps are given.")
    batch: int = Field(128, ge=2, description="Windows in a step, over all processes.")
    length: int = Field(4, ge=2, description="Observations in a window.")
    skip: int = Field(1, ge=1, description="Frames from one observation to the next.")
    seed: int = Field(0, ge=0, description="Decides weights, order of the windows, and all that is drawn.")
    precision: Precision = Field("auto", description="fp32, bf16, or auto: bf16 on CUDA, fp32 elsewhere.")
    memory: int = Field(4096, ge=1, description="Megabytes of the dataset held in memory; larger ones are streamed.")
    log_every: int = Field(20, ge=1, description="Steps from one line of metrics.jsonl to the next.")
    validate_every: int = Field(500, ge=1, description="Steps from one look at the validation split to the next.")
    checkpoint_every: int = Field(500, ge=1, description="Steps from one checkpoint to the next.")
    monitor_windows: int = Field(512, ge=8, description="Windows of the validation split that are looked at.")
    tracker: Tracker = Field("none", description="Besides metrics.jsonl: none or tensorboard.")
    optimiser: OptimiserConfig = Field(OptimiserConfig(), description="Learning rate and its schedule.")
    objective: ObjectiveConfig = Field(ObjectiveConfig(), description="The terms of the loss.")
    target: TargetConfig = Field(TargetConfig(), description="What the auxiliary head says about boxes.")
    model: ModelConfig = Field(ModelConfig(), description="The world model.")

    @model_validator(mode="before")
    @classmethod
    def _on_top_of_the_preset(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        below = PRESETS.get(str(data.get("preset", "nball")), {})
        if "epochs" in data:  # a preset's steps would count over the epochs that were chosen
            below = {**below, "steps": 0}
        return merged(below, data)

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        context = self.model.predictor.context
        if self.length - 1 > context:
            raise ValueError(
                f"windows of {self.length} need model.predictor.context={self.length - 1}; it is {context}"
            )
        return self


_NBALL_CPU = {
    "batch": 24, "steps": 4000, "optimiser": {"lr": 1e-3}, "monitor_windows": 256,
    "objective": OBJECTIVES["nball-cpu"].model_dump(), "model": MODELS["nball-cpu"].model_dump(),
}  # fmt: skip
_NBALL = {
    "batch": 64, "epochs": 200, "optimiser": {"lr": 3e-4}, "log_every": 100, "validate_every": 2000,
    "checkpoint_every": 2000, "objective": OBJECTIVES["nball"].model_dump(), "model": MODELS["nball"].model_dump(),
}  # fmt: skip
_LEWM = {
    "batch": 128, "epochs": 10, "skip": 5, "optimiser": {"lr": 5e-5, "schedule": 10.0}, "log_every": 50,
    "validate_every": 1000, "checkpoint_every": 1000, "monitor_windows": 256,
    "objective": OBJECTIVES["lewm"].model_dump(), "model": MODELS["lewm"].model_dump(),
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {"nball": _NBALL, "nball-cpu": _NBALL_CPU, "lewm": _LEWM}


def load_config(
    file: Path | None = None, settings: list[str] | None = None, preset: str | None = None, **values: Any
) -> TrainConfig:
    """Build a configuration from a preset, a YAML file on top, then `key=value` settings (dots reach into groups).

    `values` come last; those that are None are left as they are. What is said last counts, also of steps and epochs,
    which both say how long to train.
    """
    settings = settings or []
    data = read_settings(file, settings, example="batch=64")
    chosen = {name: value for name, value in {"preset": preset, **values}.items() if value is not None}
    data.update(chosen)
    said = [*(setting.partition("=")[0].strip() for setting in settings), *chosen]
    lengths = [name for name in said if name in ("steps", "epochs")]
    if lengths and lengths[-1] == "epochs":
        data["steps"] = 0
    try:
        return TrainConfig.model_validate(data)
    except ValidationError as error:
        raise plainly(error, "spectrabox train-settings") from error


def differences(one: TrainConfig, other: TrainConfig) -> list[str]:
    """The settings in which two configurations differ, like `batch: 24 and 64`."""
    first, second = (_flat(config.model_dump(mode="json")) for config in (one, other))
    return [f"{name}: {first[name]} and {second[name]}" for name in first if first[name] != second[name]]


def as_yaml(config: BaseModel, indent: int = 0) -> str:
    """All settings with their values and what they do, as a YAML file that `load_config` reads."""
    lines = []
    margin = "  " * indent
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        lines.append(f"{margin}# {field.description}")
        if isinstance(value, BaseModel):
            lines += [f"{margin}{name}:", as_yaml(value, indent + 1)]
        else:
            lines.append(f"{margin}{name}: {json.dumps(value)}")
    return "\n".join(lines)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two trees of settings as one; what is above counts."""
    result = dict(below)
    for name, value in above.items():
        under = result.get(name)
        result[name] = value
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            result[name] = merged(under, value)
    return result


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for name, value in tree.items():
        leaves |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return leaves
