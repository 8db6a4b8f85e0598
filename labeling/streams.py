"""Where are the pictures in a file?

Opens the picture stream of a file, and jumps into the middle of it: `time_stamps` lists the time stamps of all frames
without decoding any, `decoded_from` begins at the key frame before the one wanted.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
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


def time_stamps(path: Path) -> np.ndarray:
    """Time stamps of the frames in the order in which they are shown, (T,) int64; empty if they do not tell frames."""
    with opened(path) as (container, stream):
        if "avi" in container.format.name:  # says when a frame is to be decoded, not when it is shown
            return np.zeros(0, np.int64)
        stamps = [packet.pts for packet in container.demux(stream) if packet.size and not packet.is_discard]
    if None in stamps:
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
            for frame in container.decode(stream):
                if frame.pts is None or frame.is_corrupt:
                    return
                if start < len(stamps) and frame.pts == stamps[start]:
                    yield start, float((frame.pts - stamps[0]) * stream.time_base), frame
                    start += 1
                elif start == len(stamps) or frame.pts > stamps[start]:
                    return
        except av.error.FFmpegError:  # who decodes from the beginning finds out what is wrong
            return


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
