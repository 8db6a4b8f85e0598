"""What is there to do for one video, and what became of it?

Both are plain values: a job can be sent to a thread, to another process or to another machine that sees the same files,
and what became of it sent back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from labeling.config import LabelConfig
from labeling.folder import Source
from labeling.places import Place, place
from labeling.profiles import Device, has_networks

PATIENCE = 300.0  # seconds without any sign of progress after which a video is given up
NETWORK_PATIENCE = 3600.0  # the same with networks: a window of SAM on a CPU

Stage = Literal["track", "label"]


@dataclass(frozen=True)
class Job:
    """A stage of one video, with all that decides its result."""

    stage: Stage
    store: Place
    source: Source
    config: LabelConfig = field(default_factory=LabelConfig)
    device: Device = "auto"
    hashes: dict[str, str] = field(default_factory=dict)  # of the weights with which the run began
    patience: float = 0.0  # seconds without progress after which the video is given up; 0: as its parts need
    run: str = ""  # the run that it is part of

    @property
    def limit(self) -> float:
        """Seconds without progress after which the video is given up."""
        return self.patience or (NETWORK_PATIENCE if has_networks(self.config) else PATIENCE)

    def as_json(self) -> dict[str, Any]:
        """The same for `worker.py`."""
        return {
            "stage": self.stage, "store": str(self.store), "id": self.source.id, "relative": self.source.relative,
            "path": str(self.source.path), "config": self.config.model_dump(mode="json"), "device": self.device,
            "hashes": self.hashes, "run": self.run,
        }  # fmt: skip

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Job:
        """A job that came as JSON."""
        source = Source(values["id"], values["relative"], place(values["path"]))
        config = LabelConfig(**values["config"])
        return cls(
            values["stage"], place(values["store"]), source, config, values["device"], values["hashes"],
            run=values["run"],
        )  # fmt: skip


@dataclass(frozen=True)
class Done:
    """What became of a job."""

    source: Source
    failure: str = ""  # the reason if the video cannot be labeled
    fps: float | None = None  # frames a second, if it was tracked
