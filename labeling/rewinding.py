"""How is a file read backwards that can only be read forwards?

A gif's pictures are changes to the one before; other files have a single key frame, or no index. `Rewinder` reads such
a file once, from its beginning on, and holds on to the frames that it passed last, packed without loss: who looks back
a few seconds, again and again, has nothing decoded twice. What is held is bounded; who looks back further has it begin
again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import numpy as np
from numcodecs.blosc import Blosc

ROOM = 2**28  # bytes of packed frames that are held: 129 of 960 x 720 pixels even if packing gains nothing
# 2 to 25 % of a gif's pictures is left, of a camera's nearly all; a few milliseconds each.
PACKING = Blosc("zstd", clevel=1, shuffle=Blosc.NOSHUFFLE)


@dataclass(frozen=True, slots=True)
class Frame:
    """One upright picture of a video."""

    index: int
    time: float  # seconds from the start
    image: np.ndarray  # (H, W, 3) uint8, RGB


class Rewinder:
    """The frames of a file from any of them on, with one reader that only goes forward."""

    def __init__(self, read: Callable[[], Generator[Frame]], room: int = ROOM) -> None:
        """Take a function that reads all frames from the first on."""
        self._read, self._room = read, room
        self._frames: Generator[Frame] | None = None
        self._next = 0  # index of the frame that is read next
        self._held: dict[int, tuple[float, tuple[int, ...], bytes]] = {}  # the last ones before it, packed
        self._bytes = 0

    def frames(self, start: int) -> Iterator[Frame]:
        """All frames from index `start` on."""
        while (frame := self._frame(start)) is not None:
            yield frame
            start += 1

    def _frame(self, index: int) -> Frame | None:
        """A frame, or None after the last one."""
        if self._frames is None or (index < self._next and index not in self._held):
            self._begin()
        while index >= self._next:
            if not self._go_on():
                return None
        time, shape, packed = self._held[index]
        return Frame(index, time, np.frombuffer(bytearray(PACKING.decode(packed)), np.uint8).reshape(shape))

    def _begin(self) -> None:
        if self._frames is not None:
            self._frames.close()
        self._frames, self._next, self._bytes = self._read(), 0, 0
        self._held.clear()

    def _go_on(self) -> bool:
        """Read the next frame; False if there is none."""
        assert self._frames is not None
        frame = next(self._frames, None)
        if frame is None:
            return False
        packed = PACKING.encode(np.ascontiguousarray(frame.image))
        self._held[frame.index] = frame.time, frame.image.shape, packed
        self._bytes += len(packed)
        while self._bytes > self._room and len(self._held) > 1:
            oldest = next(iter(self._held))
            self._bytes -= len(self._held.pop(oldest)[2])
        self._next = frame.index + 1
        return True
