"""Where do several graphs fall apart most easily?

Takes graphs of one size as a stack of matrices, and cuts each in two along its second generalised eigenvector, at the
line with the smallest normalised cut: the share of the links of either side that lead across. All graphs go the same
way together; one whose solution is found costs nothing more, and what it gets does not depend on the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FAINT = 1e-5  # weight of a link between nodes that are not alike: it keeps a graph in one piece
ACCURACY = 1e-4  # of the eigenvector; where the line is drawn along it is judged by the cut itself
LOOK, MOST = 4, 64  # steps until it is asked whether the eigenvector is found, and those after which it is taken as is
LINES = 32  # places along the eigenvector at which a cut is tried


@dataclass(frozen=True, slots=True)
class Cut:
    """A graph in two parts."""

    high: np.ndarray  # (n,) bool, the nodes above the line
    place: np.ndarray  # (n,) where each node lies along the eigenvector; 0 if it takes no part
    value: float  # normalised cut, 0 to 2; infinite if there is nothing to cut


def likeness(unit: np.ndarray, threshold: float) -> np.ndarray:
    """1 where two features of unit length, of (B, n, D), have a cosine above `threshold`, else 0; (B, n, n) float32."""
    cosine = unit @ unit.swapaxes(1, 2)
    return np.asarray(np.greater(cosine, threshold, out=cosine))


def best_cuts(alike: np.ndarray, nodes: np.ndarray) -> list[Cut]:
    """The best cut of each graph along its eigenvector.

    Args:
        alike: (B, n, n) float32, 1 where two nodes are linked and 0 where faintly.
        nodes: (B, n) bool, which of them take part. A graph without any costs nothing.
    """
    going = np.asarray(nodes.any(1))
    degree = _degrees(alike, nodes, going)
    place = second_eigenvectors(alike, nodes, degree)
    least, most = place.min(1, where=nodes, initial=np.inf), place.max(1, where=nodes, initial=-np.inf)
    lines = np.linspace(np.where(going, least, 0), np.where(going, most, 0), LINES + 2, axis=1)[:, 1:-1]
    high = (place[:, None] > lines[..., None]) & nodes[:, None]
    sides = high.astype(np.float32)
    links = (sides * _linked(sides, alike, going)).sum(2, dtype=np.float64)
    count = high.sum(2)
    within = FAINT * count**2.0 + (1 - FAINT) * links
    volume, whole = np.einsum("bln,bn->bl", high, degree), degree.sum(1, keepdims=True)
    across = np.maximum(volume - within, 0)
    value = across / np.maximum(volume, 1e-12) + across / np.maximum(whole - volume, 1e-12)
    value[(count == 0) | (count == nodes.sum(1, keepdims=True))] = np.inf
    best = value.argmin(1)
    return [Cut(high[graph, line], place[graph], float(value[graph, line])) for graph, line in enumerate(best)]


def second_eigenvectors(alike: np.ndarray, nodes: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """The second smallest solution of (D - W) y = λ D y of each graph, with W = 1 where alike, else FAINT; (B, n).

    The same as the second largest eigenvector of D^-1/2 W D^-1/2, whose largest is known; found by Lanczos' method,
    which needs products with the matrix only. The faint links have rank one and are never written out. The zeros and
    ones are a plain matrix: a uniform background fills most of it, and at three quarters of ones a plain product took
    a fifth of the time of a sparse one. Zero where the eigenvalue is below zero: such a graph has no cut below 1.
    """
    shrink = np.divide(1, np.sqrt(degree), out=np.zeros(nodes.shape), where=nodes)
    ways = np.zeros((len(nodes), MOST + 2, nodes.shape[1]))  # of length 1, at right angles, the known solution first
    ways[:, 0], _ = _unit(np.sqrt(degree))
    start = np.where(nodes, np.random.default_rng(0).standard_normal(nodes.shape[1]), 0)
    ways[:, 1], _ = _unit(_apart(start, ways[:, :1]))
    reduced = np.zeros((len(nodes), MOST + 1, MOST + 1))  # the matrix, as the ways gone so far see it
    solution, going = np.zeros(nodes.shape), np.asarray(nodes.any(1))
    for step in range(1, MOST + 1):
        gone = ways[:, : step + 1]
        shrunk = shrink * gone[:, -1]
        linked = _linked(shrunk[:, None].astype(np.float32), alike, going)[:, 0]
        onwards = shrink * ((1 - FAINT) * linked + FAINT * shrunk.sum(1, keepdims=True))
        reduced[:, step - 1, step - 1] = np.einsum("bn,bn->b", gone[:, -1], onwards)
        ways[:, step + 1], length = _unit(_apart(_apart(onwards, gone), gone))
        reduced[:, step - 1, step] = reduced[:, step, step - 1] = length
        if step % LOOK:
            continue
        _, vectors = np.linalg.eigh(reduced[:, :step, :step])
        found = going & ((length * np.abs(vectors[:, -1, -1]) <= ACCURACY) | (step == MOST))
        solution[found] = shrink[found] * np.einsum("bs,bsn->bn", vectors[found, :, -1], gone[found, 1:])
        going &= ~found
        if not going.any():
            break
    return solution


def _degrees(alike: np.ndarray, nodes: np.ndarray, going: np.ndarray) -> np.ndarray:
    """The weight of all links of each node, (B, n); 0 for those that take no part."""
    linked = _linked(nodes[:, None].astype(np.float32), alike, going)[:, 0]
    return np.where(nodes, FAINT * nodes.sum(1, keepdims=True) + (1 - FAINT) * linked.astype(np.float64), 0)


def _linked(vectors: np.ndarray, alike: np.ndarray, going: np.ndarray) -> np.ndarray:
    """Vectors (B, k, n) times symmetric matrices (B, n, n), of graphs that are `going`; the others get zeros."""
    product = np.zeros(vectors.shape, np.float32)
    edges = np.flatnonzero(np.diff(going, prepend=False, append=False))
    for begin, end in edges.reshape(-1, 2):  # as few stacks as can be had without copying matrices
        np.matmul(vectors[begin:end], alike[begin:end], out=product[begin:end])
    return product


def _apart(vectors: np.ndarray, others: np.ndarray) -> np.ndarray:
    """What is left of vectors (B, n) without their parts along `others` (B, k, n)."""
    along = others @ vectors[..., None]
    return vectors - (others.swapaxes(1, 2) @ along)[..., 0]


def _unit(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (B, n) at length 1, and their lengths (B,); one without any stays as it is."""
    length = np.linalg.norm(vectors, axis=1)
    some = length > 1e-9
    return vectors / np.where(some, length, 1)[:, None], np.where(some, length, 0)
