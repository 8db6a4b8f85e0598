"""Which mask on this frame is which object of the frames before?

Takes proposals frame by frame and yields observations: each mask with the number of its track. Objects are predicted,
matched with the proposals by place, overlap and looks, told apart inside merged blobs, and remembered while hidden.
The state is that of the objects in view and of a few frames, so memory does not grow with the video.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from pydantic import BaseModel, Field
from scipy.optimize import linear_sum_assignment

from labeling.embeddings import Embedder
from labeling.geometry import centre_of_mass
from labeling.masks import Mask, intersection
from labeling.proposals import FrameProposals
from labeling.trackers import Observation
from labeling.trackers.kalman import PointFilter
from labeling.trackers.splitting import Part, Placement, Template, split

NEVER = 1e6  # cost of a pair that must not be matched
CONFIRMED = 3  # sightings after which a track is trusted to be an object
LOOKS_MEMORY = 0.1  # how fast the remembered looks follow the object
INSIDE = 0.5  # share of a predicted shape inside a component from which on the object may be merged into it
VISIBLE = 0.12  # share of an object that must be seen beside the others for its place to count as measured
SMOOTHING = 4  # frames to each side over which an object's motion is averaged


class AssociationConfig(BaseModel, extra="forbid", frozen=True):
    """Knobs of the association tracker."""

    patience: int = Field(20, ge=0, description="Frames for which a lost object is looked for where it would be")
    fill: int = Field(10, ge=0, description="Gaps of up to this many frames between two sightings are interpolated")
    strictness: float = Field(2.2, gt=0, description="Highest cost of a match; lower makes more and shorter tracks")


@dataclass
class _Track:
    """What is known about one object."""

    number: int
    motion: PointFilter
    template: Template
    looks: np.ndarray
    area: float
    sightings: int = 1
    unseen: int = 0  # frames since it was last found
    hidden: int = 0  # frames since it was last measured

    @property
    def size(self) -> float:
        return float(np.sqrt(self.area))


@dataclass
class _Record:
    """A frame that waits to be given out, so that short gaps before later sightings can still be filled."""

    index: int
    shape: tuple[int, int]
    observations: dict[int, Observation] = field(default_factory=dict)
    steps: dict[int, np.ndarray] = field(default_factory=dict)  # motion against the scene since the frame before


@dataclass
class _Blob:
    """A proposal with what the matching needs to know of it."""

    mask: Mask
    score: float
    centre: np.ndarray
    area: float
    looks: np.ndarray


class AssociationTracker:
    """Kalman prediction, linear assignment, and splitting of merged blobs by remembered shapes."""

    def __init__(self, config: AssociationConfig | None = None) -> None:
        """Set up with `config`, or the defaults."""
        self.config = config or AssociationConfig()

    def track(self, frames: Iterable[FrameProposals], embedder: Embedder) -> Iterator[Observation]:
        """Yield what is seen of each object, in frame order, a few frames behind the proposals."""
        state = _State(self.config)
        for proposals in frames:
            if proposals.cut:
                yield from state.flush()
                state.tracks.clear()
            state.step(proposals, embedder)
            yield from state.flush(keep=self.config.fill + SMOOTHING)
        yield from state.flush()


class _State:
    """The objects in view and the frames not given out yet, of one video."""

    def __init__(self, config: AssociationConfig) -> None:
        self.config = config
        self.tracks: list[_Track] = []
        self.records: deque[_Record] = deque()
        self.born = 0

    def flush(self, keep: int = 0) -> Iterator[Observation]:
        """Give out frames until `keep` of them are left."""
        while len(self.records) > keep:
            ahead = [self.records[i] for i in range(min(SMOOTHING + 1, len(self.records)))]
            record = self.records.popleft()
            for number in sorted(record.observations):
                steps = [r.steps[number] for r in ahead if number in r.steps]
                speed = float(np.linalg.norm(np.mean(steps, axis=0))) if steps else 0.0
                yield replace(record.observations[number], motion=speed)

    def step(self, proposals: FrameProposals, embedder: Embedder) -> None:
        """Take in one frame."""
        image = proposals.frame.image
        height, width = image.shape[:2]
        record = _Record(proposals.frame.index, (height, width))
        self.records.append(record)
        for track in self.tracks:
            track.motion.predict(proposals.camera)
            track.unseen += 1
            track.hidden += 1
        blobs = _blobs(proposals, embedder)
        shapes = [track.template.mask(track.motion.position, height, width) for track in self.tracks]
        owners = self._match(blobs, shapes)
        self._join_hidden(blobs, shapes, owners)
        self._join_fragments(blobs, shapes, owners, image, embedder)
        for blob, members in zip(blobs, owners, strict=True):
            if len(members) == 1:
                self._see(record, self.tracks[members[0]], blob, image)
            elif members:
                self._see_merged(record, [self.tracks[i] for i in members], blob, image)
        for blob, members in zip(blobs, owners, strict=True):
            if not members:
                self._begin(record, blob, image)
        self.tracks = [t for t in self.tracks if self._alive(t, height, width)]

    def _alive(self, track: _Track, height: int, width: int) -> bool:
        patience = self.config.patience if track.sightings >= CONFIRMED else 2
        x, y = track.motion.position
        inside = -track.size < x < width + track.size and -track.size < y < height + track.size
        return track.unseen <= patience and inside

    def _match(self, blobs: list[_Blob], shapes: list[Mask | None]) -> list[list[int]]:
        """For each blob the tracks that are in it, at most one so far."""
        owners: list[list[int]] = [[] for _ in blobs]
        if not blobs or not self.tracks:
            return owners
        cost = np.full((len(self.tracks), len(blobs)), NEVER)
        for i, (track, shape) in enumerate(zip(self.tracks, shapes, strict=True)):
            for j, blob in enumerate(blobs):
                cost[i, j] = _cost(track, shape, blob)
        for i, j in zip(*linear_sum_assignment(np.minimum(cost, self.config.strictness)), strict=True):
            if cost[i, j] < self.config.strictness:
                owners[j].append(int(i))
        return owners

    def _join_hidden(self, blobs: list[_Blob], shapes: list[Mask | None], owners: list[list[int]]) -> None:
        """Put tracks that found no blob of their own into the blob that covers where they should be."""
        found = {i for members in owners for i in members}
        for i, (track, shape) in enumerate(zip(self.tracks, shapes, strict=True)):
            if i in found or shape is None or track.sightings < CONFIRMED:
                continue
            covered = [
                intersection(shape, blob.mask) / max(shape.area, 1e-6) if owners[j] else 0.0
                for j, blob in enumerate(blobs)
            ]
            if covered and max(covered) >= INSIDE:
                owners[int(np.argmax(covered))].append(i)

    def _join_fragments(
        self,
        blobs: list[_Blob],
        shapes: list[Mask | None],
        owners: list[list[int]],
        image: np.ndarray,
        embedder: Embedder,
    ) -> None:
        """Join blobs without a track to a track's blob when they lie inside that track's expected shape."""
        for j in range(len(blobs) - 1, -1, -1):
            if owners[j]:
                continue
            for k, members in enumerate(owners):
                if len(members) != 1 or (shape := shapes[members[0]]) is None:
                    continue
                track = self.tracks[members[0]]
                inside = intersection(shape, blobs[j].mask) / max(blobs[j].area, 1e-6)
                together = blobs[j].area + blobs[k].area
                if inside > 0.6 and together < 1.3 * track.area and track.sightings >= CONFIRMED:
                    mask = _union(blobs[k].mask, blobs[j].mask)
                    blobs[k] = _Blob(
                        mask,
                        blobs[k].score,
                        centre_of_mass(mask).astype(float),
                        mask.area,
                        embedder.embed(image, [mask])[0],
                    )
                    del blobs[j], owners[j]
                    break

    def _begin(self, record: _Record, blob: _Blob, image: np.ndarray) -> None:
        motion = PointFilter(blob.centre, float(np.sqrt(blob.area)))
        track = _Track(self.born, motion, Template.remember(blob.mask, blob.centre, image), blob.looks, blob.area)
        self.born += 1
        self.tracks.append(track)
        record.observations[track.number] = Observation(
            record.index, track.number, blob.mask, blob.score, 0.0, blob.looks
        )

    def _see(self, record: _Record, track: _Track, blob: _Blob, image: np.ndarray) -> None:
        """A track has a blob for itself."""
        predicted = track.motion.position - track.motion.velocity
        clipped = _touches_border(blob.mask, record.shape)
        if not (clipped and blob.area < track.area):
            track.area += 0.3 * (blob.area - track.area)
            track.template = Template.remember(blob.mask, blob.centre, image)
            track.motion.size = track.size
        track.motion.update(blob.centre)
        looks = track.looks + LOOKS_MEMORY * (blob.looks - track.looks)
        track.looks = looks / np.linalg.norm(looks)
        self._found(record, track, blob.mask, blob.score, blob.looks, predicted)

    def _see_merged(self, record: _Record, tracks: list[_Track], blob: _Blob, image: np.ndarray) -> None:
        """Several tracks share a blob."""
        height, width = record.shape
        parts = [Part(t.template, t.motion.position, t.motion.deviation) for t in tracks]
        placements, _ = split(blob.mask, parts, image)
        for track, placement in zip(tracks, placements, strict=True):
            self._place(record, track, placement, blob, height, width)

    def _place(
        self, record: _Record, track: _Track, placement: Placement, blob: _Blob, height: int, width: int
    ) -> None:
        predicted = track.motion.position - track.motion.velocity
        seen = placement.alone >= VISIBLE
        if seen:
            track.motion.update(placement.centre, doubt=2.0 / max(placement.alone, 0.3))
        centre = placement.centre if seen else track.motion.position
        mask = track.template.mask(centre, height, width)
        if mask is None:
            return
        if seen:
            self._found(record, track, mask, blob.score * 0.8, None, predicted)
        elif track.hidden <= self.config.fill:
            track.unseen = 0
            record.observations[track.number] = Observation(record.index, track.number, mask, 0.2, 0.0)

    def _found(
        self, record: _Record, track: _Track, mask: Mask, score: float, looks: np.ndarray | None, before: np.ndarray
    ) -> None:
        gap = track.hidden - 1
        if 0 < gap <= self.config.fill:
            self._fill(track, gap)
        track.sightings += 1
        track.unseen = track.hidden = 0
        record.observations[track.number] = Observation(record.index, track.number, mask, score, 0.0, looks)
        record.steps[track.number] = track.motion.velocity.copy()

    def _fill(self, track: _Track, gap: int) -> None:
        """Interpolate the frames between two sightings."""


def _blobs(proposals: FrameProposals, embedder: Embedder) -> list[_Blob]:
    masks = [p.mask for p in proposals.proposals]
    looks = embedder.embed(proposals.frame.image, masks)
    return [
        _Blob(p.mask, p.score, centre_of_mass(p.mask).astype(float), p.mask.area, looks[j])
        for j, p in enumerate(proposals.proposals)
    ]


def _cost(track: _Track, shape: Mask | None, blob: _Blob) -> float:
    """How badly a blob fits a track, about 0 to 3; NEVER if it cannot be."""
    distance = float(np.linalg.norm(blob.centre - track.motion.position))
    gate = 0.5 * track.size + 3 * track.motion.deviation
    shared = intersection(shape, blob.mask) if shape is not None else 0.0
    area = shape.area if shape is not None else track.area
    overlap = shared / max(area + blob.area - shared, 1e-6)
    inside = shared / max(area, 1e-6)
    if distance > gate and inside < 0.3 and overlap < 0.1:
        return NEVER
    unlike = 1.0 - float(track.looks @ blob.looks)
    if unlike > 0.5 and inside < INSIDE:
        return NEVER
    growth = min(abs(float(np.log(blob.area / max(track.area, 1e-6)))), 1.5)
    return (
        1.0 - max(overlap, 0.6 * inside) + 0.5 * min(distance / gate, 2.0) + unlike + 0.3 * growth + 0.02 * track.unseen
    )


def _touches_border(mask: Mask, shape: tuple[int, int]) -> bool:
    x1, y1, x2, y2 = mask.bounds
    return x1 <= 0 or y1 <= 0 or x2 >= shape[1] or y2 >= shape[0]


def _union(first: Mask, second: Mask) -> Mask:
    ax1, ay1, ax2, ay2 = first.bounds
    bx1, by1, bx2, by2 = second.bounds
    x1, y1, x2, y2 = min(ax1, bx1), min(ay1, by1), max(ax2, bx2), max(ay2, by2)
    coverage = np.zeros((y2 - y1, x2 - x1), np.uint8)
    for mask in (first, second):
        left, top, right, bottom = mask.bounds
        view = coverage[top - y1 : bottom - y1, left - x1 : right - x1]
        np.maximum(view, mask.coverage, out=view)
    return Mask(x1, y1, coverage)
