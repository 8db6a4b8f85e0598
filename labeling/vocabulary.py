"""Which things are the same?

Takes embeddings of tracks from all videos of a folder, (M, D), and returns a Vocabulary: categories without names, each
with a prototype. New embeddings join known categories; what fits nowhere stays unassigned (-1) and is said so. A
category's id is its row: `keep_ids` gives categories that were found anew the ids that they had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from pydantic import BaseModel, Field

from labeling.recipe import digest
from labeling.tracks import UNASSIGNED

VERSION = 1
MARGIN = 1.5  # a new view of a known thing lies a little farther out than those that were seen
GONE = -1.0  # radius of a category that is gone: nothing is that near


class VocabularyConfig(BaseModel, frozen=True, extra="forbid"):
    """How categories are found."""

    sample: int = Field(6_000, ge=100, description="At most this many embeddings of a folder are clustered.")
    components: int = Field(32, ge=2, description="Dimensions kept by the PCA before clustering.")
    min_cluster_size: int = Field(8, ge=2, description="Fewer views than this do not make a category of their own.")
    merge_distance: float = Field(
        0.4, ge=0, le=2, description="Clusters nearer than this (distance of unit vectors) are one category."
    )


@dataclass(frozen=True)
class Vocabulary:
    """Categories found in a folder of videos."""

    prototypes: np.ndarray  # (K, D) float32, unit length: the averaged normalised embeddings
    radius: np.ndarray  # (K,) float32, cosine distance up to which an embedding belongs; GONE: none does
    size: np.ndarray  # (K,) int64, embeddings that made the category
    mean: np.ndarray  # (D,) float32, of the fitted PCA
    axes: np.ndarray  # (C, D) float32, of the fitted PCA
    note: str  # what happened, in words

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit one another."""
        kinds, width = len(self.prototypes), self.mean.shape[-1] if self.mean.ndim else 0
        shapes = {"prototypes": (kinds, width), "radius": (kinds,), "size": (kinds,), "axes": (len(self.axes), width)}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"vocabulary: {name} has shape {getattr(self, name).shape}, expected {shape}")

    @property
    def fingerprint(self) -> str:
        """Hash of what decides an assignment."""
        return digest(version=VERSION, prototypes=self.prototypes.tobytes().hex(), radius=self.radius.tobytes().hex())

    @property
    def alive(self) -> np.ndarray:
        """Which categories there are, (K,) bool; the others are gone, and have a row so that nothing gets their id."""
        return self.radius >= 0

    def assign(self, embeddings: np.ndarray) -> np.ndarray:
        """Return the category of each embedding, (M,) int32, or -1 where none is near enough."""
        if not self.alive.any() or not len(embeddings):
            return np.full(len(embeddings), UNASSIGNED, np.int32)
        distance = np.where(self.alive, 1.0 - unit(embeddings) @ self.prototypes.T, np.inf)
        nearest = distance.argmin(1)
        near = distance[np.arange(len(nearest)), nearest] <= self.radius[nearest]
        return np.where(near, nearest, UNASSIGNED).astype(np.int32)

    def project(self, embeddings: np.ndarray) -> np.ndarray:
        """The first two principal components of embeddings, (M, 2), for a scatter plot."""
        plane = np.zeros((len(embeddings), 2), np.float32)
        axes = self.axes[:2]
        plane[:, : len(axes)] = (embeddings - self.mean) @ axes.T
        return plane


def discover(embeddings: np.ndarray, config: VocabularyConfig) -> Vocabulary:
    """Group embeddings (M, D) with PCA and HDBSCAN.

    Fewer than two times ``config.min_cluster_size`` make one category: HDBSCAN would call them all noise.
    """
    vectors = unit(np.asarray(embeddings, np.float32))
    if not len(vectors):
        empty = np.zeros((0, vectors.shape[1]), np.float32)
        return Vocabulary(
            empty, np.zeros(0, np.float32), np.zeros(0, np.int64), empty.sum(0), empty, "nothing to group"
        )
    mean, axes = _principal_axes(vectors, config.components)
    labels, note = _cluster(vectors, (vectors - mean) @ axes.T, config)
    least = config.merge_distance**2 / 2  # as a cosine distance: what would have been merged belongs
    prototypes, radius, size = [], [], []
    for label in range(labels.max() + 1):
        members = vectors[labels == label]
        prototype = unit(members.mean(0, keepdims=True))[0]
        prototypes.append(prototype)
        radius.append(max(least, MARGIN * float(np.max(1.0 - members @ prototype))))
        size.append(len(members))
    return Vocabulary(
        np.asarray(prototypes, np.float32), np.asarray(radius, np.float32), np.asarray(size, np.int64), mean, axes, note
    )


def keep_ids(known: Vocabulary, found: Vocabulary, distance: float) -> Vocabulary:
    """Categories that were `found` anew, with the ids of those `known` that persist.

    One persists if a prototype within `distance` of its own was found; nearest ones first. New categories get ids that
    were never used, the largest first. What was not found again is gone: it keeps its row, and has its id back should
    its like ever be found. Prototypes of other dimensions cannot be compared: then all ids are those of `found`.
    """
    if not len(found.prototypes):
        nobody = np.full_like(known.radius, GONE)
        return replace(known, radius=nobody, size=np.zeros_like(known.size), note=found.note)
    if known.prototypes.shape[1] != found.prototypes.shape[1]:
        return found
    ids = np.full(len(found.prototypes), UNASSIGNED)
    for candidates in (known.alive, ~known.alive):
        _match(ids, found.prototypes, known.prototypes, np.flatnonzero(candidates), distance)
    new = np.flatnonzero(ids == UNASSIGNED)
    ids[new] = len(known.prototypes) + np.arange(len(new))
    prototypes = np.concatenate([known.prototypes, found.prototypes[new]])
    radius = np.full(len(prototypes), GONE, known.radius.dtype)
    size = np.zeros(len(prototypes), known.size.dtype)
    prototypes[ids], radius[ids], size[ids] = found.prototypes, found.radius, found.size
    gone = int((known.alive & (radius[: len(known.radius)] < 0)).sum())
    changes = "".join(f", {count} {what}" for count, what in ((len(new), "new"), (gone, "gone")) if count)
    return replace(found, prototypes=prototypes, radius=radius, size=size, note=found.note + changes)


def _match(ids: np.ndarray, found: np.ndarray, known: np.ndarray, candidates: np.ndarray, distance: float) -> None:
    """Give prototypes that have no id yet those of the `candidates` of `known` that they lie nearest to."""
    from scipy.optimize import linear_sum_assignment

    strangers = np.flatnonzero(ids == UNASSIGNED)
    apart = np.linalg.norm(found[strangers, None] - known[None, candidates], axis=2)
    # Pairs that are too far apart all cost the same, so no near pair is given up to make two of them.
    rows, columns = linear_sum_assignment(np.minimum(apart, distance))
    near = apart[rows, columns] <= distance
    ids[strangers[rows[near]]] = candidates[columns[near]]


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows scaled to unit length; zero rows stay zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(length, 1e-12)).astype(np.float32)


def _principal_axes(vectors: np.ndarray, components: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.decomposition import PCA

    if len(vectors) == 1:
        return vectors[0], np.zeros((0, vectors.shape[1]), np.float32)
    count = min(components, *vectors.shape)
    fitted = PCA(count, svd_solver="full").fit(vectors)
    return fitted.mean_.astype(np.float32), fitted.components_.astype(np.float32)


def _cluster(vectors: np.ndarray, points: np.ndarray, config: VocabularyConfig) -> tuple[np.ndarray, str]:
    """A label for each of the vectors (M, D), whose principal components are `points`; -1 for noise. And what happened.

    The largest category comes first.
    """
    from hdbscan import HDBSCAN

    everything = np.zeros(len(points), int)
    if len(points) < 2 * config.min_cluster_size:
        return everything, f"only {len(points)} views: all are one category"
    found = HDBSCAN(
        min_cluster_size=config.min_cluster_size,
        cluster_selection_epsilon=config.merge_distance / 2,
        allow_single_cluster=True,
        core_dist_n_jobs=1,
    ).fit_predict(points)
    if (found < 0).all():
        return everything, "no group stands out: all views are one category"
    found = _merged(vectors, found, config.merge_distance)
    kinds, counts = np.unique(found[found >= 0], return_counts=True)
    order = kinds[np.lexsort((kinds, -counts))]
    rank = np.full(kinds.max() + 2, UNASSIGNED)
    rank[order] = np.arange(len(order))
    noise = int((found < 0).sum())
    return rank[found], f"{len(order)} categories from {len(points)} views, {noise} views fit none"


def _merged(vectors: np.ndarray, labels: np.ndarray, distance: float) -> np.ndarray:
    """Labels (M,) in which clusters whose prototypes all lie within `distance` of one another are one.

    All of them, and not just the nearest two: in a folder of many kinds of things, chains of likeness lead anywhere.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    count = labels.max() + 1
    if count < 2:
        return labels
    prototypes = unit(np.stack([vectors[labels == label].mean(0) for label in range(count)]))
    group = fcluster(linkage(prototypes, "complete"), distance, "distance")
    return np.where(labels >= 0, group[labels] - 1, UNASSIGNED)
