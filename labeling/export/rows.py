"""Which rows do the tables of an export have?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labeling.export.job import Job
from labeling.table import Columns, blocks, columns_of


def rows_of(job: Job) -> Iterator[Columns]:
    """The rows of all videos as columns, a stretch of frames at a time; at least one stretch, be it empty."""
    for labels in job.videos():
        for part in blocks(labels):
            chosen = job.choose(part)
            columns = columns_of(part, chosen.tracks)
            count = len(columns["frame"])
            columns |= {
                "source": np.full(count, labels.source, object),
                "split": np.full(count, job.split[labels.id], object),
            }
            if job.config.dropped:
                columns["kept"] = chosen.kept[np.nonzero(chosen.tracks.present)[1]]
            yield columns
            job.step(labels.source, part.frames)
