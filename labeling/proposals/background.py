"""What does a scene look like without its objects?

Takes the sampled pictures of a shot whose camera stands still and gives the background: its colour at every pixel and
how much a pixel of it varies by itself (sensor and compression noise). Most pixels show one colour all the time. Where
several colours stay for a while, an object stood there, and the background is the colour that continues the
surroundings, even if the object covered it for most of the shot.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from labeling.proposals.exposure import with_exposure_of
from labeling.proposals.ghosts import a_while, behind_objects
from labeling.proposals.stacks import evenly, largest_difference, ranked

LEAST_NOISE = 1.0  # grey levels; even a rendered video is rounded and compressed
MOST_NOISE = 12.0  # a pixel that varies more, varies because objects pass
ALIKE_LEVELS, ALIKE_NOISE = 6.0, 4.0  # two samples of a pixel show the same thing if they differ by less
CERTAIN = 0.95  # a colour seen this often at a pixel leaves no doubt
STATE_SAMPLES = 24  # pictures that are searched for the colours a pixel shows
DECIDED_ON = 320  # longest side of the pictures on which to decide what is behind objects
PASSING = 0.75  # nor does one seen this often, and first and last: something else passed by in between

BLOCK = np.ones((3, 3), np.uint8)


@dataclass(frozen=True)
class Background:
    """The scene without its objects."""

    picture: np.ndarray  # (H, W, 3) uint8, RGB
    noise: np.ndarray  # (H, W) float32, standard deviation in grey levels

    @functools.cached_property
    def grey(self) -> np.ndarray:
        """Its brightness, (H, W) uint8."""
        return cv2.cvtColor(self.picture, cv2.COLOR_RGB2GRAY)


def background_of(pictures: Sequence[np.ndarray]) -> Background:
    """The background of pictures (H, W, 3) uint8 taken by a camera that stands still."""
    picture = ranked(pictures, len(pictures) // 2)
    pictures = [with_exposure_of(picture, image) for image in pictures]
    deviations = [largest_difference(image, picture) for image in pictures]
    noise = _noise(deviations)
    usual = float(np.median(noise))
    alike = np.clip(ALIKE_LEVELS + ALIKE_NOISE * np.minimum(noise, 2 * usual), 0, 255).astype(np.uint8)
    same = [cv2.compare(deviation, alike, cv2.CMP_LE) for deviation in deviations]
    while_ = a_while(len(pictures))
    seen, first, last = _share(same), _share(same[:while_]), _share(same[-while_:])
    certain = (seen >= CERTAIN) | ((seen >= PASSING) & (first > 0.5) & (last > 0.5))
    if certain.any() and not certain.all():
        picture = _without_objects(picture, certain, evenly(pictures, STATE_SAMPLES), alike, usual)
        noise = _noise([largest_difference(image, picture) for image in pictures])
        noise = np.where(noise > alike / ALIKE_NOISE, usual, noise)
    return Background(picture, noise)


def _share(masks: Sequence[np.ndarray]) -> np.ndarray:
    """On which share of masks (H, W) uint8, 0 or 255, each pixel is set; (H, W) float32."""
    total = np.zeros(masks[0].shape, np.float32)
    for mask in masks:
        cv2.accumulate(mask, total)
    return total / np.float32(255 * len(masks))


def _without_objects(
    picture: np.ndarray, certain: np.ndarray, pictures: Sequence[np.ndarray], alike: np.ndarray, usual: float
) -> np.ndarray:
    """What `behind_objects` finds on smaller pictures, looked up in the large ones; (H, W, 3) uint8."""
    height, width = certain.shape
    factor = -(-max(height, width) // DECIDED_ON)
    if factor == 1:
        return behind_objects(picture, certain, pictures, alike, usual)
    size = -(-width // factor), -(-height // factor)
    small, *others = (cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in (picture, *pictures))
    sure = cv2.resize(certain.astype(np.uint8) * 255, size, interpolation=cv2.INTER_AREA) > 254
    found = behind_objects(small, sure, others, cv2.resize(alike, size, interpolation=cv2.INTER_AREA), usual)
    painted = largest_difference(found, small)
    painted[~sure] = 0
    spread = largest_difference(cv2.dilate(found, BLOCK), cv2.erode(found, BLOCK))
    wanted, painted, spread = (cv2.resize(image, (width, height)) for image in (found, painted, spread))
    apart = [largest_difference(image, wanted) for image in pictures]
    least = functools.reduce(cv2.min, apart)
    shown, times = np.zeros(wanted.shape, np.float32), np.zeros(certain.shape, np.float32)
    for image, difference in zip(pictures, apart, strict=True):
        closest = cv2.compare(difference, least, cv2.CMP_EQ)
        cv2.accumulate(image, shown, closest)
        cv2.accumulate(closest, times)
    shown *= 255 / times[:, :, None]
    result = np.where(certain[:, :, None], picture, np.round(shown).astype(np.uint8))
    unseen = np.where(certain, painted > alike, least > cv2.add(alike, spread))
    return np.where(unseen[:, :, None], wanted, result)


def _noise(deviations: Sequence[np.ndarray]) -> np.ndarray:
    """How much each pixel varies while nothing covers it, (H, W) float32, from several (H, W) uint8.

    The quarter of the samples that come closest to the background shows it even where objects are most of the time;
    twice their deviation stands for the standard deviation of a pixel's largest channel.
    """
    low = ranked(deviations, (len(deviations) - 1) // 4).astype(np.float32)
    return np.maximum(cv2.blur(np.minimum(2 * low, MOST_NOISE), (5, 5)), LEAST_NOISE)
