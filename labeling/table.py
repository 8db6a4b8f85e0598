"""What do labels look like as a table?

One row for every box, ordered by frame and then by track, in columns that data frames, CSV and Parquet share. A video
is taken a block of frames at a time, so a table on disk needs no more memory than a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from labeling.store import StoreError, VideoLabels
from labeling.tracks import Tracks

if TYPE_CHECKING:
    import pandas

BLOCK = 4096  # frames: as many as a chunk of the store has

PARTS = {
    "boxes": ("x1", "y1", "x2", "y2"), "score": ("score",), "mass": ("mass_x", "mass_y"),
    "oriented": ("oriented_cx", "oriented_cy", "oriented_w", "oriented_h", "oriented_theta"),
}  # fmt: skip

Columns = dict[str, np.ndarray]


def blocks(labels: VideoLabels, size: int = BLOCK) -> Iterator[VideoLabels]:
    """The labels of a video, so many frames at a time."""
    return (labels[begin : begin + size] for begin in range(0, labels.frames, size))


def columns_of(labels: VideoLabels, tracks: Tracks | None = None) -> Columns:
    """The boxes of some frames as columns of one length; of the kept tracks, or of those given."""
    tracks = labels.tracks if tracks is None else tracks
    frame, track = np.nonzero(tracks.present)
    names = np.array([labels.name_of(kind) for kind in tracks.category.tolist()], object)
    columns: Columns = {
        "video": np.full(len(frame), labels.id, object), "frame": frame + labels.first, "time": tracks.time[frame],
        "instance": tracks.instance[track], "category": tracks.category[track], "name": names[track],
    }  # fmt: skip
    for name, parts in PARTS.items():
        values = getattr(tracks, name)[frame, track].reshape(len(frame), len(parts))
        columns |= {part: values[:, place] for place, part in enumerate(parts)}
    return columns | {"prominence": tracks.prominence[track]}


def data_frame(videos: Iterable[VideoLabels]) -> pandas.DataFrame:
    """The boxes of some videos as a data frame.

    Raises:
        StoreError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise StoreError("data frames need pandas: pip install -c constraints.txt '.[datasets]'") from error
    parts = [columns_of(labels) for labels in videos]
    if not parts:
        raise StoreError("there is no labeled video to make a data frame of.")
    table = pandas.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    return table.astype({"video": "category", "name": "category"})
