"""What does a scene look like without its objects?

Takes the sampled pictures of a shot whose camera stands still and gives the background: its colour at every pixel and
how much a pixel of it varies by itself (sensor and compression noise).
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

LEAST_NOISE = 1.0  # grey levels; even a rendered video is rounded and compressed


@dataclass(frozen=True)
class Background:
    """The scene without its objects."""

    picture: np.ndarray  # (H, W, 3) uint8, RGB
    noise: np.ndarray  # (H, W) float32, standard deviation in grey levels


def background_of(pictures: np.ndarray) -> Background:
    """The background of pictures (K, H, W, 3) uint8 taken by a camera that stands still."""
    picture = np.median(pictures, axis=0).astype(np.uint8)
    return Background(picture, _noise(pictures, picture))


def _noise(pictures: np.ndarray, picture: np.ndarray) -> np.ndarray:
    """How much each pixel varies while nothing covers it, (H, W) float32."""
    deviations = np.stack([cv2.absdiff(image, picture).max(2) for image in pictures])
    middle = np.median(deviations, axis=0).astype(np.float32) * 1.2
    return np.maximum(cv2.blur(middle, (5, 5)), LEAST_NOISE)
