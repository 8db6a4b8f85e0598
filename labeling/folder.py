"""Which videos are in a folder?

Finds video files and folders of numbered pictures below a folder (or takes a single file), in a fixed order, and
gives each a name that is safe as a file name, unique, and the same whatever else lies in the folder. A store or dataset
remembers paths below its folder: `inside` finds them again, and refuses those that lead out of it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labeling.pictures import is_numbered
from labeling.problems import VideoError, shown
from labeling.video import VIDEO_SUFFIXES

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
    """Find all videos at `path`, a folder or one file; FileNotFoundError if it does not exist.

    Links are followed, but never back into what is searched anyway. A folder with numbered pictures and no video file
    is one video. Files and folders whose names start with a dot belong to other programs.
    """
    start = Path(path)
    if not os.path.lexists(start):
        start = Path(os.path.expanduser(start))
    if not start.exists():
        raise FileNotFoundError(f"{shown(start)} does not exist. Give a folder of videos or one video file.")
    if not start.is_dir():
        root = start.parent.resolve()
        return _folder(root, [root / start.name], {})
    start = start.resolve()
    unreadable: dict[str, str] = {}
    found: list[Path] = []
    for folder, names in _walk(start, unreadable):
        videos = [name for name in names if Path(name).suffix.lower() in VIDEO_SUFFIXES and not name.startswith(".")]
        found.extend(folder / name for name in videos)
        if not videos and sum(map(is_numbered, names)) >= MIN_PICTURES:
            found.append(folder)
    # A folder of pictures that is given itself goes by its own name.
    return _folder(start.parent if found == [start] else start, found, unreadable)


def video_id(relative: str) -> str:
    """A safe file name for a relative path; a path that had to be changed carries a hash of itself."""
    safe = _UNSAFE.sub("_", relative.replace("/", "__"))[:100]
    if safe and safe == relative and not safe.startswith((".", "-", "__")) and safe != "zarr.json":
        return safe
    mark = hashlib.sha256(relative.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{safe.lstrip('._-') or 'video'}-{mark}"


def inside(folder: Path, name: str) -> Path:
    """A file of a folder, by a name that was read from a file; links in the folder may lead anywhere, names may not.

    Raises:
        VideoError: The name is absolute, or has `..` in it that lead out of the folder.
    """
    path = folder / name
    if not Path(os.path.abspath(path)).is_relative_to(os.path.abspath(folder)):
        raise VideoError(f"{shown(name)} leads out of {shown(folder)}, where it should be: it is not read.")
    return path


def _folder(root: Path, found: list[Path], unreadable: dict[str, str]) -> Folder:
    sources = []
    for path in found:
        relative = path.relative_to(root).as_posix()
        try:
            relative.encode()
        except UnicodeEncodeError:
            unreadable[shown(relative)] = f"{shown(path)} has a name that is not UTF-8 text. Rename it."
            continue
        sources.append(Source(video_id(relative), relative, path))
    return Folder(root, sorted(sources), unreadable)


def _walk(start: Path, unreadable: dict[str, str]) -> Iterator[tuple[Path, list[str]]]:
    """Every folder to look into with the names of its files; linked folders last, each folder once."""

    def refused(error: OSError) -> None:
        relative = shown(os.path.relpath(error.filename, start))
        reason = f"cannot be opened: {error.strerror}. Give yourself the right to read it (chmod u+rx)."
        unreadable[relative] = f"{shown(error.filename)} {reason}"

    seen: set[tuple[int, int]] = set()
    waiting = deque([start])
    while waiting:
        for place, folders, names in os.walk(waiting.popleft(), onerror=refused):
            here = Path(place)
            try:
                status = here.stat()
            except OSError as error:  # gone since it was listed
                refused(error)
                continue
            if (status.st_dev, status.st_ino) in seen:
                folders.clear()
                continue
            seen.add((status.st_dev, status.st_ino))
            wanted = sorted(name for name in folders if not name.startswith(".") and not name.endswith(".zarr"))
            links = [name for name in wanted if (here / name).is_symlink()]
            # A link to a folder above would lead around in a circle, or through the whole disk.
            waiting.extend(here / name for name in links if not start.is_relative_to((here / name).resolve()))
            folders[:] = [name for name in wanted if name not in links]
            yield here, sorted(names)
