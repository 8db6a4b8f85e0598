"""What moves? Proposals from motion alone, with no weights.

Chooses shot by shot between a still camera's background model and the residual motion of a moving camera, reads the
frames behind the scan, and yields each with its proposals.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from pydantic import BaseModel, Field

from labeling.proposals import FrameProposals
from labeling.proposals.moving import MovingConfig, propose_moving
from labeling.proposals.still import StillConfig, StillProposer
from labeling.scan import Scan, Shot
from labeling.video import Frame, Video


class MotionConfig(BaseModel, extra="forbid", frozen=True):
    """Settings of the motion proposer."""

    still: StillConfig = Field(default=StillConfig(), description="Shots whose camera stands still.")
    moving: MovingConfig = Field(default=MovingConfig(), description="Shots whose camera moves.")


class MotionProposer:
    """Proposes what moves against the scene."""

    def __init__(self, config: MotionConfig | None = None) -> None:
        self.config = config or MotionConfig()

    def propose(self, video: Video, scan: Scan) -> Iterator[FrameProposals]:
        """Yield every frame of the shots in `scan`, in order, with its proposals."""
        frames = video.frames()
        for shot in scan:
            mine = islice(frames, shot.stop - shot.start)
            if shot.still:
                yield from _propose_still(mine, shot, self.config.still)
            else:
                yield from propose_moving(mine, shot, self.config.moving)


def _propose_still(frames: Iterator[Frame], shot: Shot, config: StillConfig) -> Iterator[FrameProposals]:
    proposer = StillProposer(shot.pictures, config)
    for frame, camera in zip(frames, shot.camera, strict=True):
        cut = shot.cut and frame.index == shot.start
        yield FrameProposals(frame, proposer.propose(frame.image), cut, camera)
