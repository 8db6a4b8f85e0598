"""When is each track in view, and how do the views of a folder lie to one another?

Turns tracks into the bars of a timeline and embeddings into the points of a scatter plot: plain numbers that the page's
template draws as SVG.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeling.store import Store
from labeling.tracks import UNASSIGNED, Tracks
from labeling.vocabulary import unit
from labeling.zarr_io import complete_group, load

BARS = 150  # of one track; more cannot be told apart on a screen
POINTS = 2000  # of the scatter; more would make the page slow
PLOT = (720, 440)  # the scatter's width and height in SVG units
MARGIN = 18
STEPS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)


@dataclass(frozen=True)
class Bar:
    """A stretch of a track without a gap, placed in per mille of the video's time."""

    x: float
    width: float
    title: str


@dataclass(frozen=True)
class Lane:
    """One track in a timeline."""

    instance: int
    category: int
    share: float  # of the video's frames
    bars: list[Bar]


@dataclass(frozen=True)
class Point:
    """One view in the scatter."""

    x: float
    y: float
    category: int
    title: str


@dataclass(frozen=True)
class Scatter:
    """Views of all tracks of a store, in the plane of the vocabulary's first two principal axes."""

    points: list[Point]
    centres: list[Point]  # the categories' prototypes
    views: int  # how many there are in all
    width: int = PLOT[0]
    height: int = PLOT[1]


def lane(tracks: Tracks, index: int, seconds: float, fps: float) -> Lane:
    """The timeline of one track of a video that lasts `seconds`."""
    present = tracks.present[:, index]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], present.astype(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2] - 1
    if len(starts) > BARS:  # the shortest gaps would be too thin to see
        gaps = starts[1:] - ends[:-1]
        wide = np.sort(np.argsort(-gaps, kind="stable")[: BARS - 1])
        starts, ends = starts[np.concatenate([[0], wide + 1])], ends[np.concatenate([wide, [len(ends) - 1]])]
    bars = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        begin, finish = float(tracks.time[start]), float(tracks.time[end]) + 1 / fps
        x, width = 1000 * begin / seconds, max(2.5, 1000 * (finish - begin) / seconds)
        frames = f"frame {start}" if start == end else f"frames {start} to {end}"
        bars.append(Bar(round(x, 1), round(width, 1), f"{frames}, {begin:.2f} s to {finish:.2f} s"))
    return Lane(int(tracks.instance[index]), int(tracks.category[index]), float(present.mean()), bars)


def ticks(seconds: float) -> list[tuple[float, str]]:
    """About five round times on an axis of `seconds`: where in per cent, and what stands there."""
    step = next((step for step in STEPS if seconds / step <= 6), 3600 * np.ceil(seconds / 6 / 3600))
    return [(100 * at / seconds, _clock(at, step)) for at in np.arange(0, seconds, step) if at < 0.97 * seconds]


def scatter(store: Store) -> Scatter | None:
    """The scatter of a store's views, or None if it has no vocabulary or no views."""
    words = store.vocabulary
    if words is None or not len(words.axes):
        return None
    merged = store.review.into if store.review else {}
    places: list[np.ndarray] = []
    kinds: list[np.ndarray] = []
    titles: list[str] = []
    for id in store:
        stage = complete_group(store.root, f"stages/{id}")
        if stage is None:  # labels that were imported
            continue
        embedding, owner = load(stage, "embedding"), load(stage, "embedding_track")
        if not len(owner):
            continue
        kind = np.full(len(owner), UNASSIGNED)
        for track in np.unique(owner):
            own = owner == track
            found = int(words.assign(embedding[own].mean(0, keepdims=True))[0])
            kind[own] = merged.get(found, found)
        places.append(words.project(unit(embedding)))
        kinds.append(kind)
        titles += [store[id].source] * len(owner)
    if not places:
        return None
    plane, kind = np.concatenate(places), np.concatenate(kinds)
    chosen = np.linspace(0, len(plane) - 1, min(POINTS, len(plane))).round().astype(int)
    centres = words.project(words.prototypes)
    shown = np.concatenate([plane[chosen], centres])
    low, span = shown.min(0), np.maximum(np.ptp(shown, axis=0), 1e-6)

    def point(place: np.ndarray, category: int, title: str) -> Point:
        x, y = MARGIN + (place - low) / span * (np.array(PLOT) - 2 * MARGIN)
        return Point(round(float(x), 1), round(float(PLOT[1] - y), 1), category, title)

    points = [point(plane[i], int(kind[i]), titles[i]) for i in chosen]
    return Scatter(points, [point(place, merged.get(k, k), "") for k, place in enumerate(centres)], len(plane))


def _clock(seconds: float, step: float) -> str:
    if step >= 60:
        return f"{int(seconds // 60)}:{int(seconds % 60):02d} min"
    return f"{seconds:g} s" if step >= 1 else f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"
