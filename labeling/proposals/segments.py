"""Which patches of a picture belong together?

Takes the features of the patches of several pictures, (B, rows, columns, D), and returns the segments of each: sets of
patches that are alike and stand out from the rest. Patches are the nodes of a graph, linked where their features point
the same way; a segment is one side of the graph's best normalised cut. What was found is taken out and the rest is cut
again, until nothing stands out any more. All pictures are cut at the same time; those that are done wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_dilation, binary_erosion, label
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from labeling.proposals.maskcut import MaskCutConfig
from labeling.proposals.normalised_cuts import Cut, best_cuts, likeness

AROUND = 4  # patches around a segment that show what it stands out from
TRIES = 3  # cuts made for each mask that is wanted: some only shed stray patches
ROOM = 2**28  # bytes of links that are held at a time


@dataclass(frozen=True, slots=True)
class Segment:
    """Patches that belong together."""

    patches: np.ndarray  # (rows, columns) bool
    cut: float  # normalised cut, 0 to 2: what share of the links of either side lead across. Small is good


def find_segments(features: np.ndarray, config: MaskCutConfig) -> list[list[Segment]]:
    """The segments of each picture, what stands out most first; none if it is all alike."""
    patches = features.shape[1] * features.shape[2]
    together = max(1, ROOM // (4 * patches**2))
    stacks = [features[begin : begin + together] for begin in range(0, len(features), together)]
    return [segments for stack in stacks for segments in _find(stack, config)]


def _find(features: np.ndarray, config: MaskCutConfig) -> list[list[Segment]]:
    """The segments of as many pictures as are held at a time."""
    pictures, depth = len(features), features.shape[-1]
    unit = features.astype(np.float32) / np.maximum(np.linalg.norm(features, axis=-1, keepdims=True), 1e-12)
    alike = likeness(unit.reshape(pictures, -1, depth), config.threshold)
    searches = [_Search(*each, config) for each in zip(unit, alike, strict=True)]
    for _ in range(TRIES * config.masks):
        nodes = np.stack([search.nodes() for search in searches])
        if not nodes.any():
            break
        for search, cut in zip(searches, best_cuts(alike, nodes), strict=True):
            search.take(cut)
    return [search.found for search in searches]


class _Search:
    """What was found in one picture, and what is left of it."""

    def __init__(self, unit: np.ndarray, alike: np.ndarray, config: MaskCutConfig) -> None:
        """Begin with features (rows, columns, D) of length 1 and their links (n, n)."""
        self._unit, self._alike, self._config = unit, alike, config
        self.found: list[Segment] = []
        # A patch that is like hardly any other is a stray: each would cost a cut of its own.
        self._left = (alike.sum(1) >= max(2, config.min_patches // 2)).reshape(unit.shape[:2])
        self._free = np.ones(unit.shape[:2], bool)

    def nodes(self) -> np.ndarray:
        """The patches to cut next, (n,) bool; none when the search is over."""
        enough = len(self.found) == self._config.masks or self._left.sum() < 2 * self._config.min_patches
        return np.zeros(self._left.size, bool) if enough else self._left.ravel()

    def take(self, cut: Cut) -> None:
        """Keep the segment that a cut of the patches left shows; the search is over if nothing stands out."""
        if cut.value > self._config.worst_cut:
            self._left[:] = False
            return
        least = self._config.min_patches
        side = _front(cut, self._left)
        pieces = _pieces(side, self._alike)
        seed = np.where(side.ravel(), np.abs(cut.place), -1).argmax()
        patches = _without_holes(pieces == pieces.flat[seed], least)
        patches = _with_settled_rim(patches & self._free, self._free, self._unit, self._config.threshold)
        if patches.sum() >= least:
            self.found.append(Segment(patches, cut.value))
            self._free &= ~patches
            self._left &= self._free
        self._left &= ~(side & (np.bincount(pieces.ravel())[pieces] < least))


def _front(cut: Cut, left: np.ndarray) -> np.ndarray:
    """The side of a cut of the patches `left` that is an object: it has fewer of the picture's corners, or stands out.

    (rows, columns) bool, both.
    """
    high = cut.high.reshape(left.shape)
    low = left & ~high
    corners = [int(side[[0, 0, -1, -1], [0, -1, 0, -1]].sum()) for side in (high, low)]
    if corners[0] != corners[1]:
        return high if corners[0] < corners[1] else low
    return high if high.flat[np.abs(cut.place).argmax()] else low


def _pieces(side: np.ndarray, alike: np.ndarray) -> np.ndarray:
    """A number for each patch, (rows, columns): the same for those of `side` joined by neighbours that are alike."""
    numbers = np.arange(side.size).reshape(side.shape)
    pairs = [(numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])]
    here, there = (np.concatenate([pair[end].ravel() for pair in pairs]) for end in (0, 1))
    linked = side.ravel()[here] & side.ravel()[there] & (alike[here, there] > 0)
    edges = coo_array((np.ones(linked.sum()), (here[linked], there[linked])), shape=alike.shape)
    _, pieces = connected_components(edges, directed=False)
    return np.asarray(pieces.reshape(side.shape))


def _without_holes(patches: np.ndarray, largest: int) -> np.ndarray:
    """Patches with their holes of fewer than `largest` patches filled: noise, not something seen through."""
    holes, _ = label(~patches)
    size = np.bincount(holes.ravel())
    return np.asarray(patches | (size < largest)[holes])


def _with_settled_rim(patches: np.ndarray, free: np.ndarray, unit: np.ndarray, threshold: float) -> np.ndarray:
    """Give the patches along a segment's edge to the segment or to what is around it: to what they are more like.

    A patch that shows both is linked to both, and the cut leaves it with the larger side, however little it shows.
    Only `free` patches (rows, columns) change sides; `unit` has their features.
    """
    inner = binary_erosion(patches, border_value=1)
    rim = binary_dilation(patches) & ~inner & free
    around = binary_dilation(patches, iterations=AROUND) & ~binary_dilation(patches) & free
    if not around.any():
        return patches
    inwards = unit[rim] @ _direction(unit[inner if inner.any() else patches])
    settled = patches.copy()
    settled[rim] = (inwards > threshold) & (inwards > unit[rim] @ _direction(unit[around]))
    return settled if settled.any() else patches


def _direction(unit: np.ndarray) -> np.ndarray:
    """The mean direction of features (n, D)."""
    mean = unit.mean(0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12))
