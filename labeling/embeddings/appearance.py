"""What does an object look like, without any learned weights?

Takes an RGB image and masks, and returns unit vectors: a smoothed histogram of the colours under the mask (chroma and
lightness, in Lab), and with less weight how elongated, how full and how textured the object is. Size, place and
direction do not enter, so that one kind of object keeps its vector over a video and across videos.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np

from labeling.masks import Mask

CHROMA_BINS = 9
LIGHT_BINS = 8
SHAPE_BINS = 5
# Shares of the squared length. Colour decides; shape and texture change with pose and distance and only nudge.
CHROMA_SHARE, LIGHT_SHARE, ELONGATION_SHARE, FULLNESS_SHARE, TEXTURE_SHARE = 0.6, 0.25, 0.05, 0.05, 0.05
CHROMA_KNEE = 12.0  # Lab units: below it chroma counts linearly, above it logarithmically, as most things are pale
MOST_PIXELS = 900  # larger objects are sampled on a grid: their statistics do not change, the time does
RIM = 3  # pixels: kernel that finds how deep inside the object a pixel lies


def _soft_bins(values: np.ndarray, low: float, high: float, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower bin and the share that goes to the bin above it, so that a small shift moves little."""
    place = np.clip((values - low) / (high - low), 0.0, 1.0) * (bins - 1)
    lower = np.minimum(place.astype(np.int32), bins - 2)
    return lower, (place - lower).astype(np.float32)


def _chroma_table() -> tuple[np.ndarray, np.ndarray]:
    """Soft bin of each of the 256 values of an 8-bit Lab chroma channel (128 is grey)."""
    chroma = np.arange(256, dtype=np.float64) - 128.0
    return _soft_bins(
        np.arcsinh(chroma / CHROMA_KNEE), -np.arcsinh(90 / CHROMA_KNEE), np.arcsinh(90 / CHROMA_KNEE), CHROMA_BINS
    )


def _smoothing(bins: int) -> np.ndarray:
    """Matrix (bins, bins) that spreads a histogram over its neighbours, so that near colours are near vectors."""
    return (0.5 * np.eye(bins) + 0.25 * np.eye(bins, k=1) + 0.25 * np.eye(bins, k=-1)).astype(np.float32)


SMOOTH_CHROMA, SMOOTH_LIGHT, SMOOTH_SHAPE = _smoothing(CHROMA_BINS), _smoothing(LIGHT_BINS), _smoothing(SHAPE_BINS)


class AppearanceEmbedder:
    """Colour, shape and texture statistics under a mask."""

    def __init__(self) -> None:
        """Prepare the tables that lead from 8-bit Lab values to soft bins."""
        self._chroma_bin, self._chroma_share = _chroma_table()
        self._light_bin, self._light_share = _soft_bins(np.arange(256), 0, 255, LIGHT_BINS)

    def embed(self, image: np.ndarray, masks: Sequence[Mask]) -> np.ndarray:
        """Describe each mask of an RGB image (H, W, 3) uint8; (M, D) float32, rows of unit length."""
        size = CHROMA_BINS**2 + LIGHT_BINS + 3 * SHAPE_BINS
        rows = [self._describe(image, mask) for mask in masks]
        return np.stack(rows) if rows else np.zeros((0, size), np.float32)

    def embed_frames(self, images: Sequence[np.ndarray], masks: Sequence[Sequence[Mask]]) -> list[np.ndarray]:
        """Describe the masks of several images."""
        return [self.embed(image, some) for image, some in zip(images, masks, strict=True)]

    def _describe(self, image: np.ndarray, mask: Mask) -> np.ndarray:
        height, width = image.shape[:2]
        x1, y1, x2, y2 = mask.bounds
        left, top, right, bottom = max(x1, 0), max(y1, 0), min(x2, width), min(y2, height)
        coverage = mask.coverage[top - y1 : bottom - y1, left - x1 : right - x1]
        if not coverage.size or not coverage.any():
            coverage, left, top = (
                np.full((1, 1), 255, np.uint8),
                min(max(left, 0), width - 1),
                min(max(top, 0), height - 1),
            )
        crop = image[top : top + coverage.shape[0], left : left + coverage.shape[1]]
        step = max(1, int(np.sqrt(coverage.size / MOST_PIXELS)))
        if step > 1:
            size = (max(1, coverage.shape[1] // step), max(1, coverage.shape[0] // step))
            crop = cv2.resize(crop, size, interpolation=cv2.INTER_AREA)
            coverage = cv2.resize(coverage, size, interpolation=cv2.INTER_AREA)
        weight = _interior(coverage)
        lab = cv2.cvtColor(np.ascontiguousarray(crop), cv2.COLOR_RGB2LAB)
        return np.concatenate(
            [
                np.sqrt(CHROMA_SHARE) * self._chroma(lab, weight),
                np.sqrt(LIGHT_SHARE) * self._light(lab[..., 0], weight),
                *_shape(coverage),
                _texture(lab[..., 0], weight),
            ]
        ).astype(np.float32)

    def _chroma(self, lab: np.ndarray, weight: np.ndarray) -> np.ndarray:
        a, b = lab[..., 1].ravel(), lab[..., 2].ravel()
        up, right = self._chroma_share[a], self._chroma_share[b]
        place = self._chroma_bin[a] * CHROMA_BINS + self._chroma_bin[b]
        weights = weight.ravel()
        high, low = weights * up, weights * (1 - up)
        places = np.concatenate([place, place + 1, place + CHROMA_BINS, place + CHROMA_BINS + 1])
        shares = np.concatenate([low * (1 - right), low * right, high * (1 - right), high * right])
        histogram = np.bincount(places, shares, CHROMA_BINS**2).reshape(CHROMA_BINS, CHROMA_BINS)
        return _unit_root((SMOOTH_CHROMA @ histogram @ SMOOTH_CHROMA).ravel())

    def _light(self, light: np.ndarray, weight: np.ndarray) -> np.ndarray:
        values, weights = light.ravel(), weight.ravel()
        low, up = self._light_bin[values], self._light_share[values]
        places, shares = np.concatenate([low, low + 1]), np.concatenate([weights * (1 - up), weights * up])
        return _unit_root(SMOOTH_LIGHT @ np.bincount(places, shares, LIGHT_BINS))


def _interior(coverage: np.ndarray) -> np.ndarray:
    """Weight of each pixel (h, w): high deep inside, as the rim mixes in the background and its blurred chroma."""
    depth = cv2.blur(coverage.astype(np.float32), (RIM, RIM), borderType=cv2.BORDER_CONSTANT)
    depth = cv2.blur(depth, (RIM, RIM), borderType=cv2.BORDER_CONSTANT)
    return np.asarray(cv2.pow(depth / max(float(depth.max()), 1e-6), 4))


def _shape(coverage: np.ndarray) -> list[np.ndarray]:
    """How elongated the object is and how full its own ellipse, each as a soft one-hot vector."""
    moments = cv2.moments(coverage)
    mass = moments["m00"]
    xx, yy, xy = moments["mu20"] / mass, moments["mu02"] / mass, moments["mu11"] / mass
    middle, swing = (xx + yy) / 2, math.hypot((xx - yy) / 2, xy)
    major, minor = math.sqrt(max(middle + swing, 1 / 12)), math.sqrt(max(middle - swing, 1 / 12))
    fullness = mass / 255.0 / (4 * math.pi * major * minor)
    return [
        math.sqrt(ELONGATION_SHARE) * _soft_one_hot(math.log2(major / minor), 0.0, 3.0),
        math.sqrt(FULLNESS_SHARE) * _soft_one_hot(fullness, 0.4, 1.05),
    ]


def _texture(light: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """How much lightness differs between pixels side by side, as a soft one-hot vector."""
    steps = cv2.absdiff(light[:, 1:], light[:, :-1])
    weights = np.minimum(weight[:, 1:], weight[:, :-1])
    total = float(weights.sum())
    roughness = float((steps * weights).sum()) / total if total > 0 else 0.0
    return math.sqrt(TEXTURE_SHARE) * _soft_one_hot(math.log2(1 + roughness), 0.0, 5.0)


def _soft_one_hot(value: float, low: float, high: float) -> np.ndarray:
    place = min(max((value - low) / (high - low), 0.0), 1.0) * (SHAPE_BINS - 1)
    lower = min(int(place), SHAPE_BINS - 2)
    share = place - lower
    return _unit_root((1 - share) * SMOOTH_SHAPE[lower] + share * SMOOTH_SHAPE[lower + 1])


def _unit_root(histogram: np.ndarray) -> np.ndarray:
    """Square roots of the shares: their dot product says how much two histograms have in common."""
    return np.asarray(np.sqrt(histogram / max(float(histogram.sum()), 1e-9)))
