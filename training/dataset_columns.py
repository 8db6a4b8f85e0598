"""How does a flat array grow on disk?

`Column` appends rows in whole chunks, forgets those of a take that was refused, and goes on where another process
stopped.
"""

from __future__ import annotations

import numpy as np
import zarr

from labeling.zarr_io import ROWS

CHUNK_BYTES = 4 << 20  # of frames: enough to be read at the disk's speed, little enough to mix many of them


class Column:
    """A flat array that grows; whole chunks go to disk."""

    def __init__(self, root: zarr.Group, name: str, shape: tuple[int, ...], kind: str, there: int = 0) -> None:
        """A new array `name` of rows of `shape`, or, if some rows are `there`, the one to go on with behind these."""
        row_bytes = max(1, int(np.prod(shape)) * np.dtype(kind).itemsize)
        # A power of two, which the lengths of episodes are often multiples of.
        rows = 1 << int(np.clip(np.log2(CHUNK_BYTES / row_bytes), 0, 10)) if name == "frames" else ROWS
        if not there:
            chunks = (rows, *(max(1, length) for length in shape))
            root.create_array(name, shape=(0, *shape), dtype=kind, chunks=chunks, fill_value=0)
        array = root[name]
        assert isinstance(array, zarr.Array)
        # Looking whether a chunk is all 0 would take four times as long as writing it.
        self.array = array.with_config({"write_empty_chunks": True})
        if self.array.shape[1:] != shape:  # slots that nothing used were cut off, and then the dataset was not finished
            self.array.resize((self.array.shape[0], *shape))
        self._buffer = np.zeros((rows, *shape), kind)
        self._written, self._waiting = 0, 0  # whole chunks on disk, and rows behind these
        self._go_back_to(there)

    @property
    def rows(self) -> int:
        """Rows so far, also those that wait for their chunk to be full."""
        return self._written + self._waiting

    def append(self, rows: np.ndarray) -> None:
        """Add rows behind the last."""
        while len(rows):
            fits = min(len(rows), len(self._buffer) - self._waiting)
            self._buffer[self._waiting : self._waiting + fits] = rows[:fits]
            self._waiting += fits
            rows = rows[fits:]
            if self._waiting == len(self._buffer):
                self.flush()
                self._written, self._waiting = self.rows, 0

    def cut_back(self, rows: int) -> None:
        """Forget all that comes after the first `rows` rows."""
        if rows < self._written:
            self._go_back_to(rows)
        else:
            self._waiting = rows - self._written

    def flush(self) -> None:
        """Put all rows on disk; those of a chunk that is not full go on waiting as well."""
        if self.array.shape[0] < self.rows:
            self.array.resize((self.rows, *self.array.shape[1:]))
        if self._waiting and self.array.size:
            self.array[self._written : self.rows] = self._buffer[: self._waiting]

    def finish(self) -> None:
        """Put all rows on disk, and no others."""
        self.flush()
        self.array.resize((self.rows, *self.array.shape[1:]))

    def _go_back_to(self, rows: int) -> None:
        """Be where the first `rows` rows were there, which are on disk."""
        self._written = rows // len(self._buffer) * len(self._buffer)
        self._waiting = rows - self._written
        if self._waiting:
            self._buffer[: self._waiting] = self.array[self._written : rows]
