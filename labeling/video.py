"""What is in a video file?

Opens anything that FFmpeg reads, and folders of numbered pictures, as one stream of upright RGB frames with times.
Large videos are decoded at a working size; `Video.scale` leads from working pixels back to those of the original.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import av
import av.error
import cv2
import numpy as np

VIDEO_SUFFIXES = {".mp4", ".mov", ".avi", ".mkv", ".webm", ".gif", ".m4v"}
PICTURE_SUFFIXES = {".jpg", ".jpeg", ".png"}
PICTURE_RATE = 24.0  # a folder of pictures has no clock of its own
_NUMBERED = re.compile(r"^(.*?)(\d+)$")

av.logging.set_level(av.logging.PANIC)  # errors reach the user as exceptions, not as FFmpeg's log lines


class VideoError(Exception):
    """A video cannot be labeled; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One upright picture of a video."""

    index: int
    time: float  # seconds from the start
    image: np.ndarray  # (H, W, 3) uint8, RGB


class Video:
    """A stream of frames that can be read again from any frame on."""

    def __init__(self, path: str | Path, longest_side: int = 960, threads: int = 1) -> None:
        """Probe the file or folder at `path`; raise VideoError if it holds no readable picture.

        Args:
            path: A video file, or a folder of numbered jpg or png files.
            longest_side: Frames larger than this are decoded at this size.
            threads: Decoder threads; 0 lets FFmpeg choose.
        """
        self.path = Path(path)
        self._threads = threads
        self._pictures = numbered_pictures(self.path) if self.path.is_dir() else []
        first, self.fps, self.expected_frames = self._probe()
        self.height, self.width = first.shape[:2]
        self.scale = max(1.0, max(self.height, self.width) / longest_side)
        self.working_height = max(1, round(self.height / self.scale))
        self.working_width = max(1, round(self.width / self.scale))

    def frames(self, start: int = 0) -> Iterator[Frame]:
        """Decode frames from index `start` to the end, at the working size."""
        images = self._read_pictures(start) if self._pictures else self._decode(start)
        for index, time, image in images:
            if image.shape[:2] != (self.working_height, self.working_width):
                image = cv2.resize(image, (self.working_width, self.working_height), interpolation=cv2.INTER_AREA)
            yield Frame(index, time, image)

    def sha256(self) -> str:
        """Hash of the file's bytes, or of all pictures of a folder in their order."""
        digest = hashlib.sha256()
        for path in self._pictures or [self.path]:
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        return digest.hexdigest()

    def _probe(self) -> tuple[np.ndarray, float, int]:
        """The first frame, the frame rate, and how many frames the container promises (0: it does not say)."""
        if self._pictures:
            first = next(self._read_pictures(0))
            return first[2], PICTURE_RATE, len(self._pictures)
        first = next(self._decode(0), None)
        if first is None:
            raise VideoError(f"{self.path} holds no frame that can be decoded. Is the file complete?")
        with _opened(self.path) as container:
            stream = _video_stream(container, self.path)
            rate = stream.average_rate or stream.guessed_rate
            return first[2], float(rate) if rate else PICTURE_RATE, stream.frames

    def _decode(self, start: int) -> Iterator[tuple[int, float, np.ndarray]]:
        index = -1
        with _opened(self.path) as container:
            stream = _video_stream(container, self.path)
            stream.codec_context.thread_count = self._threads
            stream.codec_context.thread_type = "NONE" if self._threads == 1 else "AUTO"
            origin: float | None = None
            try:
                for index, frame in enumerate(container.decode(stream)):
                    seconds = frame.time if frame.time is not None else index / PICTURE_RATE
                    origin = seconds if origin is None else origin
                    if index >= start:
                        yield index, seconds - origin, _upright(frame)
            except av.error.FFmpegError as error:
                where = f"after frame {index}" if index >= 0 else "at its first frame"
                raise VideoError(
                    f"{self.path} cannot be decoded {where}: {error.strerror}. Re-encode it or remove it."
                ) from error
            promised = stream.frames
        if 0 <= index < promised - max(2, promised // 50):
            raise VideoError(
                f"{self.path} is cut off: {index + 1} of {promised} frames can be decoded. Copy or record it again."
            )

    def _read_pictures(self, start: int) -> Iterator[tuple[int, float, np.ndarray]]:
        size = None
        for index, path in enumerate(self._pictures[start:], start):
            image = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR_RGB) if path.stat().st_size else None
            if image is None:
                raise VideoError(f"{path} is not a readable picture. Replace it or remove the folder.")
            if size is not None and image.shape != size:
                raise VideoError(f"{path} has another size than the pictures before it. Use one size in a folder.")
            size = image.shape
            yield index, index / PICTURE_RATE, image


def numbered_pictures(folder: Path) -> list[Path]:
    """The pictures of a folder in the order of their numbers; VideoError if numbers are missing between them."""
    numbered: dict[int, Path] = {}
    for path in folder.iterdir():
        match = _NUMBERED.match(path.stem)
        if path.suffix.lower() in PICTURE_SUFFIXES and match:
            number = int(match.group(2))
            if number in numbered:
                raise VideoError(
                    f"{folder} has two pictures with the number {number}: {numbered[number].name} and {path.name}. "
                    "Keep one sequence in a folder."
                )
            numbered[number] = path
    order = sorted(numbered)
    steps = np.diff(order)
    if len(steps) and (gaps := np.flatnonzero(steps != np.median(steps))).size:
        after = order[gaps[0]]
        raise VideoError(
            f"{folder} has a gap after picture {numbered[after].name}: {len(gaps)} jump(s) in the numbering. "
            "Restore the missing pictures or split the folder there."
        )
    return [numbered[number] for number in order]


def _opened(path: Path) -> av.container.InputContainer:
    try:
        if path.stat().st_size == 0:
            raise VideoError(f"{path} is empty. Copy it again.")
        return av.open(str(path))
    except av.error.FFmpegError as error:
        raise VideoError(f"{path} is not a video that can be read: {error.strerror}. Re-encode or remove it.") from error
    except OSError as error:
        raise VideoError(f"{path} cannot be opened: {error.strerror}. Check its permissions.") from error


def _video_stream(container: av.container.InputContainer, path: Path) -> av.VideoStream:
    for stream in container.streams.video:
        if not stream.disposition & av.stream.Disposition.attached_pic:
            return stream
    raise VideoError(f"{path} has no video track, only sound or pictures. Remove it from the folder.")


def _upright(frame: av.VideoFrame) -> np.ndarray:
    image = frame.to_ndarray(format="rgb24")
    turns = round((frame.rotation or 0) / 90) % 4
    return np.ascontiguousarray(np.rot90(image, turns)) if turns else image
