"""What is a dataset, where does it come from, and how is it split?

A `Manifest` is one YAML file of `data_manifests/`: `spectrabox prepare data_manifests/nball-1.yaml` makes that dataset.
`PrepareConfig` holds the choices that `prepare` takes on the command line as well. Paths in a manifest are relative to
where the command is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, Field, ValidationError, model_validator

from labeling.places import Place, on_disk
from labeling.settings_files import ConfigError, listed, read_yaml

MANIFESTS = (".yaml", ".yml")  # suffixes

Kind = Literal["videos", "simulator", "hdf5", "lerobot"]


class ManifestError(ValueError):
    """A manifest that cannot be used; the message says which and why."""


class Split(BaseModel, frozen=True, extra="forbid"):
    """Which episodes are held out."""

    validation: float = Field(0.1, ge=0, lt=1, description="Share of the episodes that no training step sees.")
    seed: int = Field(0, ge=0, description="Decides which.")

    def choose(self, episodes: int) -> np.ndarray:
        """Which of so many episodes are held out, (episodes,) bool: at least one, unless there is only one.

        They are spread evenly, one by chance out of each stretch, so that no video is held out as a whole by bad luck.
        """
        held_out = np.zeros(episodes, bool)
        count = round(self.validation * episodes)
        if self.validation > 0 and episodes > 1:
            count = min(max(1, count), episodes - 1)
            edges = np.arange(count + 1) * episodes // count
            held_out[np.random.default_rng(self.seed).integers(edges[:-1], edges[1:])] = True
        return held_out


class PrepareConfig(BaseModel, frozen=True, extra="forbid"):
    """What becomes of frames and labels on their way into a dataset."""

    size: int = Field(64, ge=8, le=2048, description="Height and width of the frames in pixels.")
    letterbox: bool = Field(False, description="Keep the aspect with black bars; otherwise frames are stretched.")
    categories: tuple[str, ...] = Field(
        (), description="Only these kinds of objects, by name; `other` stands for the rest as one group. Empty: all."
    )
    max_categories: int = Field(8, ge=1, description="With more kinds, the least prominent ones become one group.")
    max_objects: int = Field(32, ge=1, description="Objects of an episode that are kept, the most prominent first.")
    episode_frames: int = Field(
        0, ge=0, description="Longer takes are cut into episodes of this length; 0: only if there are too few to split."
    )
    use_actions: bool = Field(True, description="Off: for an action-free model, even where there are actions.")
    camera: str = Field("", description="LeRobot: which camera; HDF5: which column of pictures. Empty: the only one.")


class SimulatorSource(BaseModel, frozen=True, extra="forbid"):
    """Episodes of one of our simulators."""

    environment: str = Field(description="Its name, for example nball.")
    options: dict[str, int | float] = Field({}, description="What it is opened with, for example balls: 3.")
    episodes: int = Field(20000, ge=1, description="How many.")
    frames: int = Field(32, ge=2, description="Frames in an episode.")


class PathSource(BaseModel, frozen=True, extra="forbid"):
    """Files on disk."""

    path: str = Field(description="A folder of videos, an HDF5 file, or a LeRobot folder.")
    store: str = Field("", description="The label store of those videos.")


class Manifest(BaseModel, frozen=True, extra="forbid"):
    """One dataset."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Also the name of the folder it is put in.")
    description: str = ""
    kind: Kind
    source: SimulatorSource | PathSource
    licence: str = Field(description="Of the frames.")
    seed: int | None = Field(None, ge=0, description="Of a simulator.")
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$", description="Of the file, if it should be checked.")
    frames: int | None = Field(None, ge=1, description="How many there should be; checked if given.")
    actions: Literal["simulator", "beside", "inside", "none"] = Field(
        description="Beside each video (clip.actions.npy|csv|parquet), inside the file, from the simulator, or none."
    )
    labels: Literal["simulator", "store", "inside", "none"] = Field(description="Where boxes come from.")
    split: Split = Split()
    settings: PrepareConfig = PrepareConfig()

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.kind == "simulator":
            if not isinstance(self.source, SimulatorSource):
                raise ValueError("a simulator's source has an environment, not a path")
            if self.seed is None:
                raise ValueError("a simulator needs a seed")
            if (self.actions, self.labels) != ("simulator", "simulator"):
                raise ValueError("actions and labels of a simulator come from the simulator")
            return self
        if not isinstance(self.source, PathSource):
            raise ValueError(f"the source of {self.kind} has a path, not an environment")
        if "simulator" in (self.actions, self.labels):
            raise ValueError(f"{self.kind} have no simulator to take actions or labels from")
        if self.labels == "store" and not self.source.store:
            raise ValueError("labels from a store need source.store, the path of it")
        possible = {"videos": ("store",), "hdf5": ("inside", "none"), "lerobot": ("store", "none")}[self.kind]
        if self.labels not in possible:
            raise ValueError(f"labels of {self.kind} are {' or '.join(possible)}")
        possible = {"videos": ("beside", "none")}.get(self.kind, ("inside", "none"))
        if self.actions not in possible:
            raise ValueError(f"actions of {self.kind} are {' or '.join(possible)}")
        return self

    @property
    def out(self) -> Path:
        """Where the dataset goes unless somebody says otherwise."""
        return Path("datasets") / f"{self.name}.zarr"


def load_manifest(path: str | Place) -> Manifest:
    """Read a manifest; ManifestError says what is wrong with which entry."""
    path = on_disk(path, "a manifest")
    try:
        data = read_yaml(path)
    except ConfigError as error:
        raise ManifestError(str(error)) from error
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ManifestError(f"{path} must hold entries like `name: nball-1`. See data_manifests/ for examples.")
    try:
        return Manifest(**data)
    except ValidationError as error:
        raise ManifestError(f"{path}: {listed([_plainly(dict(problem)) for problem in error.errors()])}") from error


def _plainly(problem: dict[str, Any]) -> str:
    # The union of sources would be named by its members.
    name = ".".join(str(part) for part in problem["loc"] if not str(part).endswith("Source"))
    if problem["type"] == "extra_forbidden":
        return f"there is no entry {name}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{name}: {message}" if name else message
