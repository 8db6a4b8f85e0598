"""Which rows of a dataset are in memory, and where?

A `Block` is a stretch of rows that are read together; a `Pool` holds the rows of some blocks, those that no window
needs left out. `Reader` plans blocks along the chunks on disk and fills pools, in pieces that bound the memory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import zarr

from training.dataset_format import Dataset, DatasetError

PIECE = 8  # chunks of frames read in one go, at most: enough for zarr to work on several at a time
MIXED = 16  # blocks whose windows are mixed, at least, where the limit allows
LONGEST = 64  # chunks in a block, at most
LABELS = 0.25  # share of the memory that actions and boxes of all frames may take, so that only frames are streamed
LENT = 4  # batches whose memory is used again


@dataclass(frozen=True)
class Block:
    """Neighbouring rows, and the windows that begin there."""

    low: int
    high: int  # exclusive: the last row that a window reaches
    first: int
    last: int  # exclusive, both count the windows in the order of their rows
    rows: int  # needed by some window


@dataclass(frozen=True)
class Plan:
    """How a split is read: one block is held in memory; of several, `room` rows at a time."""

    blocks: list[Block]
    room: int
    piece: int  # chunks in one go


@dataclass(frozen=True)
class Pool:
    """The rows of some blocks."""

    columns: dict[str, torch.Tensor]  # name -> (rows, ...)
    windows: np.ndarray  # (n,) which windows
    positions: np.ndarray  # (n,) where each of them begins in the columns


class Reader:
    """Reads blocks of one dataset, for windows that begin at `starts` and take `span` rows."""

    def __init__(self, dataset: Dataset, starts: np.ndarray, span: int) -> None:
        self._arrays: dict[str, zarr.Array[Any] | np.ndarray] = {name: dataset.array(name) for name in dataset.columns}
        self._dataset, self._starts, self._span = dataset, starts, span
        sizes = {name: int(np.prod(array.shape[1:])) * array.dtype.itemsize for name, array in self._arrays.items()}
        self._row_bytes = sum(sizes.values())
        self._label_bytes = (self._row_bytes - sizes["frames"]) * dataset.frames
        self._chunk = int(dataset.array("frames").chunks[0])

    def plan(self, memory_limit: int) -> Plan:
        """One block if that fits into `memory_limit` bytes, else blocks of which two rounds and a piece fit."""
        whole = self._blocks(int(self._starts[-1]) + 1)
        chunk_bytes = self._chunk * self._row_bytes
        piece = int(np.clip(memory_limit // 16 // chunk_bytes, 1, PIECE))
        if whole[0].rows * self._row_bytes <= memory_limit:
            return Plan(whole, whole[0].rows, piece)
        if self._label_bytes <= memory_limit * LABELS:
            # Their chunks hold many more rows than those of frames: each would be read again and again.
            self._arrays |= {name: self._dataset.read(name, slice(None)) for name in self._arrays if name != "frames"}
            memory_limit -= self._label_bytes
        room = (memory_limit - 2 * piece * chunk_bytes) // 2 // self._row_bytes
        chunks = int(np.clip((room // MIXED - self._span) // self._chunk, 1, LONGEST))
        blocks = self._blocks(chunks * self._chunk)
        most = max(block.rows for block in blocks)
        if most > room:
            needed = 2 * (most * self._row_bytes + piece * chunk_bytes)
            least = -(-needed >> 20)
            raise DatasetError(f"Windows of {self._dataset.path} need {least} MB at least: --set memory={least}.")
        return Plan(blocks, room, piece)

    def empty(self, rows: int) -> dict[str, torch.Tensor]:
        """Columns for so many rows, not filled yet."""
        return {
            name: torch.from_numpy(np.empty((rows, *array.shape[1:]), array.dtype))
            for name, array in self._arrays.items()
        }

    def fill(self, blocks: Sequence[Block], columns: dict[str, torch.Tensor], piece: int) -> Pool:
        """Read `blocks` one after another into `columns`."""
        offset = 0
        windows, positions = [], []
        for block in blocks:
            starts = self._starts[block.first : block.last] - block.low
            ends = np.bincount(starts + self._span, minlength=block.high - block.low + 1)
            needed = np.cumsum(np.bincount(starts, minlength=len(ends)) - ends)[:-1] > 0
            place = np.cumsum(needed) - 1 + offset
            for name, array in self._arrays.items():
                step = block.high
                if isinstance(array, zarr.Array):
                    step = int(array.chunks[0]) * (piece if name == "frames" else 1)
                target = columns[name].numpy()
                for low in range(block.low // step * step, block.high, step):
                    begin, end = max(low, block.low), min(low + step, block.high)
                    keep = needed[begin - block.low : end - block.low]
                    if not keep.any() or not target.size:
                        continue
                    whole = isinstance(array, np.ndarray)
                    rows = array[begin:end] if whole else self._dataset.read(name, slice(begin, end))
                    to = place[begin - block.low : end - block.low][keep]
                    # A plain `rows[keep]` takes eight times as long.
                    np.take(rows, np.flatnonzero(keep), axis=0, out=target[to[0] : to[-1] + 1], mode="clip")
            windows.append(np.arange(block.first, block.last))
            positions.append(place[starts])
            offset += block.rows
        return Pool(columns, np.concatenate(windows), np.concatenate(positions))

    def _blocks(self, length: int) -> list[Block]:
        """Blocks that begin every `length` rows; those where no window begins are left out."""
        starts = self._starts
        edges = np.searchsorted(starts, np.arange(0, starts[-1] + 1, length))
        firsts = np.unique(edges)  # an empty block has the same edge as the next
        lasts = np.append(firsts[1:], len(starts))
        new = np.append(np.minimum(np.diff(starts), self._span), self._span)  # rows up to the next window
        new[lasts - 1] = self._span
        rows = np.add.reduceat(new, firsts)
        return [
            Block(int(starts[first]), int(starts[last - 1]) + self._span, int(first), int(last), int(count))
            for first, last, count in zip(firsts, lasts, rows, strict=True)
        ]


class Buffers:
    """Memory for batches, used again once nobody holds a tensor in it: fresh memory costs more than filling it."""

    def __init__(self) -> None:
        self._known = [np.empty(0, np.uint8)]  # the first is never lent: its count of references is that of a free one

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """An uninitialised tensor."""
        size = int(np.prod(shape)) * dtype.itemsize
        free = 0
        for number, buffer in enumerate(self._known):
            count = sys.getrefcount(buffer)
            free = count if number == 0 else free
            if number and count == free and len(buffer) == size:
                return torch.from_numpy(buffer).view(dtype).view(shape)
        if len(self._known) <= LENT:
            self._known.append(np.empty(size, np.uint8))
            return torch.from_numpy(self._known[-1]).view(dtype).view(shape)
        return torch.empty(shape, dtype=dtype)
