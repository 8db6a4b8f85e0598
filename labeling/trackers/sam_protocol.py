"""What does a network offer that follows objects from a mask?

A `Segmenter` encodes a picture once; `Session`s then follow objects through encoded pictures, in the order in which
these are handed in, forward or backward in time. The tracker knows SAM only by these two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

Encoding: TypeAlias = Any  # what a network keeps of one picture; its own business


@dataclass(frozen=True, slots=True)
class Segment:
    """One object on one picture."""

    logits: np.ndarray  # (h, w) float32 over the whole picture, positive inside the object
    presence: float  # logit of being in view; negative: hidden or gone


class Session(Protocol):
    """A memory of some objects, carried from picture to picture."""

    def add(self, number: int, coverage: np.ndarray) -> None:
        """Say where an object, known or new, is on the picture that comes next: (H, W) uint8 of the whole picture."""
        ...

    def step(self, encoding: Encoding) -> dict[int, Segment]:
        """Find all objects on the next picture."""
        ...

    def inherit(self, number: int, other: Any) -> None:
        """Add what another session of this network was told of its object `number` to what this one was."""
        ...


class Segmenter(Protocol):
    """A network that follows objects from a mask."""

    def encode(self, image: np.ndarray) -> Encoding:
        """Prepare an RGB picture (H, W, 3) uint8 for any number of sessions and objects."""
        ...

    def session(self) -> Session:
        """A new memory without objects."""
        ...
