"""What is in a video file?

Opens anything that FFmpeg reads, and folders of numbered pictures, as one stream of upright RGB frames with times.
Large videos are decoded at a working size; `Video.scales` lead from working pixels back to those of the original.
"""

from __future__ import annotations

import hashlib
import heapq
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import av
import av.error
import cv2
import numpy as np
from av.buffer import Buffer

from labeling.containers import CUT, damage
from labeling.pictures import PICTURE_SUFFIXES, numbered_pictures, read_picture
from labeling.problems import VideoError, plainly, shown
from labeling.rewinding import Frame, Rewinder
from labeling.streams import Seen, decoded_from, decoded_from_key, is_avi, opened, packets, time_stamps

__all__ = ["PICTURE_SUFFIXES", "VIDEO_SUFFIXES", "Frame", "Video", "VideoError", "sha256_of"]

VIDEO_SUFFIXES = {".mp4", ".mov", ".avi", ".mkv", ".webm", ".gif", ".m4v"}
PICTURE_RATE = 24.0  # a folder of pictures has no clock of its own
FORGIVEN = 0.02  # the share of frames that may be lost without a word: counts in headers are often off by a few


class Video:
    """A stream of frames that can be read again from any frame on."""

    def __init__(self, path: str | Path, longest_side: int = 960, watch: Callable[[], None] | None = None) -> None:
        """Probe the file or folder at `path`; raise VideoError if it holds no readable picture or is not whole.

        Args:
            path: A video file, or a folder of numbered jpg or png files.
            longest_side: Frames larger than this are decoded at this size.
            watch: Called for every frame that is handed out.
        """
        self.path = Path(path)
        self._watch = watch
        self._stamps: np.ndarray | None = None  # of all frames, as the file lists them; None before somebody asks
        self._seen = Seen()
        self._count: int | None = None  # how many frames there are, as far as it is known
        self._is_avi = False
        self._rewinder = Rewinder(self._from_the_first)
        with plainly(self.path):
            is_folder = stat.S_ISDIR(self.path.stat().st_mode)
        self._pictures = numbered_pictures(self.path) if is_folder else []
        if is_folder and not self._pictures:
            raise VideoError(f"{shown(self.path)} is a folder without numbered jpg or png files. Number the pictures.")
        self.fps, self.expected_frames = (PICTURE_RATE, len(self._pictures)) if is_folder else self._probe()
        with closing(self._images()) as images:
            first = next(images, None)
        if first is None:
            raise VideoError(f"{shown(self.path)} holds no frame that can be decoded. Record or copy it again.")
        self.height, self.width = first[2].shape[:2]
        self.scale = max(1.0, max(self.height, self.width) / longest_side)
        self.working_height = max(1, round(self.height / self.scale))
        self.working_width = max(1, round(self.width / self.scale))
        self.scales = self.width / self.working_width, self.height / self.working_height  # rounded apart

    def frames(self, start: int = 0) -> Iterator[Frame]:
        """Decode frames from index `start` to the end, at the working size."""
        with closing(self._from(start) if start else self._from_the_first()) as frames:
            for frame in frames:
                if self._watch:
                    self._watch()
                yield frame

    def sha256(self, watch: Callable[[], None] | None = None) -> str:
        """Hash of the file's bytes, or of all pictures of a folder in their order; `watch` is called now and then."""
        return _hash(self._pictures or [self.path], watch)

    def _probe(self) -> tuple[float, int]:
        """The frame rate, and how many frames the container promises (0: it does not say)."""
        _refuse_unless_whole(self.path)
        with opened(self.path) as (container, stream):
            self._is_avi = is_avi(container)
            rate = stream.average_rate or stream.guessed_rate
            return float(rate) if rate else PICTURE_RATE, max(0, stream.frames)

    def _from_the_first(self) -> Generator[Frame]:
        """All frames, at the working size."""
        with closing(self._images()) as images:
            for image in images:
                yield self._frame(*image)

    def _from(self, start: int) -> Generator[Frame]:
        """Frames from `start` on, at the working size, without decoding all that comes before if that can be helped."""
        with closing(self._sought(start)) as sought:
            for image in sought:
                yield self._frame(*image)
                start = image[0] + 1
        if self._count is None or start < self._count:
            yield from self._rewinder.frames(start)

    def _frame(self, index: int, time: float, image: np.ndarray) -> Frame:
        """An upright image as a frame of the working size."""
        height, width = image.shape[:2]
        if (height, width) != (self.height, self.width):
            self._refuse_other_shape(index, height, width)
        if (height, width) != (self.working_height, self.working_width):
            image = self._resized(image)
        return Frame(index, time, image)

    def _images(self) -> Generator[tuple[int, float, np.ndarray]]:
        """Index, time and upright image of each frame, in the size it was made."""
        if self._pictures:
            yield from self._numbered(0)
            return
        orientation = _Orientation()
        index, origin, time = -1, 0.0, 0.0
        with closing(self._decode()) as frames:
            for index, (seconds, frame) in enumerate(frames):
                if index == 0:
                    orientation, origin = _Orientation.of(frame), seconds or 0.0
                elif seconds is None or seconds - origin <= time:  # no clock, or one that stands still
                    time += 1 / self.fps
                else:
                    time = seconds - origin
                self._seen.note(index, frame)
                yield index, time, orientation.upright(_pixels(frame))
        self._count = index + 1

    def _numbered(self, start: int) -> Iterator[tuple[int, float, np.ndarray]]:
        for index, path in enumerate(self._pictures[start:], start):
            yield index, index / PICTURE_RATE, read_picture(path)

    def _sought(self, start: int) -> Generator[tuple[int, float, np.ndarray]]:
        """As `_images`, from `start` on without decoding all that comes before; ends early when in doubt."""
        if self._pictures:
            yield from self._numbered(start)
            return
        if self._stamps is None:
            self._stamps = time_stamps(self.path)
            if self._count is None and len(self._stamps) and not self._is_avi:
                self._count = len(self._stamps)
        if not len(self._stamps):
            return
        orientation: _Orientation | None = None
        with closing(self._sought_frames(start, self._stamps)) as frames:
            for index, time, frame in frames:
                orientation = orientation or _Orientation.of(frame)
                yield index, time, orientation.upright(_pixels(frame))

    def _sought_frames(self, start: int, stamps: np.ndarray) -> Generator[tuple[int, float, av.VideoFrame]]:
        if self._is_avi:
            return decoded_from_key(self.path, stamps, self._seen, start)
        if known := self._seen.stamps:  # what was decoded is known for sure
            stamps = np.concatenate([known, stamps[stamps > known[-1]]])
        return decoded_from(self.path, stamps, start)

    def _decode(self) -> Generator[tuple[float | None, av.VideoFrame]]:
        """Time and frame, in the order in which they are shown; VideoError if some cannot be decoded."""
        read = count = corrupt = 0
        with opened(self.path) as (container, stream):
            # An avi says when a frame is to be decoded, not when it is shown: the n-th shown has the n-th such time.
            due: list[float] = []
            try:
                for packet in packets(container, stream):
                    read += bool(packet.size and not packet.is_discard)
                    if self._is_avi and packet.dts is not None and packet.time_base is not None:
                        heapq.heappush(due, float(packet.dts * packet.time_base))
                    for frame in packet.decode():
                        # All that follows would be patched onto a first frame that is broken.
                        if frame.is_corrupt and not count:
                            raise VideoError(f"{shown(self.path)} is damaged at its first frame. Copy it again.")
                        count += 1
                        corrupt += frame.is_corrupt
                        yield (heapq.heappop(due) if due else None) if self._is_avi else frame.time, frame
            except av.error.FFmpegError as error:
                where = f"after frame {count - 1}" if count else "at its first frame"
                raise VideoError(
                    f"{shown(self.path)} cannot be decoded {where}: {error.strerror}. Re-encode it or remove it."
                ) from error
            # An mp4 may count frames that an edit hides: there, what was read is what should have been seen.
            promised = max(count, read if "mp4" in container.format.name else stream.frames)
        whole = count - corrupt
        if promised - whole > max(2, FORGIVEN * promised):
            raise VideoError(
                f"{shown(self.path)} is damaged: only {whole} of {promised} frames can be decoded. "
                "Copy or record it again, or re-encode it to keep what is left."
            )

    def _resized(self, image: np.ndarray) -> np.ndarray:
        # Up to a factor of two bilinear weights still reach every pixel, and cost a tenth of area averages.
        weights = cv2.INTER_LINEAR if self.scale < 2 else cv2.INTER_AREA
        return np.asarray(cv2.resize(image, (self.working_width, self.working_height), interpolation=weights))

    def _refuse_other_shape(self, index: int, height: int, width: int) -> None:
        """VideoError unless a frame of another size is the same view: conference recorders change resolution."""
        if self._pictures or abs(height * self.width / width - self.height) > 2:
            raise VideoError(
                f"{shown(self._pictures[index] if self._pictures else self.path)} changes its size: frame {index} has "
                f"{width}x{height} pixels, the first {self.width}x{self.height}. Split it there or scale to one size."
            )


def _pixels(frame: av.VideoFrame) -> np.ndarray:
    return frame.to_ndarray(format="rgb24", threads=1)


@dataclass(frozen=True)
class _Orientation:
    """How stored pictures are turned and mirrored for display."""

    transposed: bool = False
    flipped_across: bool = False
    flipped_down: bool = False

    @classmethod
    def of(cls, frame: av.VideoFrame) -> _Orientation:
        """Read a frame's display matrix: x' = a x + c y, y' = b x + d y."""
        known = cast("Mapping[str, Buffer]", frame.side_data)
        if "DISPLAYMATRIX" not in known:
            return cls()
        a, b, _, c, d = np.frombuffer(bytes(known["DISPLAYMATRIX"]), np.int32)[:5].tolist()
        if abs(a) + abs(d) >= abs(b) + abs(c):
            return cls(False, a < 0, d < 0)
        return cls(True, c < 0, b < 0)

    def upright(self, image: np.ndarray) -> np.ndarray:
        if self == _Orientation():
            return image
        image = image.swapaxes(0, 1) if self.transposed else image
        image = image[:, ::-1] if self.flipped_across else image
        return np.ascontiguousarray(image[::-1] if self.flipped_down else image)


def sha256_of(path: Path) -> str:
    """What `Video.sha256` says of a file or folder, which is not decoded: it may be what ended another process."""
    with plainly(path):
        if not stat.S_ISDIR(path.stat().st_mode):
            _size(path)
            return _hash([path], None)
    return _hash(numbered_pictures(path), None)


def _hash(files: Iterable[Path], watch: Callable[[], None] | None) -> str:
    digest = hashlib.sha256()
    for path in files:
        with plainly(path), path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
                if watch:
                    watch()
    return digest.hexdigest()


def _size(path: Path) -> int:
    """Bytes of a file; VideoError if it is none, for a pipe would be waited for."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise VideoError(f"{shown(path)} is a pipe or a device, not a file. Remove it from the folder.")
    return status.st_size


def _refuse_unless_whole(path: Path) -> None:
    """VideoError if a file is empty, no file at all, or not as long as it should be."""
    with plainly(path):
        if not _size(path):
            raise VideoError(f"{shown(path)} is empty. Copy or record it again.")
        fault = damage(path)
    if fault:
        rest = "Re-encode it to keep what is left, or copy it again."
        raise VideoError(f"{shown(path)} {fault}. {'Copy or record it again.' if fault == CUT else rest}")
