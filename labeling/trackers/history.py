"""What was seen a moment ago?

Keeps the observations of the last few frames back, so that short gaps between two sightings can still be filled and
an object's speed can be averaged over the frames around.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from labeling.trackers import Observation
from labeling.trackers.kalman import PointFilter, project
from labeling.trackers.template import Template
from labeling.trackers.views import View

SMOOTHING = 4  # frames ahead over which an object's speed is averaged
FILLED = 0.3  # score of an interpolated observation


@dataclass
class _Record:
    """One frame that waits to be given out."""

    index: int
    shape: tuple[int, int]
    camera: np.ndarray
    observations: dict[int, Observation] = field(default_factory=dict)
    centres: dict[int, np.ndarray] = field(default_factory=dict)  # only where they were measured
    velocities: dict[int, np.ndarray] = field(default_factory=dict)


class History:
    """The last frames' observations."""

    def __init__(self, longest_gap: int) -> None:
        """Keep what is needed to fill gaps of up to `longest_gap` frames."""
        self._longest_gap = longest_gap
        self._records: deque[_Record] = deque()

    def open(self, view: View) -> None:
        """Begin a frame."""
        self._records.append(_Record(view.index, view.shape, view.camera))

    def add(self, observation: Observation, motion: PointFilter, measured: bool) -> None:
        """Add to the frame that was opened last."""
        record = self._records[-1]
        record.observations[observation.track] = observation
        if measured:
            record.centres[observation.track] = motion.position.copy()
            record.velocities[observation.track] = motion.velocity.copy()

    def forget(self) -> None:
        """Drop all but the last frames that a gap could reach back to."""
        while len(self._records) > self._longest_gap:
            self._records.popleft()

    def release(self, before: int | None = None) -> Iterator[Observation]:
        """Give out the frames up to index `before`, or all that are left."""
        while self._records and (before is None or self._records[0].index < before - SMOOTHING):
            ahead = [self._records[i] for i in range(min(SMOOTHING + 1, len(self._records)))]
            record = self._records.popleft()
            for number in sorted(record.observations):
                velocities = [r.velocities[number] for r in ahead if number in r.velocities]
                speed = math.hypot(*np.sum(velocities, axis=0)) / len(velocities) if velocities else 0.0
                yield replace(record.observations[number], motion=speed)

    def fill_gap(self, number: int, template: Template, centre: np.ndarray) -> None:
        """Interpolate a track between its last measured place and `centre` on the frame that was opened last."""
        gap = 0
        while gap + 1 < len(self._records) and number not in self._records[-2 - gap].centres:
            gap += 1
        if not 0 < gap <= self._longest_gap or gap + 1 >= len(self._records):
            return
        start = self._records[-2 - gap].centres[number]
        forward = [start := project(self._records[k].camera, start) for k in range(-1 - gap, -1)]
        end, backward = centre, []
        for k in range(-1, -1 - gap, -1):
            end = project(np.linalg.inv(self._records[k].camera), end)
            backward.append(end)
        for step, (early, late) in enumerate(zip(forward, reversed(backward), strict=True), 1):
            share = step / (gap + 1)
            record = self._records[-2 - gap + step]
            mask = template.mask((1 - share) * early + share * late, *record.shape)
            if mask is not None:
                record.observations[number] = Observation(record.index, number, mask, FILLED, 0.0)
