"""Odd inputs, really encoded: everything a folder of videos may hold that is not a plain mp4.

Each maker writes one file (or folder) and returns its path. The picture is always the same kind: a bright square on a
dark ground that moves to the right, with a mark in its upper left corner, so that a test can tell what is up.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

MATRICES = {  # clockwise turns for display -> a b u / c d v / x y w of an mp4 track header, 16.16 fixed point
    0: (1, 0, 0, 1),
    90: (0, 1, -1, 0),
    180: (-1, 0, 0, -1),
    270: (0, -1, 1, 0),
    "mirrored": (-1, 0, 0, 1),
}
FORMATS = {"gif": "rgb8", "mjpeg": "yuvj420p"}  # of pixels, where a codec does not take the usual one


def pictures(count: int = 12, height: int = 48, width: int = 64) -> np.ndarray:
    """Frames (T, H, W, 3): grey ground, upper left corner white, a square that moves two pixels a frame."""
    frames = np.full((count, height, width, 3), 40, np.uint8)
    corner = max(1, min(height, width) // 4)
    frames[:, :corner, :corner] = 235
    for index, frame in enumerate(frames):
        left = (width // 2 + 2 * index) % width
        frame[height // 2 : height // 2 + corner, left : left + corner] = 160
    return frames


def noisy(count: int = 60) -> np.ndarray:
    """Pictures that need bytes, so that damage in the middle of a file hits a frame in the middle."""
    frames = pictures(count, 96, 128).astype(int)
    noise = np.random.default_rng(0).integers(-20, 20, frames.shape)
    return (frames + noise).clip(0, 255).astype(np.uint8)


def video(
    path: Path,
    frames: np.ndarray | None = None,
    codec: str = "libx264",
    pix_fmt: str = "",
    rate: int = 10,
    times: list[float] | None = None,
    options: dict[str, str] | None = None,
    container: str | None = None,
    sound: bool = False,
    **codec_options: str,
) -> Path:
    """Encode frames; `times` (seconds, to a hundredth) make the frame rate variable."""
    frames = pictures() if frames is None else frames
    with av.open(str(path), "w", format=container, options=options or {}) as out:
        stream = out.add_stream(codec, rate=rate)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = pix_fmt or FORMATS.get(codec, "yuv420p")
        stream.codec_context.thread_count = 1
        if codec == "libx264":
            codec_options.setdefault("crf", "10")
        if codec == "libx265":
            codec_options.setdefault("x265-params", "log-level=none")
        if codec.startswith("libvpx"):
            codec_options = {"deadline": "realtime", "cpu-used": "8", "crf": "10", "b": "2000000", **codec_options}
        stream.codec_context.options = codec_options
        if times is not None:
            stream.codec_context.time_base = Fraction(1, 100)
        audio = out.add_stream("aac", rate=16000) if sound else None
        for index, image in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            if times is not None:
                frame.pts, frame.time_base = round(times[index] * 100), Fraction(1, 100)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
        if audio is not None:
            _hum(out, audio)
    return path


def cut(path: Path, share: float = 0.6) -> Path:
    """Keep only the first part of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def damaged(path: Path, start: float = 0.5, end: float = 0.6, fill: bytes | None = None) -> Path:
    """Overwrite a stretch in the middle of a file, with noise unless `fill` says otherwise."""
    content = bytearray(path.read_bytes())
    first, last = int(len(content) * start), int(len(content) * end)
    noise = np.random.default_rng(0).integers(0, 256, last - first, dtype=np.uint8).tobytes()
    content[first:last] = noise if fill is None else fill * (last - first)
    path.write_bytes(bytes(content))
    return path


def turned(path: Path, turn: int | str) -> Path:
    """Patch the display matrix in the track header of an mp4."""
    content = bytearray(path.read_bytes())
    header = content.index(b"tkhd") + 4
    place = header + (40 if content[header] == 0 else 52)
    a, b, c, d = (value << 16 for value in MATRICES[turn])
    content[place : place + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(bytes(content))
    return path


def sound_only(path: Path, cover: bool = False) -> Path:
    """A file with sound, and perhaps a cover picture, but no video."""
    container = "mp3" if cover else None
    with av.open(str(path), "w", format=container) as out:
        audio = out.add_stream("libmp3lame" if cover else "aac", rate=16000)
        picture = out.add_stream("png", rate=1) if cover else None
        if picture is not None:
            picture.height, picture.width, picture.pix_fmt = 32, 32, "rgb24"
            picture.disposition = av.stream.Disposition.attached_pic
            out.mux(picture.encode(av.VideoFrame.from_ndarray(pictures(1, 32, 32)[0], format="rgb24")))
            out.mux(picture.encode())
        _hum(out, audio)
    return path


def size_change(path: Path, sizes: tuple[tuple[int, int], ...] = ((48, 64), (64, 48)), frames: int = 6) -> Path:
    """A raw H.264 stream whose pictures change their size on the way."""
    content = b""
    for height, width in sizes:
        part = video(path.with_name(f"part_{height}.h264"), pictures(frames, height, width), container="h264")
        content += part.read_bytes()
        part.unlink()
    path.write_bytes(content)
    return path


def picture_folder(
    folder: Path, numbers: list[int] | None = None, prefix: str = "frame_", suffix: str = ".png", height: int = 48
) -> Path:
    """A folder of numbered pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = list(range(8)) if numbers is None else numbers
    for number, image in zip(numbers, pictures(len(numbers), height), strict=True):
        ok, code = cv2.imencode(suffix, cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        assert ok
        (folder / f"{prefix}{number:04d}{suffix}").write_bytes(code.tobytes())
    return folder


def without_rights(folder: Path, function: Callable[[], str]) -> str:
    """What `function` returns or raises, as text, for a user who is not root and so may not read everything.

    Runs in a process of its own; the folders above `folder` (a test's own) are opened to that user meanwhile.
    """
    if os.geteuid() != 0:
        return _answer(function)
    closed = [place for place in [folder, *folder.parents] if place.stat().st_mode & 0o5 != 0o5]
    modes = [place.stat().st_mode for place in closed]
    for place in closed:
        place.chmod(0o755)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setegid(65534)
        os.seteuid(65534)
        os.write(write, _answer(function).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(child, 0)
    for place, mode in zip(closed, modes, strict=True):
        place.chmod(mode)
    return text


def _answer(function: Callable[[], str]) -> str:
    try:
        return function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _hum(out: av.container.OutputContainer, stream: av.AudioStream, seconds: float = 1.0) -> None:
    wave = (np.sin(np.arange(int(16000 * seconds)) / 20) * 8000).astype(np.int16)
    for start in range(0, len(wave) - 1152, 1152):
        frame = av.AudioFrame.from_ndarray(wave[None, start : start + 1152], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 16000, start, Fraction(1, 16000)
        out.mux(stream.encode(frame))
    out.mux(stream.encode())
