"""Where do videos and stores lie?

A place is a `Path` on a disk of this machine, or a `Url` in a bucket of S3-compatible object storage. Both are walked
alike (`/`, `name`, `exists`); what needs a file asks for it with `fetched`, what needs zarr with `open_group`.
Credentials come from the environment alone: a URL that carries some is refused.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Literal

import zarr

from labeling.problems import RunError, VideoError, shown

# A URL that went through `Path`, as those of the command line do, has lost a slash and is still the same URL.
_URL = re.compile(r"(?P<scheme>s3|s3a|gs|gcs|az|abfss?|https?|ftp|file):/{1,2}(?P<rest>.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SECRET = re.compile(r"x-amz-|signature=|awsaccesskeyid=", re.IGNORECASE)


class StorageError(RunError):
    """Object storage cannot be used, or not in this way; the message says why and what to do."""


@dataclass(frozen=True, order=True)
class Url:
    """An object, or a folder of objects, in a bucket."""

    bucket: str
    key: str = ""  # no slash at either end; empty: the whole bucket

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}".rstrip("/")

    def __truediv__(self, name: str) -> Url:
        return Url(self.bucket, _key(PurePosixPath(self.key, name)))

    @property
    def name(self) -> str:
        """The last part of the key, or the bucket."""
        return PurePosixPath(self.key).name or self.bucket

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        """The suffix of the name, with its dot."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> Url:
        """The folder that this is in; that of a bucket is itself."""
        return Url(self.bucket, _key(PurePosixPath(self.key).parent))

    def with_name(self, name: str) -> Url:
        """What is called `name` beside this."""
        return self.parent / name

    def exists(self) -> bool:
        """Whether there is such an object or a folder with objects in it."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether there is such an object."""
        return _storage().facts_of(self) is not None

    def is_dir(self) -> bool:
        """Whether there are objects below."""
        return bool(_storage().holds_objects(self))

    def listing(self) -> tuple[list[str], list[str]]:
        """Names of the folders and of the objects right below; VideoError if a name there is none for a file."""
        folders, files = _storage().listed(self)
        return folders, [name for name, _, _ in files]


Place = Path | Url


def place(given: str | Place) -> Place:
    """The place that a user means.

    Raises:
        StorageError: It is a URL that cannot be used, or one with credentials in it.
    """
    if isinstance(given, Url) or not (match := _URL.fullmatch(str(given))):
        return given if isinstance(given, Url) else Path(given)
    bucket, _, key = match["rest"].partition("/")
    if "@" in bucket or _SECRET.search(match["rest"]):  # and is not repeated here: this may end up in a log
        raise StorageError(
            "The URL has credentials in it, which would end up in stores and logs. Set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY in the environment, and give the URL as s3://bucket/path."
        )
    if match["scheme"] != "s3" or not _BUCKET.fullmatch(bucket):
        raise StorageError(f"{shown(str(given))} is no URL that can be used here. Give a path, or s3://bucket/path.")
    return Url(bucket, _key(PurePosixPath(key)))


def on_disk(given: str | Place, what: str = "this") -> Path:
    """A path on a disk of this machine; StorageError, which says `what` must be there, if it is a URL."""
    found = place(given)
    if isinstance(found, Url):
        raise StorageError(f"{found}: {what} must be on a disk of this machine. Give a path; copy it from or to there.")
    return found.expanduser()


@contextmanager
def fetched(source: Place, watch: Callable[[], None] | None = None) -> Iterator[Path]:
    """A video, or another file, on this machine's disk for as long as it is worked on.

    What is on a disk stays where it is. From object storage it is copied into a temporary folder, which goes in the
    end, whatever happens; `watch` is called while bytes come in. A folder of pictures comes with its pictures.

    Raises:
        VideoError: It is not there, or may not be read. Errors about the copy name the URL.
        StorageError: The object storage cannot be reached.
    """
    if isinstance(source, Path):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="spectrabox-") as folder:
        copy = _storage().fetch(source, Path(folder), watch)
        try:
            yield copy
        except VideoError as error:
            raise type(error)(str(error).replace(str(copy), str(source))) from error


State = list[tuple[str, int, int | str]]


def state_of(source: Place) -> State:
    """Name, size and time (or, of an object, its tag) of a file, or of the files of a folder, without reading any."""
    if isinstance(source, Path):
        status = source.stat()
        if not stat.S_ISDIR(status.st_mode):
            return [(source.name, status.st_size, status.st_mtime_ns)]
        with os.scandir(source) as files:
            facts = sorted((file.name, file.stat()) for file in files)
        return [(name, status.st_size, status.st_mtime_ns) for name, status in facts]
    return _storage().state_of(source)


def states_of(sources: Sequence[Place]) -> list[State]:
    """The states of many at once, in a bucket by one request a folder; empty for what is gone or may not be seen."""
    urls = [source for source in sources if isinstance(source, Url)]
    there = _storage().states_in(urls) if urls else {}
    states: list[State] = []
    for source in sources:
        try:
            states.append(there.get(source, []) if isinstance(source, Url) else state_of(source))
        except OSError:
            states.append([])
    return states


def open_group(store: Place, mode: Literal["r", "r+", "a"] = "r") -> zarr.Group:
    """The zarr group at a place."""
    if isinstance(store, Path):
        return zarr.open_group(str(store), mode=mode, zarr_format=3)
    return zarr.open_group(_storage().zarr_store(store, read_only=mode == "r"), mode=mode, zarr_format=3)


def absolute(given: str | Place) -> Place:
    """A place whatever folder one is in."""
    found = place(given)
    return found.expanduser().resolve() if isinstance(found, Path) else found


def make_room(store: Place) -> None:
    """Make the folder for a store, without what a run that was killed left half-written; a bucket has neither."""
    if isinstance(store, Path):
        store.parent.mkdir(parents=True, exist_ok=True)
        sweep(store)


def sweep(store: Place) -> None:
    """Remove files that a process which was killed left half-written, while nobody writes; a bucket has none."""
    if isinstance(store, Path):
        for left_over in [*store.glob("*.partial"), *store.glob("*/*.partial")]:
            left_over.unlink(missing_ok=True)


def folders_in(folder: Place) -> list[str]:
    """Names of the folders in a folder, sorted; none if it is not there."""
    if isinstance(folder, Path):
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return folder.listing()[0]


@contextmanager
def leased(store: Url, run: str = "") -> Iterator[Callable[[], None]]:
    """Hold a store in a bucket for one run alone; see `leases.py`."""
    _storage()
    from labeling import leases

    with leases.leased(store, run) as check:
        yield check


def refuse_ended(store: Url, run: str) -> None:
    """RunError unless a run still holds a store in a bucket."""
    _storage()
    from labeling import leases

    leases.refuse_ended(store, run)


def leased_by(store: Url) -> str:
    """Who holds a store in a bucket; empty if nobody does."""
    _storage()
    from labeling import leases

    return leases.leased_by(store)


def _key(path: PurePosixPath) -> str:
    return str(path).strip("/") if path.parts else ""


def _storage() -> ModuleType:
    """The module that talks to object storage; imported when the first URL is used, not before."""
    try:
        from labeling import object_storage
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise StorageError("URLs of object storage need obstore: pip install -c constraints.txt '.[s3]'") from error
    return object_storage
