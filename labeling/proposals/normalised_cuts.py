"""Which patches of a picture belong together?

Takes the features of a picture's patches, (rows, columns, D), and returns its segments: sets of patches that are alike
and stand out from the rest. Patches are the nodes of a graph, linked where their features point the same way; a
segment is one side of the graph's best normalised cut. What was found is taken out and the rest is cut again, until
nothing stands out any more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_dilation, binary_erosion, label
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh

from labeling.proposals.maskcut import MaskCutConfig

FAINT = 1e-5  # weight of a link between patches that are not alike: it keeps the graph in one piece
ACCURACY = 1e-3  # of the eigenvector; where the line is drawn along it is judged by the cut itself
LINES = 32  # places along the eigenvector at which a cut is tried
AROUND = 4  # patches around a segment that show what it stands out from
TRIES = 3  # cuts made for each mask that is wanted: some only shed stray patches


@dataclass(frozen=True, slots=True)
class Segment:
    """Patches that belong together."""

    patches: np.ndarray  # (rows, columns) bool
    cut: float  # normalised cut, 0 to 2: what share of the links of either side lead across. Small is good


@dataclass(frozen=True, slots=True)
class _Cut:
    """A graph in two parts."""

    high: np.ndarray  # (n,) bool, the side above the line
    place: np.ndarray  # (n,) where each node lies along the eigenvector
    value: float


def find_segments(features: np.ndarray, config: MaskCutConfig) -> list[Segment]:
    """The segments of a picture, what stands out most first; none if it is all alike."""
    rows, columns, depth = features.shape
    unit = features.astype(np.float32) / np.maximum(np.linalg.norm(features, axis=-1, keepdims=True), 1e-12)
    alike = likeness(unit.reshape(-1, depth), config.threshold)
    # A patch that is like hardly any other is a stray: each would cost a cut of its own.
    left = (alike.sum(1) >= max(2, config.min_patches // 2)).reshape(rows, columns)
    free = np.ones((rows, columns), bool)
    found: list[Segment] = []
    for _ in range(TRIES * config.masks):
        nodes = np.flatnonzero(left)
        if len(found) == config.masks or len(nodes) < 2 * config.min_patches:
            break
        cut = best_cut(alike if len(nodes) == len(alike) else alike[np.ix_(nodes, nodes)])
        if cut.value > config.worst_cut:
            break
        front = _front(cut, nodes, rows, columns)
        seed = nodes[front][np.abs(cut.place[front]).argmax()]
        side = np.zeros((rows, columns), bool)
        side.flat[nodes[front]] = True
        pieces = _pieces(side, alike)
        patches = _without_holes(pieces == pieces.flat[seed], config.min_patches)
        patches = _with_settled_rim(patches & free, free, unit, config.threshold)
        if patches.sum() >= config.min_patches:
            found.append(Segment(patches, cut.value))
            free = free & ~patches
            left = left & free
        left = left & ~(side & (np.bincount(pieces.ravel())[pieces] < config.min_patches))
    return found


def likeness(unit: np.ndarray, threshold: float) -> np.ndarray:
    """1 where two features of unit length, of (n, D), have a cosine above `threshold`, else 0; (n, n) float32."""
    return np.asarray(unit @ unit.T > threshold, np.float32)


def best_cut(alike: np.ndarray) -> _Cut:
    """The normalised cut along the graph's second smallest generalised eigenvector."""
    size = len(alike)
    degree = FAINT * size + (1 - FAINT) * alike.sum(1, dtype=np.float64)
    place = second_eigenvector(alike, degree)
    lines = np.linspace(place.min(), place.max(), LINES + 2)[1:-1]
    sides = (place[:, None] > lines).astype(np.float32)
    links = np.einsum("ij,ij->j", sides, alike @ sides, dtype=np.float64)
    within = FAINT * sides.sum(0, dtype=np.float64) ** 2 + (1 - FAINT) * links
    volume, whole = degree @ sides, degree.sum()
    across = np.maximum(volume - within, 0)
    value = across / np.maximum(volume, 1e-12) + across / np.maximum(whole - volume, 1e-12)
    best = int(value.argmin())
    return _Cut(place > lines[best], place, float(value[best]))


def second_eigenvector(alike: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """The second smallest solution of (D - W) y = λ D y with W = 1 where alike and FAINT elsewhere, (n,).

    The same as the second largest eigenvector of D^-1/2 W D^-1/2, whose largest is known. The faint links are a rank
    one matrix and are never written out. The matrix of zeros and ones is kept as a plain one: a uniform background
    fills most of it, and at three quarters of ones a plain product took a fifth of the time of a sparse one.
    """
    size = len(alike)
    root = np.sqrt(degree)
    shrink = 1 / root
    first = root / np.linalg.norm(root)

    def spread(vector: np.ndarray) -> np.ndarray:
        vector = vector.ravel()
        shrunk = (shrink * vector).astype(np.float32)
        linked = (1 - FAINT) * (alike @ shrunk) + FAINT * shrunk.sum(dtype=np.float64)
        # Shifted by one, so that the solution is the largest in size as well; the known one is sent to zero.
        return np.asarray(shrink * linked + vector - 2 * first * (first @ vector))

    start = np.random.default_rng(0).standard_normal(size)
    operator = LinearOperator((size, size), matvec=spread, dtype=np.float64)
    _, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=ACCURACY)
    return np.asarray(shrink * vectors[:, 0])


def _front(cut: _Cut, nodes: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The side of a cut that is an object, (n,) bool: it holds fewer of the picture's corners, or else stands out."""
    corners = np.isin(nodes, [0, columns - 1, (rows - 1) * columns, rows * columns - 1])
    high, low = int((corners & cut.high).sum()), int((corners & ~cut.high).sum())
    if high != low:
        return cut.high if high < low else ~cut.high
    return cut.high if cut.high[np.abs(cut.place).argmax()] else ~cut.high


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
