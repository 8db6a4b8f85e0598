"""How does a flat array grow on disk?

`Column` appends rows in whole chunks, forgets those of a take that was refused, and goes on where another process
stopped. `Rows` reads one from its beginning, each chunk once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr

from labeling.zarr_io import ROWS, as_damage, rows_of

CHUNK_BYTES = 4 << 20  # of frames: enough to be read at the disk's speed, little enough to mix many of them


class Column:
    """A flat array that grows; whole chunks go to disk."""

    def __init__(self, root: zarr.Group, name: str, shape: tuple[int, ...], kind: str, new: bool = True) -> None:
        """An array `name` of rows of `shape`: a new one, or one that is there; `cut_back` says where to go on."""
        row_bytes = max(1, int(np.prod(shape)) * np.dtype(kind).itemsize)
        # A power of two, which the lengths of episodes are often multiples of.
        rows = 1 << int(np.clip(np.log2(CHUNK_BYTES / row_bytes), 0, 10)) if name == "frames" else ROWS
        if new:
            chunks = (rows, *(max(1, length) for length in shape))
            root.create_array(name, shape=(0, *shape), dtype=kind, chunks=chunks, fill_value=0)
        with as_damage(root, name):
            array = root[name]
            assert isinstance(array, zarr.Array)
        # Looking whether a chunk is all 0 would take four times as long as writing it.
        self.array = array.with_config({"write_empty_chunks": True})
        if self.array.shape[1:] != shape:  # slots that nothing used were cut off, and then the dataset was not finished
            self.array.resize((self.array.shape[0], *shape))
        self._buffer = np.zeros((rows, *shape), kind)
        self._written, self._waiting = 0, 0  # rows in whole chunks on disk, and rows behind these

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
        """Be where the first `rows` rows were there; what is not in the buffer is read from disk."""
        whole = rows // len(self._buffer) * len(self._buffer)
        if whole != self._written or rows > self.rows:
            again = rows_of(self.array, slice(whole, rows))
            self._written, self._waiting = whole, 0  # whatever happens now, the buffer holds nothing of another chunk
            self._buffer[: rows - whole] = again
        self._waiting = rows - whole

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


class Rows:
    """The rows of an array, a stretch at a time and in their order; StoreError if they cannot be read."""

    def __init__(self, array: zarr.Array[Any]) -> None:
        self._array, self._length = array, int(array.chunks[0])
        self._number, self._held = -1, np.empty(0)

    def blocks(self, low: int, high: int) -> list[np.ndarray]:
        """Rows `low` to `high`, as they lie in chunks."""
        found = []
        for number in range(low // self._length, -(-high // self._length)):
            begin = number * self._length
            if number != self._number:
                self._held, self._number = rows_of(self._array, slice(begin, begin + self._length)), number
            found.append(self._held[max(low - begin, 0) : high - begin])
        return found
