"""Where does it go? Trackers turn proposals into tracks: one instance through one video, a mask a frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from labeling.embeddings import Embedder
from labeling.masks import Mask
from labeling.proposals import FrameProposals
from labeling.video import Video


@dataclass(frozen=True, slots=True)
class Observation:
    """One track on one frame."""

    frame: int
    track: int  # 0, 1, 2 ... in order of appearance in the video; never used again for another object
    mask: Mask
    score: float  # 0 to 1
    motion: float  # speed against the scene (camera motion taken out), pixels a frame
    embedding: np.ndarray | None = None  # (D,) unit length; None where it is hidden or guessed, or as just before


class Tracker(Protocol):
    """A backend that gives proposals an identity."""

    def track(self, frames: Iterable[FrameProposals], embedder: Embedder, video: Video) -> Iterator[Observation]:
        """Yield what is seen of each object, in frame order; `video` is there for those that look back."""
        ...
