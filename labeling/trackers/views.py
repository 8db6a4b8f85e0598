"""What is there to match on a frame?

Turns proposals into blobs that carry what matching asks for: centre, area and looks. Scenes end at cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from labeling.embeddings import Embedder
from labeling.geometry import centre_of_mass
from labeling.masks import Mask
from labeling.proposals import FrameProposals

WHOLE_PICTURE = 0.7  # share of the frame from which on a proposal is a change of light or of the scene, not an object


@dataclass(frozen=True)
class Blob:
    """A proposal, or several joined, with what the matching needs to know of it."""

    mask: Mask
    score: float
    centre: np.ndarray  # (2,)
    area: float
    describe: Callable[[], np.ndarray]  # (D,) looks
    pieces: int = 1
    offset: np.ndarray | None = None  # (2,) from its first piece to its second

    @cached_property
    def looks(self) -> np.ndarray:
        """What it looks like, (D,): worked out when somebody asks, as most blobs are known by their place."""
        return self.describe()

    @property
    def described(self) -> bool:
        """Did somebody ask?"""
        return "looks" in self.__dict__


@dataclass(frozen=True)
class View:
    """One frame as the tracker sees it."""

    index: int
    image: np.ndarray  # (H, W, 3) RGB
    blobs: list[Blob]
    camera: np.ndarray  # (3, 3) last frame's pixels -> this frame's
    cut: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the frame."""
        return self.image.shape[0], self.image.shape[1]


def views(frames: Iterable[FrameProposals], embedder: Embedder) -> Iterator[View]:
    """Look at the frames one after another."""
    for proposals in frames:
        image = proposals.frame.image
        most = WHOLE_PICTURE * image.shape[0] * image.shape[1]
        kept = [(p, area) for p in proposals.proposals if (area := p.mask.area) < most]
        blobs = [blob_of(p.mask, p.score, image, embedder, area) for p, area in kept]
        yield View(proposals.frame.index, image, blobs, proposals.camera, proposals.cut)


def scenes(stream: Iterable[View]) -> Iterator[Iterator[View]]:
    """Split a stream at its cuts; each scene must be read to its end before the next is asked for."""
    source = iter(stream)
    first = next(source, None)

    def scene(head: View) -> Iterator[View]:
        nonlocal first
        yield head
        for view in source:
            if view.cut:
                first = view
                return
            yield view
        first = None

    while first is not None:
        yield scene(first)


def blob_of(mask: Mask, score: float, image: np.ndarray, embedder: Embedder, area: float | None = None) -> Blob:
    """A blob of one mask, of `area` if that is known."""
    centre = centre_of_mass(mask).astype(np.float64)
    area = mask.area if area is None else area
    return Blob(mask, score, centre, area, lambda: embedder.embed(image, [mask])[0])


def joined(first: Blob, second: Blob, image: np.ndarray, embedder: Embedder) -> Blob:
    """Two pieces as one blob."""
    pieces = first.pieces + second.pieces
    whole = blob_of(union(first.mask, second.mask), max(first.score, second.score), image, embedder)
    return replace(whole, pieces=pieces, offset=second.centre - first.centre if first.offset is None else first.offset)


def union(first: Mask, second: Mask) -> Mask:
    """What either of two masks covers."""
    ax1, ay1, ax2, ay2 = first.bounds
    bx1, by1, bx2, by2 = second.bounds
    x1, y1, x2, y2 = min(ax1, bx1), min(ay1, by1), max(ax2, bx2), max(ay2, by2)
    coverage = np.zeros((y2 - y1, x2 - x1), np.uint8)
    for mask in (first, second):
        left, top, right, bottom = mask.bounds
        part = coverage[top - y1 : bottom - y1, left - x1 : right - x1]
        np.maximum(part, mask.coverage, out=part)
    return Mask(x1, y1, coverage)
