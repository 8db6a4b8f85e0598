"""Which frames are worth a look by a large network?

Networks that propose objects are slow, so they see every n-th frame of a shot, several at a time; a clip never spans a
scene cut. All frames are passed on in order, those between without proposals. What is held is one clip's frames, so
memory does not grow with the video.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import cv2
import numpy as np

from labeling.camera import SmallCopies, camera_motion
from labeling.proposals import FrameProposals, Proposal
from labeling.scan import Scan, ShotReader
from labeling.video import Frame, Video

ProposeClip = Callable[[Sequence[np.ndarray]], Sequence[list[Proposal]]]  # images (H, W, 3) -> proposals of each


def propose_sparsely(video: Video, scan: Scan, propose: ProposeClip, every: int, clip: int) -> Iterator[FrameProposals]:
    """Yield every frame in order; every `every`-th of a shot has proposals, found `clip` frames at a time."""
    held: list[tuple[Frame, bool]] = []
    for frame, cut, offset in _frames(video, scan):
        if held and (cut or (offset % every == 0 and len(held) == every * clip)):
            yield from _proposed(held, propose, every)
            held = []
        held.append((frame, cut))
    if held:
        yield from _proposed(held, propose, every)


def with_camera(frames: Iterator[FrameProposals], video: Video) -> Iterator[FrameProposals]:
    """Add how the camera moved since the frame before."""
    copies = SmallCopies(video.working_height, video.working_width)
    before: np.ndarray | None = None
    for proposed in frames:
        grey = cv2.cvtColor(copies.of(proposed.frame.image), cv2.COLOR_RGB2GRAY)
        if before is not None and not proposed.cut:
            camera = copies.enlarged(camera_motion(before, grey)[0])
            proposed = replace(proposed, camera=camera)
        yield proposed
        before = grey


def _frames(video: Video, scan: Scan) -> Iterator[tuple[Frame, bool, int]]:
    """Every frame, whether a scene begins with it, and how many frames the scene had before it."""
    reader, begin = ShotReader(video), 0
    for shot in scan:
        begin = shot.start if shot.cut else begin
        for frame in reader.frames(shot):
            yield frame, shot.cut and frame.index == shot.start, frame.index - begin


def _proposed(held: list[tuple[Frame, bool]], propose: ProposeClip, every: int) -> Iterator[FrameProposals]:
    """The frames of one clip; the first of every `every` was looked at."""
    found = iter(propose([frame.image for frame, _ in held[::every]]))
    for place, (frame, cut) in enumerate(held):
        looked = place % every == 0
        yield FrameProposals(frame, next(found) if looked else [], cut, looked=looked)
