"""Are all numbers of a dataset numbers?

`prepare` lets no others in, but files change: an edit, a broken disk, another program's dataset. A NaN would end a
training hours later, or be passed over as a number that does not apply. Frames are not read, so this takes a moment.
"""

from __future__ import annotations

import numpy as np

from training.dataset_format import MAY_NOT_APPLY, OBJECT_COLUMNS, Dataset


def bad_numbers(dataset: Dataset) -> str:
    """A sentence about the first number of a dataset that is none; empty if there is no such number."""
    for name in dataset.columns:
        array = dataset.array(name)
        if array.dtype.kind != "f":
            continue
        step = (array.shards or array.chunks)[0]
        for begin in range(0, dataset.frames, step):
            bad = _bad(dataset, name, slice(begin, begin + step))
            if len(bad):
                row = begin + int(bad[0])
                episode = int(np.searchsorted(dataset.episode_offset, row, side="right")) - 1
                frame = row - int(dataset.episode_offset[episode])
                return (
                    f"{dataset.path} holds {name} that are NaN or infinite, first in episode {episode} (from "
                    f"{dataset.sources[episode]}) at its frame {frame}. Prepare the dataset anew."
                )
    return ""


def _bad(dataset: Dataset, name: str, some: slice) -> np.ndarray:
    """Some rows of a column, those with numbers that are none; what stands for absent objects does not count."""
    rows = dataset.read(name, some)
    wrong = np.isinf(rows) if name in MAY_NOT_APPLY else ~np.isfinite(rows)
    if name in OBJECT_COLUMNS:
        wrong &= dataset.read("present", some)[..., None]
    return np.flatnonzero(wrong.reshape(len(rows), -1).any(axis=1))
