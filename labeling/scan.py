"""What kind of video is this?

One pass that finds scene cuts, measures how the camera moves, and keeps a sparse sample of pictures. It yields shots
one after another, so that a reader behind it needs the memory of one shot's sample and no more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shot:
    """A stretch of frames without a scene cut; long shots come in several stretches."""

    start: int
    stop: int  # exclusive
    cut: bool  # a new scene begins here: nothing carries over from before
    still: bool  # the camera stands still
    samples: np.ndarray  # (K,) indices of the sampled frames
    pictures: np.ndarray  # (K, H, W, 3) uint8, those frames at the working size
    camera: np.ndarray  # (stop - start, 3, 3) homography from the frame before to each frame
