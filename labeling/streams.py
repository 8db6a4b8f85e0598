"""Where are the pictures in a file?

Opens the picture stream of a file, and jumps into the middle of it: `time_stamps` lists the time stamps of all frames
without decoding any, `decoded_from` begins at the key frame before the one wanted. An avi does not say in which order
its pictures are shown: there, `decoded_from_key` goes by those that were seen before.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import av
import av.error
import numpy as np

from labeling.problems import VideoError, plainly, shown

PLAYLISTS = {"concat", "hls", "dash", "sdp"}  # would lead to other files or to the network


@contextmanager
def opened(path: Path) -> Iterator[tuple[av.container.InputContainer, av.VideoStream]]:
    """The file and its picture stream, to be decoded on one thread; VideoError if there is none."""
    with _container(path) as container:
        stream = _video_stream(container, path)
        stream.codec_context.thread_count = 1  # videos are the parallel axis, and threads may hang at an early close
        stream.codec_context.thread_type = "NONE"
        yield container, stream


@dataclass(frozen=True)
class Seen:
    """The frames that were decoded so far, without a gap from the first on."""

    stamps: array[int] = field(default_factory=lambda: array("q"))  # time stamp of each
    keys: array[int] = field(default_factory=lambda: array("q"))  # indices of those from which decoding can begin

    def note(self, index: int, frame: av.VideoFrame) -> None:
        """Remember a frame if it is the next."""
        if index == len(self.stamps) and frame.pts is not None:
            self.stamps.append(frame.pts)
            if frame.key_frame:
                self.keys.append(index)


def is_avi(container: av.container.InputContainer) -> bool:
    """Whether the file says when a frame is to be decoded, not when it is shown."""
    return "avi" in container.format.name


def packets(container: av.container.InputContainer, stream: av.VideoStream) -> Iterator[av.Packet[av.VideoStream]]:
    """The packets from here on. Those of an avi are stamped with the time of decoding, for frames to be told apart."""
    for packet in container.demux(stream):
        if is_avi(container):
            packet.pts = packet.dts
        yield packet


def time_stamps(path: Path) -> np.ndarray:
    """Time stamps of the frames in the order in which they are shown, (T,) int64; empty if one cannot go by them.

    That is so if they do not tell frames apart, or if decoding can only begin at the first frame, as in a gif. In an
    avi they are known, but not which picture has which before it is decoded.
    """
    stamps, keys = [], 0
    with opened(path) as (container, stream):
        for packet in packets(container, stream):
            if packet.size and not packet.is_discard:
                stamps.append(packet.pts)
                keys += packet.is_keyframe
    if None in stamps or keys < 2:
        return np.zeros(0, np.int64)
    order = np.sort(np.array(stamps, np.int64))
    return order if (np.diff(order) > 0).all() else np.zeros(0, np.int64)


def decoded_from(path: Path, stamps: np.ndarray, start: int) -> Generator[tuple[int, float, av.VideoFrame]]:
    """Index, time and frame from `start` on, as long as each has just the time stamp that it should have."""
    if start >= len(stamps):
        return
    with opened(path) as (container, stream):
        try:
            container.seek(int(stamps[start]), stream=stream)
            for frame in _decoded(container, stream):
                if frame.pts is None or frame.is_corrupt:
                    return
                if start < len(stamps) and frame.pts == stamps[start]:
                    yield start, float((frame.pts - stamps[0]) * stream.time_base), frame
                    start += 1
                elif start == len(stamps) or frame.pts > stamps[start]:
                    return
        except av.error.FFmpegError:  # who decodes from the beginning finds out what is wrong
            return


def decoded_from_key(
    path: Path, stamps: np.ndarray, seen: Seen, start: int
) -> Generator[tuple[int, float, av.VideoFrame]]:
    """As `decoded_from`, for an avi: from the last key frame that was seen before `start`, in the order seen then.

    Frames that follow those known are added to `seen`.
    """
    if not seen.keys:
        return
    index = seen.keys[bisect_right(seen.keys, start) - 1]
    met = False
    with opened(path) as (container, stream):
        try:
            container.seek(seen.stamps[index], stream=stream)
            for frame in _decoded(container, stream):
                if frame.pts is None or frame.is_corrupt or index == len(stamps):
                    return
                expected = seen.stamps[index] if index < len(seen.stamps) else frame.pts
                if frame.pts != expected:
                    if met or (frame.key_frame and frame.pts > expected):
                        return
                    continue  # from before the key frame
                met = True
                seen.note(index, frame)
                if index >= start:
                    yield index, float((stamps[index] - stamps[0]) * stream.time_base), frame
                index += 1
        except av.error.FFmpegError:  # who decodes from the beginning finds out what is wrong
            return


def _decoded(container: av.container.InputContainer, stream: av.VideoStream) -> Iterator[av.VideoFrame]:
    """The frames from here on."""
    for packet in packets(container, stream):
        yield from packet.decode()


def _container(path: Path) -> av.container.InputContainer:
    try:
        # Without "file:" FFmpeg would take "a:b.mp4" for an address. Titles of old files are often not UTF-8.
        only_files = {"protocol_whitelist": "file"}
        container = av.open(f"file:{path}", container_options=only_files, metadata_errors="replace")
    except av.error.FFmpegError as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            with plainly(path):
                raise
        raise VideoError(
            f"{shown(path)} is not a video that can be read: {error.strerror}. Re-encode it or remove it."
        ) from error
    if set(container.format.name.split(",")) & PLAYLISTS:
        container.close()
        raise VideoError(f"{shown(path)} is a playlist, not a video. Give the videos that it names.")
    return container


def _video_stream(container: av.container.InputContainer, path: Path) -> av.VideoStream:
    for stream in container.streams.video:
        if not stream.disposition & av.stream.Disposition.attached_pic:
            if stream.codec_context is None:
                raise VideoError(f"{shown(path)} uses a codec that is not known here. Re-encode it, as H.264 say.")
            return stream
    raise VideoError(f"{shown(path)} has no video track, only sound, text or a cover. Remove it from the folder.")
