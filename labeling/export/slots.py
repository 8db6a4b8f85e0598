"""Which place does a track have in formats of flat columns?

Each category gets as many places as it has tracks in the video that has most of them, so that a place always means the
same kind of thing.
"""

from __future__ import annotations

from collections import Counter

from labeling.export.job import Job
from labeling.slots import Places


class Slots(Places):
    """The places of all objects of an export."""

    def __init__(self, job: Job) -> None:
        most: Counter[int] = Counter()
        for labels in job.videos():
            most |= Counter(job.choose(labels[:0]).tracks.category.tolist())
        super().__init__({id: most[id] for id in job.kinds})
        self.kinds = [job.kinds[id].name for id in self.category]
        self.names: list[str] = []  # of each place, as object-1, object-1 2, ...
        for id, kind in job.kinds.items():
            self.names += [kind.name if number == 1 else f"{kind.name} {number}" for number in range(1, most[id] + 1)]
