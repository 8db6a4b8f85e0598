"""Frames of a video in the training size, stretch after stretch, without decoding anything twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from labeling.video import Frame, Video, VideoError
from training.sources.framing import Framing

BLOCK = 64  # frames handed out together
WHOLE = 1 << 20  # longest side: frames come as they are and are scaled once, to the training size


class FrameReader:
    """Reads stretches of one video; going forward costs least."""

    def __init__(self, path: Path, size: int, letterbox: bool) -> None:
        self.video = Video(path, longest_side=WHOLE)
        self.framing = Framing(self.video.height, self.video.width, size, letterbox)
        self._frames: Iterator[Frame] = iter(())
        self._next: int | None = None

    def blocks(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """Frames `start` to `stop` in blocks (n, size, size, 3); ends early where the video does."""
        if self._next is None or start < self._next:
            self._frames, self._next = self.video.frames(start), start
        pictures: list[np.ndarray] = []
        while self._next < stop:
            frame = next(self._frames, None)
            if frame is None:
                break
            self._next = frame.index + 1
            if frame.index < start:
                continue
            pictures.append(self.framing.picture(frame.image))
            if len(pictures) == BLOCK:
                yield np.stack(pictures)
                pictures = []
        if pictures:
            yield np.stack(pictures)


def refuse_other_video(video: Video, sha256: str) -> None:
    """VideoError unless a video is the one that was labeled."""
    if video.sha256() != sha256:
        raise VideoError(f"{video.path} is not the video that was labeled: it has changed since. Label it again.")
