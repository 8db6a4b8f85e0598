"""What has been seen, and may it be told yet?

An object that is found late is followed back, so what is seen on a frame is held until nobody looks back at it. Then it
goes out in frame order, under numbers in order of appearance, with its speed against the scene.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from labeling.geometry import centre_of_mass
from labeling.masks import Mask
from labeling.trackers import Observation

SHORT = 10  # frames over which an object's motion is that from where it was seen before


@dataclass(frozen=True, slots=True)
class Sighting:
    """One object on one frame."""

    mask: Mask
    score: float  # 0 to 1
    looks: np.ndarray | None = None  # (D,) unit length


class Held:
    """Sightings of the last frames, by frame and object."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._frames: dict[int, tuple[np.ndarray, dict[int, Sighting]]] = {}  # camera, sightings by object
        self._numbers: dict[int, int] = {}  # object -> number of its track
        self._last: dict[int, tuple[int, np.ndarray]] = {}  # object -> last frame and centre, moved with the camera

    def expect(self, frame: int, camera: np.ndarray) -> None:
        """Make room for a frame; `camera` (3, 3) leads from the frame before to it."""
        self._frames[frame] = camera, {}

    def add(self, frame: int, number: int, sighting: Sighting) -> None:
        """Note, or note anew, what is seen of an object on a frame that was expected and not yet released."""
        self._frames[frame][1][number] = sighting

    def on(self, frame: int) -> dict[int, Sighting]:
        """What is seen on a frame, by object."""
        return self._frames[frame][1]

    def both(self, first: int, second: int, frames: range | None = None) -> dict[int, tuple[Sighting, Sighting]]:
        """The held frames, or those of a range, on which two objects are seen, with what is seen of each."""
        seen = {frame: self._frames[frame][1] for frame in (self._frames if frames is None else frames)}
        return {frame: (here[first], here[second]) for frame, here in seen.items() if first in here and second in here}

    def forget(self, number: int, begin: int) -> None:
        """Take back what was seen of an object from a frame on."""
        for frame, (_, seen) in self._frames.items():
            if frame >= begin:
                seen.pop(number, None)

    def rename(self, number: int, known: int) -> None:
        """Two objects were one: what was seen of the first is of the other, where that has no sighting of its own."""
        for _, seen in self._frames.values():
            if number in seen:
                seen.setdefault(known, seen.pop(number))

    def release(self, stop: int | None = None) -> Iterator[Observation]:
        """Give away the frames before `stop`, or all."""
        for frame in sorted(self._frames):
            if stop is not None and frame >= stop:
                return
            camera, seen = self._frames.pop(frame)
            self._last = {
                number: (last, _moved(camera, centre))
                for number, (last, centre) in self._last.items()
                if frame - last <= SHORT
            }
            for number in sorted(seen):
                sighting = seen[number]
                track = self._numbers.setdefault(number, len(self._numbers))
                centre = centre_of_mass(sighting.mask)
                last, before = self._last.get(number, (frame - 1, centre))
                speed = float(np.linalg.norm(centre - before)) / (frame - last)
                self._last[number] = frame, centre
                yield Observation(frame, track, sighting.mask, sighting.score, speed, sighting.looks)


def _moved(camera: np.ndarray, point: np.ndarray) -> np.ndarray:
    x, y, w = camera @ np.array([*point, 1.0])
    return np.array([x / w, y / w])
