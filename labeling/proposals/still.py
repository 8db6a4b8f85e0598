"""What stands out from a still background?

Takes the frames of a shot whose camera stands still and its background; gives a soft mask of everything that is not
background, one proposal a connected piece, edges precise to a fraction of a pixel.
"""

from __future__ import annotations

import cv2
import numpy as np
from pydantic import BaseModel, Field

from labeling.masks import Mask
from labeling.proposals import Proposal
from labeling.proposals.afterimages import without_afterimages
from labeling.proposals.attached import join_outside, join_parts, without_attached
from labeling.proposals.background import Background, background_of
from labeling.proposals.exposure import with_exposure_of
from labeling.proposals.matting import coverage_of, luma_first
from labeling.proposals.shadows import find_shadows, shadow_pixels
from labeling.proposals.stacks import components, disc, evenly, largest_difference, place_of, thickness
from labeling.proposals.standing import without_standing

FAINT_LEVELS, FAINT_NOISE = 6.0, 3.0  # a pixel may belong to an object from here on: levels + so many deviations
CLEAR_LEVELS, CLEAR_NOISE = 12.0, 6.0  # an object has pixels at least this different
RING = 2  # pixels around a piece in which its soft edge may end
PICTURES = 24  # enough to see what shadows fall and what touches what all the time
CLOSING = 120  # gaps of so small a part of the height are closed
CRUMB = 0.003  # pieces of less than this share of the largest are its crumbs
NOISY = 2.0  # grey levels of noise from which on low contrast breaks things up
NOISY_CRUMB = 0.03  # so that there are larger crumbs
SPUR = 0.16  # and spurs, thinner than this share of what moves, of edges in the background that flicker
BLOCK = np.ones((3, 3), np.uint8)


class StillConfig(BaseModel, extra="forbid", frozen=True):
    """Settings for shots of a still camera."""

    min_area: float = Field(default=6.0, gt=0, description="Smaller pieces, in pixels, are taken for noise.")
    min_share: float = Field(default=2e-4, ge=0, lt=1, description="The same, as a share of the picture's pixels.")


class StillProposer:
    """Proposals of one still shot."""

    def __init__(self, pictures: np.ndarray, config: StillConfig, keep_static: bool = False) -> None:
        """Learn the scene from sampled pictures (K, H, W, 3) uint8; with `keep_static` propose what stands still."""
        self.config = config
        gap = max(1, pictures.shape[1] // CLOSING)
        self._closing, self._crumb = disc(gap), CRUMB
        self._opening: np.ndarray | None = None
        self._set(background_of(list(pictures)))
        chosen = [with_exposure_of(self.background.picture, image) for image in evenly(list(pictures), PICTURES)]
        self._shadows = find_shadows(chosen, self.background, self._faint)
        fronts = [self._front(image)[0] for image in chosen]
        repaired = without_afterimages(self.background.picture, chosen, fronts)
        if repaired is not self.background.picture:
            self._set(Background(repaired, self.background.noise))
            fronts = [self._front(image)[0] for image in chosen]
        fronts = [_largest(front) for front in fronts]
        if float(np.median(self.background.noise)) > NOISY:
            spur = min(gap, int(thickness(fronts) * SPUR))
            self._opening, self._crumb = disc(spur) if spur else None, NOISY_CRUMB
        background, parts = without_attached(self.background, fronts, self._shadows)
        self._parts = parts if parts.any() else None
        self._set(background)
        self._cuts: np.ndarray | None = None
        if keep_static:
            background, self._cuts = without_standing(self.background)
            self._set(background)

    def _set(self, background: Background) -> None:
        self.background = background
        self._behind = luma_first(background.picture)
        self._faint = _levels(FAINT_LEVELS + FAINT_NOISE * background.noise)
        self._clear = _levels(CLEAR_LEVELS + CLEAR_NOISE * background.noise)

    def propose(self, image: np.ndarray) -> list[Proposal]:
        """The objects of one picture (H, W, 3) uint8."""
        image = with_exposure_of(self.background.picture, image)
        front, difference = self._front(image)
        if self._cuts is not None:
            front = cv2.subtract(front, self._cuts)
        labels, area = components(front)
        least = max(self.config.min_area, self.config.min_share * labels.size, self._crumb * area.max())
        pieces = [(int(label), place_of(labels, int(label))) for label in np.flatnonzero(area >= least)]
        pieces = [piece for piece in pieces if self._is_clear(difference, labels, *piece)]
        if self._parts is not None:
            labels, pieces = join_parts(*join_outside(labels, pieces, self._parts), self._parts)
        masks = [self._matte(image, difference, labels, label, place) for label, place in pieces]
        return [Proposal(mask, 1.0) for mask in masks if mask is not None]

    def _front(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is not background, (H, W) uint8 0 or 255, and by how much each pixel differs from it."""
        difference = largest_difference(image, self.background.picture)
        front = cv2.compare(difference, self._faint, cv2.CMP_GT)
        if self._shadows is not None:
            front = cv2.subtract(front, shadow_pixels(image, self.background, self._shadows))
            front = cv2.morphologyEx(front, cv2.MORPH_OPEN, BLOCK)
        front = cv2.morphologyEx(front, cv2.MORPH_CLOSE, self._closing)
        if self._opening is not None:
            front = cv2.morphologyEx(front, cv2.MORPH_OPEN, self._opening)
        return front, difference

    def _is_clear(self, difference: np.ndarray, labels: np.ndarray, label: int, place: np.ndarray) -> bool:
        """Does the piece `label` of `labels` at x, y, w, h have pixels that are surely no background?"""
        x, y, w, h = place
        window = np.s_[y : y + h, x : x + w]
        clear = cv2.compare(difference[window], self._clear[window], cv2.CMP_GT)
        return cv2.countNonZero(cv2.bitwise_and(clear, cv2.compare(labels[window], float(label), cv2.CMP_EQ))) > 0

    def _matte(
        self, image: np.ndarray, difference: np.ndarray, labels: np.ndarray, label: int, place: np.ndarray
    ) -> Mask | None:
        """The soft mask of the piece `label` of `labels` at x, y, w, h."""
        height, width = labels.shape
        x, y = max(place[0] - RING, 0), max(place[1] - RING, 0)
        right, bottom = min(place[0] + place[2] + RING, width), min(place[1] + place[3] + RING, height)
        window = np.s_[y:bottom, x:right]
        piece = cv2.compare(labels[window], float(label), cv2.CMP_EQ)
        others = cv2.subtract(cv2.compare(labels[window], 0.0, cv2.CMP_GT), piece)
        coverage = coverage_of(piece, others, difference[window], luma_first(image[window]), self._behind[window])
        return Mask.cut(coverage, int(x), int(y))


def _largest(front: np.ndarray, share: float = 0.05) -> np.ndarray:
    """A mask (H, W) uint8 without the pieces that are small against its largest."""
    labels, area = components(front)
    keep = (area > 0) & (area >= share * area.max())
    return keep.astype(np.uint8).take(labels)


def _levels(values: np.ndarray) -> np.ndarray:
    return np.clip(values, 0, 254).astype(np.uint8)
