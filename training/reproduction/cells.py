"""What has to be trained and judged for a number of a table?

A `Training` is a dataset, settings and a seed. Its id is a hash of these, so tables that need the same training share
it. A `Cell` is a training with all that a table measures on it. Everything has its place in one `Folder`; a measurement
is a JSON file that is written at once or not at all, and what is there is not done again.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from filelock import FileLock

from labeling.files import write_whole
from labeling.recipe import digest
from training.config import TrainConfig, load_config
from training.manifest import Manifest, PrepareConfig, SimulatorSource, Split
from training.sources.simulator import VERSION

if TYPE_CHECKING:
    from training.dataset import Dataset
    from training.prepare import Progress
    from training.world_model import WorldModel

KEPT = 2  # version of the simulators that the runs in docs/results were made with: their names do not say it
SHORT = 12  # digits of a hash that name a file
FIGURES = "figures"


class Data(Protocol):
    """A dataset that can be made. Must be hashable, and small enough to be sent to another process."""

    @property
    def name(self) -> str:
        """What it is called, as a part of a file's name."""

    @property
    def minutes(self) -> float:
        """Of one core, to make it."""

    def facts(self) -> dict[str, Any]:
        """All that decides it, as plain data."""

    def make(self, path: Path, workers: int = 1, progress: Progress | None = None) -> None:
        """Write it to `path`, unless it is there already; up to so many processes play or label."""


@dataclass(frozen=True)
class Simulated:
    """Episodes of a simulator, with exact boxes. The first ones are the same however many there are."""

    environment: str
    episodes: int
    frames: int  # of an episode
    seed: int
    size: int = 64
    options: tuple[tuple[str, int | float], ...] = ()
    validation: float = 0.05
    minutes: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """Simulator and options."""
        return "-".join([self.environment, *(f"{name}{value}" for name, value in self.options)])

    def manifest(self) -> Manifest:
        """As `spectrabox prepare` knows it."""
        source = SimulatorSource(
            environment=self.environment, options=dict(self.options), episodes=self.episodes, frames=self.frames
        )
        return Manifest(
            name=self.name, kind="simulator", source=source, licence="Apache-2.0", seed=self.seed, actions="simulator",
            labels="simulator", split=Split(validation=self.validation), settings=PrepareConfig(size=self.size),
        )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """What the manifest says, but its words; and by which simulators, if they are newer than kept results."""
        told = self.manifest().model_dump(mode="json", include={"kind", "source", "seed", "split", "settings"})
        return told | ({"version": VERSION} if VERSION > KEPT else {})

    def make(self, path: Path, workers: int = 1, progress: Progress | None = None) -> None:
        """Play the episodes, unless they are there: the place is named after all that decides it."""
        from training.prepare import prepare_manifest

        if not path.exists():
            prepare_manifest(self.manifest(), path, progress=progress, workers=workers)


@dataclass(frozen=True)
class Figure:
    """One number that was measured."""

    value: float
    trials: int = 0  # if it is the rate of successes in so many trials


@dataclass(frozen=True)
class Times:
    """Seconds spent."""

    training: float  # all sessions together
    judging: float  # one measure


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Something to measure on a trained model; a kind of it is a class with `take`, and its options are fields."""

    version: ClassVar[int] = 1  # raise it when the same model gets other figures
    on: Data | None = None  # judged on the held-out episodes of this dataset; None: of the one it was trained on
    minutes: float = field(default=0.0, compare=False)  # of one core

    @abstractmethod
    def take(self, model: WorldModel, dataset: Dataset) -> dict[str, Figure]:
        """Measure; figures by name."""

    @property
    def name(self) -> str:
        """Its kind and a hash of its options: the name of its file."""
        options = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("on", "minutes")}
        options |= {"version": self.version} if self.version > 1 else {}
        kind = type(self).__name__.lower()
        return f"{kind}-{digest(options=options, on=self.on and self.on.facts())[:SHORT]}"


@dataclass(frozen=True)
class Training:
    """One world model to train."""

    data: Data
    preset: str
    settings: tuple[str, ...]  # like those of `spectrabox train --set`
    seed: int
    label: str = field(default="", compare=False)  # what a reader calls it
    minutes: float = field(default=0.0, compare=False)  # of one core

    @cached_property
    def id(self) -> str:
        """A hash of all that decides it, also of what its preset says today."""
        return digest(data=self.data.facts(), config=self.config().model_dump(mode="json"))[:SHORT]

    def config(self) -> TrainConfig:
        """Its settings; ConfigError if they make no sense."""
        return load_config(None, list(self.settings), self.preset, seed=self.seed)


@dataclass(frozen=True)
class Cell:
    """A training and what is measured on it."""

    training: Training
    measures: tuple[Measure, ...]

    @property
    def label(self) -> str:
        """For the reader."""
        return f"{self.training.label}, seed {self.training.seed}"

    @property
    def minutes(self) -> float:
        """Of one core, as declared."""
        return self.training.minutes + sum(measure.minutes for measure in self.measures)

    @property
    def data(self) -> set[Data]:
        """The datasets that it needs."""
        return {self.training.data, *(measure.on for measure in self.measures if measure.on)}


@dataclass(frozen=True)
class Folder:
    """Where datasets, runs and figures are: `datasets/`, `runs/ID/` and `runs/ID/figures/`."""

    path: Path

    def dataset(self, data: Data) -> Path:
        """The place of a dataset."""
        return self.path / "datasets" / f"{data.name}-{digest(**data.facts())[:SHORT]}.zarr"

    def make(self, data: Data, workers: int = 1, progress: Progress | None = None) -> Path:
        """The place of a dataset, which is made if need be, while others that need it wait."""
        place = self.dataset(data)
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(place.with_suffix(".lock")):
            data.make(place, workers, progress)
        return place

    def run(self, training: Training) -> Path:
        """The place of a training."""
        return self.path / "runs" / training.id

    def begun(self, training: Training) -> bool:
        """Whether there is something to go on from: more than figures, which may be kept alone."""
        return any(one.name != FIGURES for one in self.run(training).glob("*"))

    def figures(self, training: Training, measure: Measure) -> dict[str, Figure] | None:
        """What was measured; None if nothing was yet."""
        written = self._written(training, measure)
        return written and written[0]

    def times(self, training: Training, measure: Measure) -> Times:
        """How long it took; 0 if it is not done yet."""
        written = self._written(training, measure)
        return written[1] if written else Times(0.0, 0.0)

    def write(self, training: Training, measure: Measure, figures: Mapping[str, Figure], times: Times) -> None:
        """Keep what was measured."""
        rows = {name: asdict(figure) for name, figure in figures.items()}
        place = self._place(training, measure)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps({"figures": rows, "seconds": asdict(times)}, indent=1))

    def left(self, cell: Cell) -> list[Measure]:
        """What is still to be measured."""
        return [measure for measure in cell.measures if self.figures(cell.training, measure) is None]

    def failure(self, training: Training) -> str:
        """Why a training or its judging failed, in a line; empty if it did not."""
        place = self._failure(training)
        return place.read_text(encoding="utf-8").partition("\n")[0] if place.exists() else ""

    def fail(self, training: Training, reason: str, details: str = "") -> None:
        """Remember a failure, or with an empty reason forget it."""
        place = self._failure(training)
        if reason:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, f"{' '.join(reason.split())}\n{details}")
        else:
            place.unlink(missing_ok=True)

    def _failure(self, training: Training) -> Path:
        return self.path / "runs" / f"{training.id}.failure.txt"

    def _place(self, training: Training, measure: Measure) -> Path:
        return self.run(training) / FIGURES / f"{measure.name}.json"

    def _written(self, training: Training, measure: Measure) -> tuple[dict[str, Figure], Times] | None:
        """Figures and times; None if there are none, or if their file is damaged: then they are measured again."""
        try:
            written = json.loads(self._place(training, measure).read_text(encoding="utf-8"))
            return {name: Figure(**row) for name, row in written["figures"].items()}, Times(**written["seconds"])
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError, AttributeError):
            return None
