"""What might be an object? Proposers answer with masks on single frames, with no idea yet of identity or kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from labeling.masks import Mask
from labeling.scan import Scan
from labeling.video import Frame, Video


@dataclass(frozen=True, slots=True)
class Proposal:
    """Something that might be an object on one frame."""

    mask: Mask
    score: float  # 0 to 1: how sure the proposer is that this is an object


@dataclass(frozen=True, slots=True)
class FrameProposals:
    """All proposals of one frame, with the frame itself so that nobody decodes it again."""

    frame: Frame
    proposals: list[Proposal]
    cut: bool = False  # this frame begins a new shot: nothing carries over from before
    camera: np.ndarray = field(default_factory=lambda: np.eye(3))  # (3, 3) last frame's pixels -> this frame's
    looked: bool = True  # the proposer looked at this frame; sparse ones pass most frames on as they are


class Proposer(Protocol):
    """A backend that proposes objects."""

    def propose(self, video: Video, scan: Scan) -> Iterator[FrameProposals]:
        """Yield the frames of a video in order, each with its proposals; `scan` runs one shot ahead."""
        ...
