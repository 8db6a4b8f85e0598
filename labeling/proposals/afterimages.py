"""Does the background show an object that is not there?

Takes the background and what differs from it on some pictures. The outline of a true object is an edge in the picture;
that of an afterimage is one in the background only. Afterimages are replaced by what the pictures show.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from labeling.proposals.stacks import components, largest_difference

EDGE_RATIO = 0.5  # an outline in the picture this much weaker than in the background is an afterimage's
OFTEN = 0.5  # share of the pictures with foreground at a pixel that must say so
LEAST = 3  # and their number
SMALLEST = 4  # pixels
BLOCK = np.ones((3, 3), np.uint8)


def without_afterimages(
    background: np.ndarray, images: Sequence[np.ndarray], fronts: Sequence[np.ndarray]
) -> np.ndarray:
    """The background picture (H, W, 3) uint8 without things that the pictures do not show.

    Args:
        background: (H, W, 3) uint8.
        images: Sampled pictures.
        fronts: What differs from the background on each, (H, W) uint8.
    """
    edges = _edges(background)
    flagged = [_afterimages(_edges(image), edges, front) for image, front in zip(images, fronts, strict=True)]
    votes = np.sum([flags > 0 for flags in flagged], axis=0)
    if votes.max(initial=0) < LEAST:
        return background
    seen = np.sum([front > 0 for front in fronts], axis=0)
    wrong = (votes >= LEAST) & (votes >= OFTEN * seen)
    wrong = cv2.dilate(wrong.astype(np.uint8), BLOCK) > 0
    repaired = background.copy()
    rows, columns = np.nonzero(wrong)
    shown = np.stack([image[rows, columns] for image in images]).astype(np.float32)
    hidden = np.stack([(flags[rows, columns] == 0) for flags in (cv2.dilate(flags, BLOCK) for flags in flagged)])
    shown[hidden] = np.nan
    usable = ~hidden.all(0)
    repaired[rows[usable], columns[usable]] = np.nanmedian(shown[:, usable], axis=0).astype(np.uint8)
    return repaired


def _edges(picture: np.ndarray) -> np.ndarray:
    """How strong edges are at each pixel, (H, W) uint8."""
    return largest_difference(cv2.dilate(picture, BLOCK), cv2.erode(picture, BLOCK))


def _afterimages(picture_edges: np.ndarray, background_edges: np.ndarray, front: np.ndarray) -> np.ndarray:
    """The pieces of a foreground (H, W) uint8 whose outline only the background has, (H, W) uint8."""
    labels, area = components(front)
    outline = cv2.subtract(cv2.dilate(front, BLOCK), cv2.erode(front, BLOCK, borderValue=255))
    places = np.flatnonzero(outline)
    owners = cv2.max(labels, cv2.dilate(labels, BLOCK)).ravel()[places]
    there = np.bincount(owners, picture_edges.ravel()[places], minlength=len(area))
    behind = np.bincount(owners, background_edges.ravel()[places], minlength=len(area))
    is_afterimage = (there < EDGE_RATIO * behind) & (area >= SMALLEST)
    return is_afterimage.astype(np.uint8).take(labels)
