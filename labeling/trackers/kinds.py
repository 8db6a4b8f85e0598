"""Is this blob made of things that were seen alone elsewhere?

Remembers the shapes of objects that keep their shape, and explains a new blob as several of them where that fits: in a
scene with many alike objects, those that come into view already merged are told apart from the first frame on.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from labeling.masks import Mask, intersection
from labeling.trackers.splitting import Part, Placement, colour_fit, largest_piece, left_over, split
from labeling.trackers.targets import RIGID, Target
from labeling.trackers.template import Template

LEARNED = 5  # sightings after which a shape is worth remembering
SAME_COLOUR = 15.0  # Lab units within which a part has its kind's colour
MOST_KINDS = 6
MOST_PARTS = 8
SAME_AREA, SAME_LOOKS = 0.25, 0.1  # differences below which two objects are of one kind
WORTH = 0.3  # share of its own area that a part must explain anew
UNEXPLAINED = 0.08  # share of a blob, beyond the rims of its parts, that may be left unexplained
MISFIT = 0.1  # the same with the rims: where outlines do not fit
INSIDE_HEAP = 0.85  # share of each part that must lie inside the blob
REST = 0.4  # of a known thing's area: what is left over may be an unknown thing of another colour
LIKE_SIZE = 1.5  # times the area of the known ones that such a thing may have: a heap is of things of a size
MOST_OF_IT = 0.7  # share of what is left over that must be one piece then
LARGEST = 160  # pixels: larger blobs are hardly heaps of alike things


@dataclass
class Kind:
    """A shape that was seen alone, with its looks."""

    template: Template
    looks: np.ndarray
    area: float
    rigid: float

    @property
    def colour(self) -> np.ndarray:
        """Mean Lab colour of its interior, (3,)."""
        return self.template.colour


class Kinds:
    """The shapes that a scene's objects were seen to have."""

    def __init__(self) -> None:
        """Begin with none."""
        self.kinds: list[Kind] = []

    def learn(self, target: Target) -> None:
        """Remember the shape of a target that was just seen alone, if it keeps its shape."""
        if target.sightings < LEARNED or target.rigid < RIGID or target.leaving:
            return
        new = Kind(target.template, target.looks, target.area, target.rigid)
        for index, kind in enumerate(self.kinds):
            alike = 1 - float(kind.looks @ target.looks) < SAME_LOOKS
            if alike and abs(np.log(kind.area / target.area)) < SAME_AREA:
                if target.rigid >= kind.rigid:
                    self.kinds[index] = new
                return
        if len(self.kinds) < MOST_KINDS:
            self.kinds.append(new)

    def explain(self, component: Mask, image: np.ndarray) -> Heap | None:
        """The known shapes that a component is made of; None if it is one of them, or something else."""
        kinds = [kind for kind in self.kinds if kind.area < 0.8 * component.area]
        if not kinds or max(component.coverage.shape) > LARGEST:
            return None
        found = _gather(component, kinds, image)
        if not found:
            return None
        parts = [Part(kind.template, centre, 0.3 * float(np.sqrt(kind.area))) for kind, centre in found]
        placements, error = split(component, parts, image)
        heap = [(kind, placement) for (kind, _), placement in zip(found, placements, strict=True)]
        shapes = [kind.template.mask(placement.centre, *image.shape[:2]) for kind, placement in heap]
        if any(shape is None or not _supported(shape, component) for shape in shapes):
            return None
        left = left_over(component, [shape for shape in shapes if shape is not None])
        total = float(left.sum(dtype=np.int64)) / 255
        if total < UNEXPLAINED * component.area:
            return Heap(heap, None) if len(heap) > 1 and error < MISFIT else None
        rest = largest_piece(left, component, REST * min(kind.area for kind in kinds))
        if rest is None or error - total / component.area > MISFIT:
            return None
        if not MOST_OF_IT * total <= rest.area <= LIKE_SIZE * max(kind.area for kind, _ in heap):
            return None
        if any(_colour_share(rest, k, image) > 0.4 for k in kinds):
            return None
        return Heap(heap, rest)


@dataclass(frozen=True)
class Heap:
    """What a blob is made of."""

    parts: list[tuple[Kind, Placement]]
    rest: Mask | None  # something of another colour among them


def _supported(shape: Mask, component: Mask) -> bool:
    """Does nearly all of a shape lie inside the component?"""
    return intersection(shape, component) >= INSIDE_HEAP * shape.area


def _colour_share(mask: Mask, kind: Kind, image: np.ndarray) -> float:
    """How well the colours under a mask fit a kind, 0 to 1."""
    x1, y1, x2, y2 = mask.bounds
    lab = cv2.cvtColor(np.ascontiguousarray(image[y1:y2, x1:x2]), cv2.COLOR_RGB2LAB).astype(np.float32)
    return float(np.average(colour_fit(lab, kind.colour), weights=mask.coverage))


def _gather(component: Mask, kinds: list[Kind], image: np.ndarray) -> list[tuple[Kind, np.ndarray]]:
    """Put shapes into a component one after another, each where it explains most; the shapes and their centres."""
    margin = int(max(np.sqrt(kind.area) for kind in kinds))
    x1, y1, x2, y2 = component.bounds
    window = (x1 - margin, y1 - margin, x2 + margin, y2 + margin)
    target = np.pad(component.coverage / np.float32(255), margin)
    height, width = image.shape[:2]
    known = np.zeros_like(target)
    known[max(0, -window[1]) : height - window[1], max(0, -window[0]) : width - window[0]] = 1
    lab = cv2.cvtColor(np.ascontiguousarray(image[y1:y2, x1:x2]), cv2.COLOR_RGB2LAB).astype(np.float32)
    fits = [np.pad(colour_fit(lab, kind.colour, SAME_COLOUR), margin, constant_values=1) for kind in kinds]
    fits = [np.where(target < 0.5, 1, fit).astype(np.float32) for fit in fits]
    # A part's outline lies on the blob's outline: without this weight any place inside would be as good.
    weight = known * (1 + 2 * (target - cv2.erode(target, np.ones((3, 3), np.uint8))))
    explained = np.zeros_like(target)
    found: list[tuple[Kind, np.ndarray]] = []
    while len(found) < MOST_PARTS:
        best: tuple[float, int, np.ndarray] | None = None
        for index, (kind, fit) in enumerate(zip(kinds, fits, strict=True)):
            gain = ((target - np.maximum(explained, fit)) ** 2 - (target - explained) ** 2) * weight
            base = kind.template.snapped(kind.template.before)
            shape, left, top = kind.template.stamp(base)
            if shape.shape[0] > gain.shape[0] or shape.shape[1] > gain.shape[1]:
                continue
            energy = cv2.matchTemplate(gain, shape, cv2.TM_CCORR)
            row, column = np.unravel_index(int(energy.argmin()), energy.shape)
            lowest = float(energy[row, column])
            if lowest < -WORTH * kind.area and (best is None or lowest < best[0]):
                best = lowest, index, base - (left, top) + (column, row)
        if best is None:
            break
        _, index, centre = best
        centre = centre + np.array(window[:2])
        explained = np.maximum(explained, kinds[index].template.placed(centre, window) * fits[index])
        found.append((kinds[index], centre))
    return found
