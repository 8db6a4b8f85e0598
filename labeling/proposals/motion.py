"""What moves? Proposals from motion alone, with no weights.

Chooses shot by shot between a still camera's background model and the residual motion of a moving camera, reads the
frames behind the scan, and yields each with its proposals.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, Field

from labeling.proposals import FrameProposals
from labeling.proposals.moving import MovingConfig, propose_moving
from labeling.proposals.still import StillConfig, StillProposer
from labeling.scan import Scan, Shot, ShotReader
from labeling.video import Frame, Video


class MotionConfig(BaseModel, extra="forbid", frozen=True):
    """Settings of the motion proposer."""

    still: StillConfig = Field(default=StillConfig(), description="Shots whose camera stands still.")
    moving: MovingConfig = Field(default=MovingConfig(), description="Shots whose camera moves.")


class MotionProposer:
    """Proposes what moves against the scene."""

    def __init__(self, config: MotionConfig | None = None, keep_static: bool = False) -> None:
        self.config, self.keep_static = config or MotionConfig(), keep_static

    def propose(self, video: Video, scan: Scan) -> Iterator[FrameProposals]:
        """Yield every frame of the shots in `scan`, in order, with its proposals."""
        shots = _Shots(video, iter(scan))
        while (shot := shots.now) is not None:
            if shot.still:
                proposer = StillProposer(shot.pictures, self.config.still, self.keep_static)
                yield from _propose_still(shots.frames(), shot, proposer)
            else:
                yield from propose_moving(shots.frames(), shot.cut, self.config.moving)


class _Shots:
    """The shots of a scan one after another, with their frames."""

    def __init__(self, video: Video, scan: Iterator[Shot]) -> None:
        self._scan = scan
        self._reader = ShotReader(video)
        self.now = next(scan, None)

    def frames(self) -> Iterator[Frame]:
        """The frames of the shot that is on, and of those that go on with it from a moving camera; then goes on."""
        shot = self.now
        while shot is not None:
            yield from self._reader.frames(shot)
            before, shot = shot, next(self._scan, None)
            self.now = shot
            if before.still or (shot is not None and (shot.still or shot.cut)):
                return


def _propose_still(frames: Iterator[Frame], shot: Shot, proposer: StillProposer) -> Iterator[FrameProposals]:
    for frame in frames:
        yield FrameProposals(frame, proposer.propose(frame.image), shot.cut and frame.index == shot.start)
