"""How do frames get into a browser?

Not every browser plays every codec, and none shows frame 137 for sure. So frames are decoded here, by number, and sent
as pictures, a stretch at a time; what was shown lately is held, in bounded memory, and a few videos stay open where
they were last read, so that playing goes on without a jump.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from labeling.folder import inside
from labeling.pipeline import fingerprint
from labeling.places import Place, fetched
from labeling.video import Frame, Video, VideoError

LONGEST_SIDE = 1280  # pixels; larger frames are reduced
SIDES = (160, 320, 640, 960, LONGEST_SIDE)  # what a page may ask for
SHARP = 256  # up to this size pictures lose nothing, since each pixel of theirs is seen
QUALITY = 86
OPEN = 4  # videos that are open at a time
READERS = 2  # places in a video that are read from at a time: where it plays, and where somebody jumps to
NEAR = 48  # frames up to which it is quicker to read on than to jump
BACK = 16  # frames that are read before one from which somebody steps backwards
HELD = 192 << 20  # bytes of pictures in memory


@dataclass(frozen=True)
class Wanted:
    """A video as the store knows it."""

    id: str
    source: str  # path below the folder
    size: tuple[int, int]  # height and width
    frames: int
    sha256: str
    fingerprint: str = ""  # of the file as it was when it was labeled; the same: its content need not be read


class Pictures:
    """Frames of videos as pictures; may be used by several threads."""

    def __init__(self, folder: Place, held: int = HELD) -> None:
        self._folder, self._most = folder, held
        self._reels: OrderedDict[Wanted, _Reel] = OrderedDict()
        self._held: OrderedDict[tuple[Wanted, int, int], bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def stretch(self, video: Wanted, begin: int, end: int, side: int) -> Iterator[bytes]:
        """Frames `begin` to before `end`, each as its number, the length of its picture (uint32) and the picture.

        Raises:
            VideoError: The video is not there, is not the one that was labeled, or cannot be decoded.
        """
        side = next((one for one in SIDES if one >= side), LONGEST_SIDE)
        for number in range(max(0, begin), min(end, video.frames)):
            picture = self._picture(video, number, side)
            yield struct.pack("<II", number, len(picture)) + picture

    def _picture(self, video: Wanted, number: int, side: int) -> bytes:
        key = (video, number, side)
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        with self._reel(video).head(number) as head:
            if (found := self._held.get(key)) is not None:  # somebody else wanted the same
                return found
            is_back = (video, number + 1, side) in self._held
            picture = b""
            for frame in head.read(max(0, number - BACK) if is_back else number, number):
                picture = _coded(frame.image, side)
                self._hold((video, frame.index, side), picture)
        return picture

    def _hold(self, key: tuple[Wanted, int, int], picture: bytes) -> None:
        with self._lock:
            if key not in self._held:
                self._held[key] = picture
                self._bytes += len(picture)
            while self._bytes > self._most and len(self._held) > 1:
                self._bytes -= len(self._held.popitem(last=False)[1])

    def _reel(self, video: Wanted) -> _Reel:
        with self._lock:
            reel = self._reels.setdefault(video, _Reel(self._folder, video))
            self._reels.move_to_end(video)
            past = [self._reels.popitem(last=False)[1] for _ in range(len(self._reels) - OPEN)]
        for one in past:
            one.close()
        return reel

    def close(self) -> None:
        """Let go of all videos, and of the copies of those that are in a bucket."""
        with self._lock:
            reels, self._reels = list(self._reels.values()), OrderedDict()
        for reel in reels:
            reel.close()


class _Reel:
    """An open video, and the heads that read it, each where it is: who jumps does not hold up who plays."""

    def __init__(self, folder: Place, wanted: Wanted) -> None:
        self._folder, self._wanted = folder, wanted
        self._stack = ExitStack()
        self._source: Path | None = None  # on this disk, and known to be the video that was labeled
        self._heads: list[_Head] = []  # the one used last at the end
        self._is_closed = False
        self._free = threading.Condition()
        self._opening = threading.Lock()

    @contextmanager
    def head(self, number: int) -> Iterator[_Head]:
        """A head to read a frame with, for this thread alone: one that is just before it, or else one to jump with."""
        with self._free:
            while (head := self._suited(number)) is None or head.is_taken:
                self._free.wait()
            head.is_taken, head.place = True, number
            self._heads.remove(head)
            self._heads.append(head)
        try:
            with self._opening:
                head.video = head.video or self._opened()
            yield head
        finally:
            with self._free:
                head.is_taken = False
                self._let_go()
                self._free.notify_all()

    def _suited(self, number: int) -> _Head | None:
        near = [head for head in self._heads if head.place <= number and number - head.place <= NEAR]
        if near:
            return max(near, key=lambda head: (head.place, not head.is_taken))  # if taken: it is there in a moment
        if len(self._heads) < READERS:
            self._heads.insert(0, _Head(self._wanted))
        return next((head for head in self._heads if not head.is_taken), None)

    def _opened(self) -> Video:
        if self._source is not None:
            return Video(self._source, LONGEST_SIDE)
        source = inside(self._folder, self._wanted.source)
        if not source.exists():
            raise VideoError(f"{source} is not there. Say where the videos are with --videos.")
        is_same = bool(self._wanted.fingerprint) and fingerprint(source) == self._wanted.fingerprint
        path = self._stack.enter_context(fetched(source))
        video = Video(path, LONGEST_SIDE)
        if (video.height, video.width) != self._wanted.size or not (is_same or video.sha256() == self._wanted.sha256):
            self._stack.close()
            raise VideoError(f"{source} is not the video that was labeled: it has changed since. Label it again.")
        self._source = path
        return video

    def close(self) -> None:
        """Let go of the file, as soon as nobody reads it."""
        with self._free:
            self._is_closed = True
            self._let_go()

    def _let_go(self) -> None:
        if self._is_closed and not any(head.is_taken for head in self._heads):
            self._heads.clear()
            self._source = None
            self._stack.close()


class _Head:
    """One place in a video from which frames are read on."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self.video: Video | None = None
        self.is_taken = False
        self.place = 0  # of the frame that it is to read, or comes to next
        self._frames: Iterator[Frame] | None = None
        self._next = 0  # frame that these begin with

    def read(self, start: int, number: int) -> list[Frame]:
        """Frames `start` to `number`."""
        assert self.video is not None
        if self._frames is None or not self._next <= number <= self._next + NEAR:
            self._frames = self.video.frames(start)
        coming, self._frames = self._frames, None  # of what fails half-way nothing is used again
        frames: list[Frame] = []
        for frame in coming:
            if frame.index >= start:
                frames.append(frame)
            if frame.index == number:
                break
        if not frames or frames[-1].index != number:
            raise VideoError(f"{self._wanted.source} has no frame {number}: it is not the video that was labeled.")
        self._frames, self._next, self.place = coming, number + 1, number + 1
        return frames


def _coded(image: np.ndarray, side: int) -> bytes:
    scale = side / max(image.shape[:2])
    if scale < 1:
        image = np.asarray(cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))
    kind, options = (".png", [cv2.IMWRITE_PNG_COMPRESSION, 1]) if max(image.shape[:2]) <= SHARP else (".jpg", [])
    options = options or [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
    _, data = cv2.imencode(kind, np.ascontiguousarray(image[..., ::-1]), options)
    return bytes(data.tobytes())
