"""Made scenes: coloured discs on a still background, with proposals as a perfect background model would give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cv2
import numpy as np

from labeling.masks import Mask
from labeling.proposals import FrameProposals, Proposal
from labeling.video import Frame

RED, WHITE, BLUE, GREEN = (230, 20, 20), (240, 240, 240), (30, 60, 230), (20, 200, 40)
Path = Callable[[int], tuple[float, float] | None]  # centre at a frame; None while it is not there


def disc(shape: tuple[int, int], centre: tuple[float, float], radius: float) -> np.ndarray:
    """Coverage (H, W) float32 of a disc, edges to a fraction of a pixel."""
    rows, columns = np.mgrid[: shape[0], : shape[1]] + 0.5
    return np.clip(radius + 0.5 - np.hypot(columns - centre[0], rows - centre[1]), 0, 1).astype(np.float32)


def draw(
    discs: list[tuple[Path, tuple[int, int, int], float]], frame: int, shape: tuple[int, int], seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The picture (H, W, 3) of a frame, later discs in front, and how much of each pixel is not background."""
    rng = np.random.default_rng(seed)
    image = np.full((*shape, 3), 40, np.float32) + rng.normal(0, 4, (*shape, 3)).astype(np.float32)
    covered = np.zeros(shape, np.float32)
    for path, colour, radius in discs:
        centre = path(frame)
        if centre is not None:
            share = disc(shape, centre, radius)
            image = image * (1 - share[..., None]) + share[..., None] * np.array(colour, np.float32)
            covered = np.maximum(covered, share)
    return np.clip(image, 0, 255).astype(np.uint8), covered


def pieces(covered: np.ndarray) -> list[Proposal]:
    """One proposal a connected piece of coverage."""
    count, labels = cv2.connectedComponents((covered > 0.05).astype(np.uint8), connectivity=8)
    masks = [Mask.cut(np.where(labels == k, covered * 255, 0).round().astype(np.uint8)) for k in range(1, count)]
    return [Proposal(mask, 1.0) for mask in masks if mask is not None and mask.area > 4]


def scene(
    discs: list[tuple[Path, tuple[int, int, int], float]], frames: int, shape: tuple[int, int] = (96, 128)
) -> Iterator[FrameProposals]:
    """A still scene with moving discs, given as (path, colour, radius)."""
    for index in range(frames):
        image, covered = draw(discs, index, shape)
        yield FrameProposals(Frame(index, index / 15, image), pieces(covered), cut=index == 0)


def line(start: tuple[float, float], velocity: tuple[float, float]) -> Path:
    """A path straight on."""
    return lambda t: (start[0] + velocity[0] * t, start[1] + velocity[1] * t)
