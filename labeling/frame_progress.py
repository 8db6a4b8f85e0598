"""How far is the tracking of a video?

Frames pass through twice, scanned and then tracked: both count, and whoever waits hears of it now and then, also while
a large file is read. Times and cuts of the frames are noted on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from labeling.proposals import FrameProposals

REPORT_EVERY = 0.2  # seconds between two reports

Progress = Callable[[int, int], None]  # frames done, frames expected


class FrameProgress:
    """Counts the frames that were scanned and those that were tracked, and reports now and then."""

    def __init__(self, report: Progress | None) -> None:
        self._report, self._handed, self._reported = report, 0, 0.0
        self.expected = 0
        self.times: list[float] = []
        self.cuts: list[int] = []  # frames with which a new scene begins, but for the first

    def handed_out(self) -> None:
        """The video handed out one more frame, for the first time or again."""
        self._handed += 1
        self.going_on()

    def going_on(self) -> None:
        """Something is done: a video that takes long to read is not one that hangs."""
        if self._report and time.monotonic() - self._reported > REPORT_EVERY:
            scanned = min(self._handed, self.expected or self._handed)
            self._report((scanned + len(self.times)) // 2, self.expected)
            self._reported = time.monotonic()

    def timed(self, proposed: Iterator[FrameProposals]) -> Iterator[FrameProposals]:
        """Pass frames on and note their times and the cuts."""
        for item in proposed:
            if item.cut and self.times:
                self.cuts.append(len(self.times))
            self.times.append(item.frame.time)
            yield item
