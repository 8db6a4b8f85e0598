"""Arithmetic on whole pictures and stacks of them, as quick as bytes allow."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np


def largest_difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """By how much the channel that differs most differs between two pictures (H, W, 3) uint8; (H, W) uint8."""
    red, green, blue, *_ = cv2.split(cv2.absdiff(first, second))
    return cv2.max(cv2.max(red, green), blue)


def evenly(pictures: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    """At most `count` of the pictures, the first, the last and some between."""
    return [pictures[index] for index in np.unique(np.linspace(0, len(pictures) - 1, count).round().astype(int))]


def ranked(pictures: Sequence[np.ndarray], rank: int) -> np.ndarray:
    """The value of that rank at each pixel and channel of uint8 pictures, by a sorting network of whole pictures."""
    stack = list(pictures)
    for first, second in _comparators(len(stack)):
        stack[first], stack[second] = cv2.min(stack[first], stack[second]), cv2.max(stack[first], stack[second])
    return stack[rank]


def _comparators(count: int) -> list[tuple[int, int]]:
    """Batcher's odd-even merge sort of `count` items as pairs to put in order."""
    pairs, p = [], 1
    while p < count:
        k = p
        while k >= 1:
            for j in range(k % p, count - k, 2 * k):
                pairs += [
                    (i + j, i + j + k)
                    for i in range(min(k, count - j - k))
                    if (i + j) // (p * 2) == (i + j + k) // (p * 2)
                ]
            k //= 2
        p *= 2
    return pairs


def components(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The connected pieces of a mask (H, W) uint8 as labels (H, W) uint16, and the area of each label, (n,) int.

    Much quicker than OpenCV's own statistics; label 0 is what no piece covers, and has no area.
    """
    count, labels = cv2.connectedComponents(mask, connectivity=8, ltype=cv2.CV_16U)
    area = cv2.calcHist([labels], [0], None, [count], [0, count]).ravel().astype(np.intp)
    area[0] = 0
    return labels, area


def place_of(labels: np.ndarray, label: int) -> np.ndarray:
    """x, y, w, h of a label, (4,) int."""
    return np.array(cv2.boundingRect(cv2.compare(labels, float(label), cv2.CMP_EQ)))


def thickness(masks: Sequence[np.ndarray]) -> float:
    """How thick the thickest thing of a mask (H, W) uint8 is, from its middle to its edge; the median of several."""
    deepest = []
    for mask in masks:
        x, y, w, h = cv2.boundingRect(mask)
        framed = cv2.copyMakeBorder(mask[y : y + h, x : x + w], 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
        deepest.append(cv2.distanceTransform(framed, cv2.DIST_L2, 3).max())
    return float(np.median(deepest))


def disc(radius: int) -> np.ndarray:
    """A round structuring element."""
    return cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
