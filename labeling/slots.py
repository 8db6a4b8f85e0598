"""Which place does an object have where every video must have the same ones?

Flat columns hold so many objects a row, no matter which video it is of. Each kind of thing gets a fixed number of
places, so that a place always means the same kind; what is not there leaves its place empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

NO_ROOM = -1  # the place of an object that there is none for


class Places:
    """A fixed number of places for each kind of thing."""

    def __init__(self, room: Mapping[int, int]) -> None:
        """Lay out the places: `room` says how many each kind has, in the order in which they stand."""
        self.category = [kind for kind, count in room.items() for _ in range(count)]  # of each place
        self._of = {kind: [i for i, one in enumerate(self.category) if one == kind] for kind in room}

    def __len__(self) -> int:
        return len(self.category)

    def places(self, category: np.ndarray) -> np.ndarray:
        """The place of each of a video's objects, (N,), the first of a kind first; NO_ROOM where no place is left."""
        taken: Counter[int] = Counter()
        places = np.full(len(category), NO_ROOM)
        for index, kind in enumerate(category.tolist()):
            room = self._of.get(kind, [])
            if taken[kind] < len(room):
                places[index] = room[taken[kind]]
            taken[kind] += 1
        return places

    def spread(self, values: np.ndarray, places: np.ndarray, fill: float) -> np.ndarray:
        """Values of objects (T, N, ...) at their places (T, slots, ...), `fill` where there is none."""
        spread = np.full((len(values), len(self), *values.shape[2:]), fill, values.dtype)
        fits = places != NO_ROOM
        spread[:, places[fits]] = values[:, fits]
        return spread
