"""Which frames does a training step see?

`Windows` cuts a dataset's episodes into windows of a few observations, frame skip apart, and hands them out as shuffled
batches of uint8 tensors. What fits into the memory limit is held there; more is streamed: blocks of neighbouring chunks
are read in random order, as many as fit, and their windows mixed. Seed and epoch decide the order, so a run can go on
from any batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from training.blocks import Block, Buffers, Pool, Reader
from training.dataset_format import Dataset, DatasetError, SplitName, open_dataset

__all__ = ["Batch", "Dataset", "DatasetError", "Windows", "open_dataset"]

MEMORY = 4 << 30  # bytes; the same on every machine, for it takes part in the order of the batches


@dataclass(frozen=True)
class Batch:
    """B windows of T observations. Columns that the dataset does not have are None."""

    frames: torch.Tensor  # (B, T, H, W, 3) uint8
    actions: torch.Tensor  # (B, T, skip * A) float32, as recorded; the block at T - 1 leads out of the window
    boxes: torch.Tensor  # (B, T, N, 4) float32, cx cy w h in 0 to 1
    present: torch.Tensor  # (B, T, N) bool
    category: torch.Tensor  # (B, N) int64, -1 where a slot is empty
    rows: torch.Tensor  # (B,) int64, the row of the first frame
    oriented: torch.Tensor | None = None  # (B, T, N, 5) float32, cx cy w h theta
    mass: torch.Tensor | None = None  # (B, T, N, 2) float32
    depth: torch.Tensor | None = None  # (B, T, N, 5) float32, percentiles 5 25 50 75 95
    velocity: torch.Tensor | None = None  # (B, T, N, 2) float32, image sizes a frame
    heading: torch.Tensor | None = None  # (B, T, N, 1) float32, radians
    pose: torch.Tensor | None = None  # (B, T, N, 6) float32, x y z roll pitch yaw
    pose_velocity: torch.Tensor | None = None  # (B, T, N, 3) float32, of x y z, a frame
    state: torch.Tensor | None = None  # (B, T, S) float32

    def __len__(self) -> int:
        """How many windows there are."""
        return len(self.rows)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(**{name: tensor.to(device, non_blocking=True) for name, tensor in self.tensors().items()})

    def tensors(self) -> dict[str, torch.Tensor]:
        """The columns that there are, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


class Windows:
    """All windows of one split of a dataset, as batches.

    A window lies within one episode. With actions it needs `length * skip` rows, for each of its observations comes
    with the `skip` actions that follow; without actions `(length - 1) * skip + 1`.
    """

    def __init__(
        self, dataset: Dataset, split: SplitName = "train", length: int = 4, skip: int = 1, batch: int = 128,
        seed: int = 0, memory_limit: int = MEMORY, shuffle: bool = True, part: tuple[int, int] = (0, 1),
    ) -> None:  # fmt: skip
        """Find the windows; nothing is read yet.

        Args:
            dataset: Where the frames are.
            split: Which episodes.
            length: Observations in a window.
            skip: Frames from one observation to the next.
            batch: Windows in a batch, over all processes.
            seed: Decides the order, together with the epoch.
            memory_limit: Bytes that frames and labels may take.
            shuffle: Off: windows come in the order in which they are stored.
            part: Which of how many equal parts of every batch: (rank, processes).
        """
        if length < 1 or skip < 1 or batch < 1:
            raise ValueError(f"length {length}, skip {skip} and batch {batch} must be at least 1.")
        if not 0 <= part[0] < part[1] or batch % part[1]:
            raise ValueError(f"A batch of {batch} has no part {part[0]} of {part[1]} equal parts.")
        self.dataset, self.split, self.length, self.skip = dataset, split, length, skip
        self.batch, self.seed, self.shuffle, self.part = batch, seed, shuffle, part
        self._span = length * skip if dataset.action_dim else (length - 1) * skip + 1  # see `observations`
        self._starts, self._episodes = _window_starts(dataset, split, self._span)
        if not len(dataset.split(split)):
            raise DatasetError(_nothing_in(dataset, split))
        if not len(self._starts):
            raise DatasetError(
                f"{dataset.path} has no {split} episode of {self._span} frames, which windows of {length} with frame "
                f"skip {skip} need; the longest has {_longest(dataset, split)}. Choose a smaller frame skip."
            )
        self._reader = Reader(dataset, self._starts, self._span)
        self._plan = self._reader.plan(memory_limit)
        self._held: Pool | None = None
        self._buffers = Buffers()

    def __len__(self) -> int:
        """Batches in an epoch; what is left over does not fill one and waits for another epoch's order."""
        return max(1, len(self._starts) // self.batch)

    @property
    def windows(self) -> int:
        """How many windows there are."""
        return len(self._starts)

    @property
    def in_memory(self) -> bool:
        """Whether all of it is held in memory."""
        return len(self._plan.blocks) == 1

    @property
    def order(self) -> dict[str, Any]:
        """What decides the batches of an epoch: a run that goes on must find the same."""
        return {
            "fingerprint": self.dataset.fingerprint, "split": self.split, "length": self.length, "skip": self.skip,
            "batch": self.batch, "seed": self.seed, "shuffle": self.shuffle, "blocks": len(self._plan.blocks),
            "room": 0 if self.in_memory else self._plan.room,
        }  # fmt: skip

    def batches(self, epoch: int, start: int = 0, whole: bool = False) -> Iterator[Batch]:
        """The batches of an epoch from number `start` on; what comes before is not read.

        With `whole`, other processes' parts of them come along.
        """
        if not 0 <= start <= len(self):
            raise ValueError(f"There is no batch {start}: an epoch has {len(self)}.")
        wanted = self._slices(start, (0, 1) if whole else self.part)
        low, high = next(wanted, (0, 0))
        parts: list[Batch] = []
        for begin, pool, order in self._rounds(epoch, low):
            end = begin + len(order)
            while low < high and low < end:
                upto = min(high, end)
                parts.append(self._gather(pool, order[low - begin : upto - begin]))
                low = upto
                if low == high:
                    yield parts[0] if len(parts) == 1 else _joined(parts)
                    parts = []
                    low, high = next(wanted, (0, 0))
            if low == high:
                return

    def _slices(self, start: int, part: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """A part of every batch from number `start` on: where in the epoch it begins and ends."""
        rank, processes = part
        for number in range(start, len(self)):
            begin = number * self.batch
            count = min(self.batch, len(self._starts) - begin)
            yield begin + count * rank // processes, begin + count * (rank + 1) // processes

    def _rounds(self, epoch: int, first: int) -> Iterator[tuple[int, Pool, np.ndarray]]:
        """Where in the epoch a round begins, its rows, and their windows in the order in which they are handed out.

        Rounds that end before window number `first` of the epoch are not read. The next one is read while one is used.
        """
        rounds = list(self._shared_out(epoch))
        counts = [sum(block.last - block.first for block in blocks) for blocks in rounds]
        begins = np.concatenate([[0], np.cumsum(counts)]).tolist()
        todo = [number for number, (_, end) in enumerate(pairwise(begins)) if end > first]
        if self.in_memory:
            yield 0, self._everything(), self._mixed(counts[0], epoch, 0)
            return
        room = max(sum(block.rows for block in blocks) for blocks in rounds)
        rooms = [self._reader.empty(room) for _ in todo[:2]]
        with ThreadPoolExecutor(1, "spectrabox-read") as thread:

            def read(turn: int) -> Any:
                return thread.submit(self._reader.fill, rounds[todo[turn]], rooms[turn % 2], self._plan.piece)

            coming = read(0)
            for turn, number in enumerate(todo):
                pool = coming.result()
                if turn + 1 < len(todo):
                    coming = read(turn + 1)
                yield begins[number], pool, self._mixed(counts[number], epoch, number)

    def _shared_out(self, epoch: int) -> Iterator[list[Block]]:
        """The blocks of an epoch in their order, as many at a time as there is room for."""
        blocks = self._plan.blocks
        order = (
            np.random.default_rng([self.seed, epoch]).permutation(len(blocks)) if self.shuffle else range(len(blocks))
        )
        together: list[Block] = []
        for index in order:
            if sum(block.rows for block in together) + blocks[index].rows > self._plan.room:
                yield together
                together = []
            together.append(blocks[index])
        yield together

    def _mixed(self, count: int, epoch: int, number: int) -> np.ndarray:
        if not self.shuffle:
            return np.arange(count)
        return np.random.default_rng([self.seed, epoch, number]).permutation(count)

    def _everything(self) -> Pool:
        if self._held is None:
            blocks = self._plan.blocks
            self._held = self._reader.fill(blocks, self._reader.empty(blocks[0].rows), self._plan.piece)
        return self._held

    def _gather(self, pool: Pool, chosen: np.ndarray) -> Batch:
        """The windows numbered `chosen` in a pool."""
        begin, which = pool.positions[chosen], pool.windows[chosen]
        rows = torch.from_numpy(begin[:, None] + np.arange(self.length) * self.skip)
        height, width = self.dataset.size
        frames = self._buffers.tensor((rows.numel(), height * width * 3), torch.uint8)
        torch.index_select(pool.columns["frames"].flatten(1), 0, rows.flatten(), out=frames)
        columns = {
            name: _taken(column, rows) for name, column in pool.columns.items() if name not in ("frames", "actions")
        }
        steps = rows[..., None] + torch.arange(self.skip)
        size = self.dataset.action_dim
        actions = _taken(pool.columns["actions"], steps).flatten(2) if size else torch.zeros(*rows.shape, 0)
        category = torch.from_numpy(self.dataset.category[self._episodes[which]].astype(np.int64))
        return Batch(
            frames=frames.view(*rows.shape, height, width, 3), actions=actions, category=category,
            rows=torch.from_numpy(self._starts[which]), **columns,
        )  # fmt: skip


def observations(dataset: Dataset, frames: int, skip: int) -> int:
    """The longest window that fits into an episode of so many frames; each of its steps takes `skip` actions along."""
    return frames // skip if dataset.action_dim else -(-frames // skip)


def _window_starts(dataset: Dataset, split: SplitName, span: int) -> tuple[np.ndarray, np.ndarray]:
    """First row and episode of every window, sorted by row."""
    episodes = dataset.split(split)
    offset, length = dataset.episode_offset[episodes], dataset.episode_length[episodes]
    count = np.maximum(length - span + 1, 0)
    before = np.cumsum(count) - count
    starts = np.arange(count.sum()) + np.repeat(offset - before, count)
    return starts, np.repeat(episodes, count)


def _nothing_in(dataset: Dataset, split: SplitName) -> str:
    if split == "train":
        return f"{dataset.path} has no episode to train on: all are held out. Prepare it with a smaller --validation."
    return (
        f"{dataset.path} holds no episode out. Prepare it with --validation 0.1, or judge on episodes that were "
        "trained on: `spectrabox evaluate --on-training-episodes`."
    )


def _longest(dataset: Dataset, split: SplitName) -> int:
    return int(dataset.episode_length[dataset.split(split)].max(initial=0))


def _taken(column: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows of a column, with the shape of `rows` in front."""
    flat = torch.index_select(column.flatten(1), 0, rows.flatten())
    return flat.view(*rows.shape, *column.shape[1:])


def _joined(parts: list[Batch]) -> Batch:
    """Parts of a batch that come from several rounds, as one."""
    columns = [part.tensors() for part in parts]
    return Batch(**{name: torch.cat([part[name] for part in columns]) for name in columns[0]})
