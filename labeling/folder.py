"""Which videos are in a folder?

Finds video files and folders of numbered pictures below a folder (or takes a single file), in a fixed order, and
gives each a name that is safe as a file name, unique, and the same whatever else lies in the folder, on a disk or in a
bucket. A store or dataset remembers paths below its folder: `inside` finds them again, and refuses those that lead out.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from labeling.pictures import is_numbered
from labeling.places import Place, Url, on_disk, place
from labeling.problems import VideoError, shown
from labeling.video import VIDEO_SUFFIXES

MIN_PICTURES = 2  # a lone picture is not a video
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, order=True)
class Source:
    """A video to label."""

    id: str
    relative: str  # path below the folder given, with forward slashes
    path: Place

    @property
    def file(self) -> Path:
        """The video on a disk of this machine; StorageError if it is in a bucket."""
        return on_disk(self.path, "the video")


@dataclass(frozen=True)
class Folder:
    """What `find_videos` found."""

    root: Place
    sources: list[Source]
    unreadable: dict[str, str]  # relative path -> why it could not be looked into


def find_videos(path: str | Place) -> Folder:
    """Find all videos at `path`, a folder or one file; FileNotFoundError if it does not exist.

    Links are followed, but never back into what is searched anyway. A folder with numbered pictures and no video file
    is one video. Files and folders whose names start with a dot belong to other programs.
    """
    start = _existing(place(path))
    if not start.is_dir():
        return _folder(start.parent, [start], {})
    unreadable: dict[str, str] = {}
    found: list[Place] = []
    walk = _walk_bucket(start, unreadable) if isinstance(start, Url) else _walk(start, unreadable)
    for folder, names in walk:
        videos = [name for name in names if os.path.splitext(name)[1].lower() in VIDEO_SUFFIXES and name[0] != "."]
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


@overload
def inside(folder: Path, name: str) -> Path: ...
@overload
def inside(folder: Place, name: str) -> Place: ...
def inside(folder: Place, name: str) -> Place:
    """A file of a folder, by a name that was read from a file; links in the folder may lead anywhere, names may not.

    Raises:
        VideoError: The name is absolute, or has `..` in it that lead out of the folder.
    """
    top = os.path.abspath(folder) if isinstance(folder, Path) else f"/{folder.bucket}/{folder.key}"
    if not Path(os.path.abspath(os.path.join(top, name))).is_relative_to(top):
        raise VideoError(f"{shown(name)} leads out of {shown(str(folder))}, where it should be: it is not read.")
    return folder / name


def is_gone(video: Place) -> bool:
    """Whether a video is surely no longer there; a disk that does not answer says nothing about it."""
    try:
        if isinstance(video, Path) and video.is_dir():
            return not any(is_numbered(file.name) for file in video.iterdir())
        return not video.exists()
    except OSError:
        return False


def _existing(start: Place) -> Place:
    """What a place leads to, with an absolute path; a link to a file goes by its own name."""
    if isinstance(start, Path):
        if not os.path.lexists(start):
            start = Path(os.path.expanduser(start))
        if start.is_dir():
            return start.resolve()
    if not start.exists():
        raise FileNotFoundError(f"{shown(str(start))} does not exist. Give a folder of videos or one video file.")
    return start.parent.resolve() / start.name if isinstance(start, Path) else start


def _folder(root: Place, found: list[Place], unreadable: dict[str, str]) -> Folder:
    sources = []
    for path in found:
        relative = _relative(path, root)
        try:
            relative.encode()
        except UnicodeEncodeError:
            unreadable[shown(relative)] = f"{shown(str(path))} has a name that is not UTF-8 text. Rename it."
            continue
        sources.append(Source(video_id(relative), relative, path))
    return Folder(root, sorted(sources, key=lambda source: (source.id, source.relative)), unreadable)


def _relative(path: Place, root: Place) -> str:
    """A path below `root` as text, without pathlib's parsing: folders with thousands of files are looked at often."""
    return str(path).removeprefix(str(root)).lstrip("/") or "."


def _walk_bucket(start: Url, unreadable: dict[str, str]) -> Iterator[tuple[Url, list[str]]]:
    """Every folder of a bucket to look into with the names of its objects; no look into stores, which hold many."""
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        try:
            folders, names = here.listing()
        except VideoError as error:
            unreadable[_relative(here, start)] = str(error)
            continue
        waiting.extend(here / name for name in folders if not name.startswith(".") and not name.endswith(".zarr"))
        yield here, names


def _walk(start: Path, unreadable: dict[str, str]) -> Iterator[tuple[Path, list[str]]]:
    """Every folder to look into with the names of its files; linked folders last, each folder once."""

    def refused(error: OSError) -> None:
        relative = shown(os.path.relpath(error.filename, start))
        reason = f"cannot be opened: {error.strerror}. Give yourself the right to read it (chmod u+rx)."
        unreadable[relative] = f"{shown(error.filename)} {reason}"

    seen: set[tuple[int, int]] = set()
    waiting = deque([start])
    while waiting:
        for top, folders, names in os.walk(waiting.popleft(), onerror=refused):
            here = Path(top)
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
