"""Can this machine label videos, and what is to be done where it cannot?

Each check looks at one thing, really uses it, and returns findings: what was looked at, how it stands, what to do.
`broken` is what is needed, or was installed or asked for, and does not work; a `note` is worth knowing and no more.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    import numpy as np
    from packaging.requirements import Requirement

# What is usual in each container, as encoders write it: suffix -> codec, pixels.
CONTAINERS = {
    "mp4": ("libx264", "yuv420p"), "mov": ("libx265", "yuv420p"), "m4v": ("mpeg4", "yuv420p"),
    "avi": ("mjpeg", "yuvj420p"), "mkv": ("libx264", "yuv420p"), "webm": ("libvpx-vp9", "yuv420p"),
    "gif": ("gif", "rgb8"),
}  # fmt: skip
PICTURES = ("jpg", "png")
FRAMES = 6
USES = {
    "foundation": "profiles with networks", "sam2": "the tracker sam2-native", "dask": "work on many machines",
    "datasets": "HDF5, LeRobot, Parquet and data frames", "train": "training", "sim": "Push-T, Reacher and Cube",
    "s3": "videos and stores in a bucket",
}  # fmt: skip
FOR_DEVELOPERS = ("dev", "docs")
OTHER_OPENCV = ("opencv-python", "opencv-contrib-python", "opencv-contrib-python-headless")
AGAIN = "pip install -c constraints.txt --force-reinstall"
LEAST, LITTLE = 100 * 10**6, 5 * 10**9  # bytes: too few to label a single video, and to train
READ_WHOLE = 2 * 10**9  # bytes of weights that are read in a few seconds

State = Literal["good", "note", "broken"]


@dataclass(frozen=True)
class Finding:
    """How one thing stands. What to do about it is the remedy, or the end of the words where an error says it."""

    what: str
    state: State
    words: str
    remedy: str = ""


def machine() -> list[Finding]:
    """Python and the computer."""
    words = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    if "SC_PHYS_PAGES" in os.sysconf_names:
        words += f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 1e9:.0f} GB of memory"
    if sys.maxsize < 2**32:
        return [Finding("python", "broken", f"{words}; 32 bits", "Install a Python of 64 bits.")]
    if not sys.platform.startswith("linux"):
        return [Finding("python", "note", words, "It is tested on Linux; elsewhere, run `make test` once.")]
    return [Finding("python", "good", words)]


def packages() -> list[Finding]:
    """What was installed with Spectrabox, what of its extras is here, and what stands in the way."""
    from importlib.metadata import distributions, metadata, requires

    from packaging.requirements import Requirement

    wanted = [Requirement(text) for text in requires("spectrabox") or []]
    lacking = _lacking(wanted, "")
    core = Finding("packages", "good", "all that labeling needs is installed, in versions that it works with")
    if lacking:
        core = Finding("packages", "broken", ", ".join(lacking), "pip install -c constraints.txt .")
    extras = metadata("spectrabox").get_all("Provides-Extra") or []
    missing = {name: _lacking(wanted, name) for name in extras if name not in FOR_DEVELOPERS}
    here = [name for name, lacks in missing.items() if not lacks]
    findings = [core, Finding("extras", "good", f"installed: {', '.join(here) or 'none'}")]
    for name, lacks in missing.items():
        if lacks:
            words = f"{name} ({USES.get(name, 'optional')}) is not here: {', '.join(lacks)}"
            findings.append(
                Finding("extras", "note", words, f"If you want it: pip install -c constraints.txt '.[{name}]'")
            )
    names = {str(one.metadata["Name"]).lower() for one in distributions()}
    if others := sorted(names.intersection(OTHER_OPENCV)):
        words = f"{' and '.join(others)} beside opencv-python-headless: one's files lie over the other's"
        remedy = f"pip uninstall -y {' '.join(others)} && {AGAIN} --no-deps opencv-python-headless"
        findings.append(Finding("packages", "note", words, remedy))
    return findings


def decoders() -> list[Finding]:
    """Whether a clip that is made here in each usual container comes back as it was."""
    import numpy as np

    clip = np.zeros((FRAMES, 48, 64, 3), np.uint8)  # black and white: the few colours of a gif have them, too
    for index, frame in enumerate(clip):
        frame[12:36, 4 * index : 4 * index + 24] = 255
    wrong = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in (*CONTAINERS, *PICTURES):
            if fault := _fault_of(kind, clip, Path(folder)):
                wrong[kind] = fault
    if not wrong:
        return [Finding("decoders", "good", f"{' '.join(CONTAINERS)}, folders of {' and '.join(PICTURES)}: as written")]
    package = "opencv-python-headless" if set(wrong).issubset(PICTURES) else "av"
    return [Finding("decoders", "broken", f"{kind}: {fault}", f"{AGAIN} {package}") for kind, fault in wrong.items()]


def networks() -> list[Finding]:
    """Whether torch computes, and where."""
    if find_spec("torch") is None:
        remedy = "To train or to use networks: pip install -c constraints.txt '.[train]' or '.[foundation]'"
        return [Finding("torch", "note", "is not here; the embedded profile does without", remedy)]
    import torch

    from labeling.devices import torch_device

    device = torch_device("auto")
    if float((torch.ones(8, 8, device=device) @ torch.ones(8, 8, device=device)).sum()) != 8**3:
        return [Finding("torch", "broken", f"{torch.__version__} computes wrongly on {device}", f"{AGAIN} torch")]
    name = torch.cuda.get_device_name() if device.type == "cuda" else device.type
    findings = [Finding("torch", "good", f"{torch.__version__} computes on {name}")]
    if device.type == "cpu" and Path("/dev/nvidia0").exists():
        remedy = "Install the build of torch for your driver's CUDA (`nvidia-smi` says which), then look again."
        findings.append(Finding("torch", "note", "there is an NVIDIA GPU, and torch cannot use it", remedy))
    if find_spec("torchvision") is not None:
        try:
            import_module("torchvision")
        except (ImportError, RuntimeError) as error:
            words = f"torchvision does not fit torch and keeps transformers from loading ({_line(error)})"
            findings.append(Finding("torch", "broken", words, "pip uninstall -y torchvision: nothing here needs it."))
    return findings


def weights(folder: Path | None = None) -> list[Finding]:
    """Which checkpoints are here, and whether they are whole."""
    from labeling.weights import WeightsError, cache_folder, listing, resolve, verify

    here = [line for line in listing(folder) if line.path is not None]
    if not here:
        words = f"none in {cache_folder(folder)}; the embedded profile needs none"
        return [Finding("weights", "good", words, "For others: spectrabox weights list")]
    findings, unread = [], READ_WHOLE
    for line in here:
        name, place = line.checkpoint.name, line.path
        assert place is not None
        unread -= sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        try:
            if unread >= 0:
                (found,) = verify(name, folder)
                words, sha256 = found.problem, found.sha256
            else:
                words, sha256 = "", resolve(name, folder).sha256
        except WeightsError as error:
            words = str(error)
        if words:
            findings.append(Finding("weights", "broken", words))
            continue
        how = "" if unread >= 0 else "; by size and time only: `spectrabox weights verify` reads every byte"
        findings.append(Finding("weights", "good", f"{name}, SHA-256 {sha256[:12]}...{how}"))
    return findings


def folders(out: Path) -> list[Finding]:
    """Whether there is room, and the right to write: where results go, and where videos and pictures lie meanwhile."""
    try:
        scratch = Path(tempfile.gettempdir())
    except FileNotFoundError:
        remedy = "Make room in /tmp, or set TMPDIR to a folder that may be written."
        return [
            _room("results", out),
            Finding("disk", "broken", "no folder for temporary files can be written", remedy),
        ]
    return [_room("results", out), _room("temporary files", scratch)]


def _room(purpose: str, folder: Path) -> Finding:
    """How a folder stands that may not be there yet."""
    place = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    elsewhere = "choose another folder with --out" if purpose == "results" else "set TMPDIR to another folder"
    free = shutil.disk_usage(place).free
    words = f"{folder.absolute()}, for {purpose}: {free / 1e9:.1f} GB free"
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(1 << 20))
            file.flush()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            words += f", but nothing can be written ({error.strerror})"
            return Finding("disk", "broken", words, f"Give yourself the right to write there, or {elsewhere}.")
        free = 0
    if free < LEAST:
        return Finding("disk", "broken", words, f"Make room, or {elsewhere}.")
    if free < LITTLE:
        return Finding("disk", "note", words, f"Enough to label; to train on many frames make room, or {elsewhere}.")
    return Finding("disk", "good", words)


def _lacking(wanted: Iterable[Requirement], extra: str) -> list[str]:
    """The requirements of an extra, or of labeling itself, that are not met; each with what is there instead."""
    from importlib.metadata import PackageNotFoundError, version

    lacking = []
    for one in wanted:
        if (one.marker is None) != (not extra) or (one.marker and not one.marker.evaluate({"extra": extra})):
            continue
        try:
            if one.specifier.contains(found := version(one.name), prereleases=True):
                continue
            lacking.append(f"{one.name} {found} (wanted: {one.specifier})")
        except PackageNotFoundError:
            lacking.append(one.name)
    return lacking


def _fault_of(kind: str, clip: np.ndarray, folder: Path) -> str:
    """What is wrong with a clip once it is written and read again; empty if nothing is."""
    import av
    import numpy as np

    from labeling.video import Video, VideoError

    path = folder / (f"clip.{kind}" if kind in CONTAINERS else kind)
    try:
        _write(path, kind, clip)
        frames = np.stack([frame.image for frame in Video(path).frames()])
    except (av.FFmpegError, VideoError, ValueError, RuntimeError) as error:
        return _line(error)
    if frames.shape != clip.shape:
        return f"came back as {len(frames)} frames of {frames.shape[1:3]}, not {len(clip)} of {clip.shape[1:3]}"
    change = float(np.abs(frames.astype(int) - clip).mean())
    return f"frames came back changed, by {change:.0f} of 255 on average" if change > 12 else ""


def _write(path: Path, kind: str, clip: np.ndarray) -> None:
    import av
    import cv2

    if kind in PICTURES:
        path.mkdir()
        for index, picture in enumerate(clip):
            cv2.imwrite(str(path / f"{index}.{kind}"), picture[..., ::-1])
        return
    codec, pixels = CONTAINERS[kind]
    options = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    with av.open(str(path), "w") as container:
        stream = cast("av.VideoStream", container.add_stream(codec, rate=10, options=options))
        stream.height, stream.width = clip.shape[1:3]
        stream.pix_fmt = pixels
        for picture in clip:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def _line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
