"""Where is every object of a video, on every frame?

`Tracks` is the one type that stages, exports and training speak: arrays over frames (T) and instances (N), NaN where an
object is absent. Boxes are continuous pixels of the original video, x1 y1 x2 y2, the far edges exclusive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

UNASSIGNED = -1  # the category of a track that fits none


@dataclass(frozen=True)
class Track:
    """One instance of a video."""

    instance: int
    category: int  # UNASSIGNED where none fits
    prominence: float
    time: np.ndarray  # (T,)
    boxes: np.ndarray  # (T, 4), NaN where absent
    oriented: np.ndarray  # (T, 5)
    mass: np.ndarray  # (T, 2)
    score: np.ndarray  # (T,)

    @property
    def present(self) -> np.ndarray:
        """Where it is in view, (T,) bool."""
        return np.isfinite(self.boxes[:, 0])


@dataclass(frozen=True)
class Tracks:
    """All instances of one video."""

    time: np.ndarray  # (T,) float64, seconds
    boxes: np.ndarray  # (T, N, 4) float32, x1 y1 x2 y2
    oriented: np.ndarray  # (T, N, 5) float32, cx cy w h theta
    mass: np.ndarray  # (T, N, 2) float32, centre of mass
    score: np.ndarray  # (T, N) float32, 0 to 1
    category: np.ndarray  # (N,) int32, UNASSIGNED where none fits
    instance: np.ndarray  # (N,) int32, unique in the video
    prominence: np.ndarray  # (N,) float32, 0 to 1: how much the object matters; tracks are sorted by it

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit one another."""
        frames, count = self.boxes.shape[:2]
        shapes = {
            "time": (frames,), "boxes": (frames, count, 4), "oriented": (frames, count, 5), "mass": (frames, count, 2),
            "score": (frames, count), "category": (count,), "instance": (count,), "prominence": (count,),
        }  # fmt: skip
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"tracks: {name} has shape {getattr(self, name).shape}, expected {shape}")

    @property
    def present(self) -> np.ndarray:
        """Where each instance is in view, (T, N) bool."""
        return np.isfinite(self.boxes[..., 0])

    def __len__(self) -> int:
        """The number of instances."""
        return self.boxes.shape[1]

    def __iter__(self) -> Iterator[Track]:
        """The instances one by one, most prominent first."""
        for index in range(len(self)):
            yield Track(
                int(self.instance[index]), int(self.category[index]), float(self.prominence[index]), self.time,
                self.boxes[:, index], self.oriented[:, index], self.mass[:, index], self.score[:, index],
            )  # fmt: skip

    def select(self, keep: np.ndarray) -> Tracks:
        """The instances at `keep`, an index or bool array over N."""
        return Tracks(
            self.time, self.boxes[:, keep], self.oriented[:, keep], self.mass[:, keep], self.score[:, keep],
            self.category[keep], self.instance[keep], self.prominence[keep],
        )  # fmt: skip

    def arrays(self) -> dict[str, np.ndarray]:
        """Name and array of every field, as they stand in the store."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
