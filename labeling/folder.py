"""Which videos are in a folder?

Finds video files and folders of numbered pictures below a folder (or takes a single file), in a fixed order, and
gives each a name that is safe as a file name, unique, and the same whatever else lies in the folder.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from labeling.video import PICTURE_SUFFIXES, VIDEO_SUFFIXES

MIN_PICTURES = 2  # a lone picture is not a video
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, order=True)
class Source:
    """A video to label."""

    id: str
    relative: str  # path below the folder given, with forward slashes
    path: Path


@dataclass(frozen=True)
class Folder:
    """What `find_videos` found."""

    root: Path
    sources: list[Source]
    unreadable: dict[str, str]  # relative path -> why it could not be looked into


def find_videos(path: str | Path) -> Folder:
    """Find all videos at `path`, a folder or one file; FileNotFoundError if it does not exist."""
    start = Path(path).expanduser()
    if not start.exists():
        raise FileNotFoundError(f"{start} does not exist. Give a folder of videos or one video file.")
    start = start.resolve()
    if start.is_file():
        return Folder(start.parent, [_source(start, start.parent)], {})
    if _is_picture_folder(start):
        return Folder(start.parent, [_source(start, start.parent)], {})
    sources: list[Source] = []
    unreadable: dict[str, str] = {}

    def refused(error: OSError) -> None:
        relative = os.path.relpath(error.filename, start)
        unreadable[relative] = f"{error.filename} cannot be opened: {error.strerror}. Check its permissions."

    for folder, folders, files in os.walk(start, onerror=refused):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and not name.endswith(".zarr"))
        here = Path(folder)
        if here != start and _is_picture_folder(here):
            sources.append(_source(here, start))
        for name in sorted(files):
            if Path(name).suffix.lower() in VIDEO_SUFFIXES and not name.startswith("."):
                sources.append(_source(here / name, start))
    return Folder(start, sorted(sources), unreadable)


def video_id(relative: str) -> str:
    """A safe file name for a relative path; a path that had to be changed carries a hash of itself."""
    safe = _UNSAFE.sub("_", relative.replace("/", "__")).lstrip(".")[:100]
    if safe == relative and not safe.startswith("__") and safe != "zarr.json":
        return safe
    mark = hashlib.sha256(relative.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{safe.lstrip('_') or 'video'}-{mark}"


def _source(path: Path, root: Path) -> Source:
    relative = path.relative_to(root).as_posix()
    return Source(video_id(relative), relative, path)


def _is_picture_folder(folder: Path) -> bool:
    """Whether a folder holds numbered pictures (and so is one video)."""
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    pictures = [n for n in names if Path(n).suffix.lower() in PICTURE_SUFFIXES and Path(n).stem[-1:].isdigit()]
    return len(pictures) >= MIN_PICTURES
