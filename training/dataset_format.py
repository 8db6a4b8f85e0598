"""What does a training dataset look like on disk?

A Zarr v3 group of flat columns, one row a frame, with a table of episodes beside them. `open_dataset` reads one that
was written to its end; `training.dataset_writer` writes them. Plain zarr reads it as well.

    frames (rows, H, W, 3) uint8      actions (rows, A) float32, actions[t] leads from frame t to t + 1
    boxes (rows, N, 4) float32        cx cy w h, 0 to 1; 0 where absent     present (rows, N) bool
    where known, float32:
    oriented (rows, N, 5)             cx cy w h theta, as boxes; w >= h     mass (rows, N, 2) centre of mass
    velocity (rows, N, 2)             image sizes a frame                   depth (rows, N, 5) percentiles 5 25 50 75 95
    heading (rows, N, 1)              radians, all the way round; where a plane figure faces
    pose (rows, N, 6)                 x y z in the world's units, roll pitch yaw in radians
    pose_velocity (rows, N, 3)        of x y z, a frame                     state (rows, S)
    category, instance (episodes, N)  -1 in slots that an episode does not use
    episode_offset, episode_length, episode_split (0 training, 1 validation), episode_source, episode_start (episodes,)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import zarr
from pydantic import BaseModel
from zarr.errors import GroupNotFoundError

from labeling.places import on_disk
from labeling.problems import StoreError, in_short
from labeling.zarr_io import REMEDY, array_at, attributes, load, rows_of
from training.dataset_facts import EMPTY as EMPTY
from training.dataset_facts import refuse_impossible

SCHEMA = 1
KIND = "spectrabox dataset"
SPLITS = ("train", "validation")
SplitName = Literal["train", "validation"]
# Numbers an object has.
OBJECT_COLUMNS = {
    "boxes": 4, "oriented": 5, "mass": 2, "depth": 5, "velocity": 2, "heading": 1, "pose": 6, "pose_velocity": 3
}  # fmt: skip
# Those that files of others may have; a heading there may be a compass's.
FROM_FILES = [name for name in OBJECT_COLUMNS if name != "heading"]
# NaN where a number does not apply, as the yaw of a ball: such numbers are masked in the loss.
MAY_NOT_APPLY = ("velocity", "heading", "pose", "pose_velocity")
DEPTH_PERCENTILES = (5, 25, 50, 75, 95)


class DatasetError(Exception):
    """A dataset cannot be used or made; the message says which and what to do."""


class NoDataset(DatasetError):
    """What is there is something else, or cannot be told."""


@dataclass(frozen=True)
class DatasetCategory:
    """A group of objects that share one block of the training target."""

    id: int
    name: str
    members: tuple[str, ...]  # the kinds of things in it, as the source names them
    tracks: int  # objects in the source, also in what could not be used


class World(BaseModel, frozen=True, extra="forbid"):
    """The simulator that episodes were played in, as `training.envs.make` opens it."""

    environment: str
    options: dict[str, int | float] = {}
    labeled: bool = False  # boxes are those of a labeler, not the simulator's own


@dataclass(frozen=True)
class Statistics:
    """Mean, standard deviation and extremes of a column's components over the training split."""

    mean: np.ndarray
    std: np.ndarray
    low: np.ndarray | None = None  # None: made before these were kept
    high: np.ndarray | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From plain data."""
        known = {name: row.get(name) for name in ("mean", "std", "low", "high")}
        return cls(**{name: None if values is None else np.array(values) for name, values in known.items()})  # type: ignore[arg-type]


class Dataset:
    """A dataset on disk: tables in memory, columns read when asked for."""

    def __init__(self, path: Path, root: zarr.Group) -> None:
        self.path, self._root = path, root
        self._arrays: dict[str, zarr.Array[Any]] = {}  # looking one up reads the disk
        self.attributes = attributes(root)
        self.episode_offset = load(root, "episode_offset")
        self.episode_length = load(root, "episode_length")
        self.category = load(root, "category")  # (episodes, N)
        self.instance = load(root, "instance")

    @property
    def name(self) -> str:
        """What the dataset is called."""
        return str(self.attributes["name"])

    @property
    def frames(self) -> int:
        """How many frames there are."""
        return int(self.array("frames").shape[0])

    @property
    def episodes(self) -> int:
        """How many episodes there are."""
        return len(self.episode_length)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the frames."""
        height, width = self.array("frames").shape[1:3]
        return int(height), int(width)

    @property
    def action_dim(self) -> int:
        """Numbers in an action; 0: video without actions."""
        return int(self.array("actions").shape[1])

    @property
    def objects(self) -> int:
        """N, the slots for objects."""
        return int(self.category.shape[1])

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns with a row a frame."""
        known = ("frames", "actions", "present", "state", *OBJECT_COLUMNS)
        return tuple(name for name in known if name in self._root)

    @cached_property
    def categories(self) -> list[DatasetCategory]:
        """The groups of objects, by id."""
        rows = self.attributes["categories"]
        return [DatasetCategory(row["id"], row["name"], tuple(row["members"]), row["tracks"]) for row in rows]

    @property
    def category_names(self) -> dict[int, str]:
        """By id."""
        return {row.id: row.name for row in self.categories}

    @cached_property
    def statistics(self) -> dict[str, Statistics]:
        """Of `actions`, `state`, the object columns (over present objects) and `log_depth`, by name."""
        table = self.attributes["statistics"]
        return {name: Statistics.of(row) for name, row in table.items()}

    @property
    def fingerprint(self) -> str:
        """A hash of everything in the dataset; the same input gives the same."""
        return str(self.attributes["fingerprint"])

    @property
    def world(self) -> World | None:
        """The simulator that it comes from, if it does."""
        facts = self.attributes.get("world")
        return None if facts is None else World.model_validate(facts)

    @cached_property
    def sources(self) -> list[str]:
        """Where each episode comes from: a file, or the name of a simulator."""
        names = self.attributes["sources"]
        return [names[index] for index in load(self._root, "episode_source")]

    def split(self, name: SplitName) -> np.ndarray:
        """Episodes of the training or the validation split, sorted."""
        if name not in SPLITS:
            raise ValueError(f"There is no split {name!r}: choose train or validation.")
        return np.flatnonzero(load(self._root, "episode_split") == SPLITS.index(name))

    def read(self, column: str, rows: slice) -> np.ndarray:
        """Some rows of a column; DatasetError if they are damaged."""
        with as_damage(self.path):
            return rows_of(self.array(column), rows)

    def array(self, column: str) -> zarr.Array[Any]:
        """A column, unread."""
        if column not in self._arrays:
            self._arrays[column] = array_at(self._root, column)
        return self._arrays[column]


def open_dataset(path: str | Path) -> Dataset:
    """Open a complete dataset; DatasetError if there is none at `path`."""
    path = on_disk(path, "a dataset")
    try:
        root = zarr.open_group(str(path), mode="r", zarr_format=3)
    except (FileNotFoundError, GroupNotFoundError, NotADirectoryError) as error:
        raise NoDataset(
            f"{path} is not a dataset. Make one with: spectrabox prepare STORE --out {path}, or spectrabox simulate"
        ) from error
    except PermissionError:
        raise
    except Exception as error:  # broken metadata raises whatever its parser does
        raise NoDataset(str(_damaged(path, error))) from error
    facts = attributes(root)
    if facts.get("kind") != KIND:
        raise NoDataset(f"{path} is no training dataset. From a label store make one with: spectrabox prepare {path}")
    if facts.get("schema") != SCHEMA:
        raise DatasetError(f"{path} has schema {facts.get('schema')}, this version reads {SCHEMA}. Prepare it anew.")
    if not facts.get("complete"):
        raise DatasetError(f"{path} is not complete: its making was stopped. Run the same command again.")
    with as_damage(path):
        refuse_impossible(root)
        return Dataset(path, root)


@contextmanager
def as_damage(path: Path) -> Iterator[None]:
    """Raise DatasetError where what a dataset says cannot be, or its files are broken."""
    try:
        yield
    except (StoreError, ValueError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DatasetError:
    reason = in_short(error, 400).removesuffix(REMEDY).rstrip(" .")
    return DatasetError(f"{path} is damaged: {reason}. Prepare it anew.")


def category_table(categories: Sequence[DatasetCategory]) -> list[dict[str, Any]]:
    """Categories as plain data for the attributes."""
    return [{"id": row.id, "name": row.name, "members": list(row.members), "tracks": row.tracks} for row in categories]
