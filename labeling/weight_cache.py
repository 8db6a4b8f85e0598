"""How are weights kept on this machine?

A cache folder has one folder per name, that appears whole or not at all:

    facebook--dinov2-small/record.json    what was fetched or added: source, revision, licence, hashes
    facebook--dinov2-small/files/         the weights

Beside them: `.partial` (what is being fetched), `.locks`, and `.hashes` (of files that are used where they are). The
whole folder may be copied to a machine without a network, or shared and read-only.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from labeling.checkpoints import KNOWN, WeightsError
from labeling.downloads import Progress, sha256_of

NAME = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?", re.ASCII)
SETTLED = 2.0  # seconds after which a further change of a file surely shows in its time


@dataclass(frozen=True)
class Weights:
    """Weights that are on this machine and were checked: a file, or a folder for `from_pretrained`."""

    path: Path
    sha256: str
    name: str


class FileFacts(BaseModel, extra="forbid", frozen=True):
    """The content of a file, and the size and time that tell whether it may have changed."""

    sha256: str
    size: int
    mtime_ns: int


class Record(BaseModel, extra="forbid", frozen=True):
    """What is known about weights in the cache."""

    name: str
    source: str
    licence: str
    revision: str
    one_file: bool
    files: dict[str, FileFacts]


def folder_name(name: str) -> str:
    """The folder of a name; the name must not lead out of the cache."""
    if not NAME.fullmatch(name) or "--" in name:
        raise WeightsError(f"{name!r} is no name for weights: letters, digits, `_`, `-`, `.`, and at most one `/`.")
    return name.replace("/", "--")


def names_in(home: Path) -> list[str]:
    """The names that the cache holds."""
    return sorted(path.parent.name.replace("--", "/") for path in home.glob("[!.]*/record.json"))


def scratch_of(home: Path, name: str) -> Path:
    """Where weights of this name are put together before they appear."""
    return home / ".partial" / folder_name(name)


@contextmanager
def locked(home: Path, name: str, tell: Progress) -> Iterator[None]:
    """Only one process at a time fetches or adds a name; the others wait and find it done."""
    path = home / ".locks" / f"{folder_name(name)}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        tell(f"{name}: waiting for another process that fetches it", 0, 0)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def read_record(home: Path, name: str) -> Record | None:
    """What the cache knows about a name, or None."""
    path = home / folder_name(name) / "record.json"
    try:
        record = Record.model_validate_json(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise WeightsError(f"{path} is damaged. Fetch or add {name} again: that replaces it.") from error
    if not record.files or any(Path(file).name != file for file in record.files):
        raise WeightsError(f"{path} does not name files of its folder. Fetch or add {name} again: that replaces it.")
    return record if record.name == name else None


def publish(home: Path, files: Path, record: Record) -> Weights:
    """Give complete files their place in the cache, with the record and in one step."""
    record = record.model_copy(update={"files": {path.name: facts(path) for path in sorted(files.iterdir())}})
    _write(files.parent / "record.json", record)
    place, scratch = home / folder_name(record.name), scratch_of(home, record.name)
    if place.exists():
        os.replace(place, Path(tempfile.mkdtemp(dir=scratch)) / "old")
    os.replace(files.parent, place)
    shutil.rmtree(scratch, ignore_errors=True)
    return _handed_out(home, record)


def remove(home: Path, name: str) -> int | None:
    """Delete all that the cache has of a name; returns the bytes that this frees, or None if there was nothing.

    What was added as a link is not touched: only the link goes.
    """
    places = [place for place in (home / folder_name(name), scratch_of(home, name)) if place.is_dir()]
    files = [path for place in places for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    freed = sum(path.stat().st_size for path in files)
    for place in places:
        with suppress(FileNotFoundError):  # without it, nobody takes what is left for weights
            (place / "record.json").unlink()
        shutil.rmtree(place)
    return freed if places else None


def check(home: Path, record: Record, every_byte: bool) -> Weights:
    """Compare files with their record: all of each, or only those whose size or time is not as recorded."""
    place = home / folder_name(record.name)
    again = f"`spectrabox weights fetch {record.name}` or " if record.name in KNOWN or "/" in record.name else ""
    remedy = f"{again}`spectrabox weights add {record.name} PATH` replaces it."
    seen = {}
    for name, known in record.files.items():
        path = place / "files" / name
        try:
            seen[name] = known if not every_byte and _unchanged(path, known) else facts(path)
        except FileNotFoundError as error:
            raise WeightsError(f"{path} of the weights {record.name} is gone. {remedy}") from error
        if seen[name].sha256 != known.sha256:
            raise WeightsError(
                f"{path} of the weights {record.name} is damaged: expected the SHA-256 {known.sha256}, "
                f"got {seen[name].sha256}. {remedy}"
            )
    if seen != record.files:
        with suppress(OSError):  # a shared folder may be read-only: then they are read each time
            _write(place / "record.json", record.model_copy(update={"files": seen}))
    return _handed_out(home, record)


def facts(path: Path) -> FileFacts:
    """Read a file."""
    found = path.stat()
    return FileFacts(sha256=sha256_of(path), size=found.st_size, mtime_ns=found.st_mtime_ns)


def remembered_sha256(home: Path, path: Path) -> str:
    """The hash of a file outside the cache, read again only if its size or time changed."""
    note = home / ".hashes" / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"
    with suppress(OSError, ValidationError):
        known = FileFacts.model_validate_json(note.read_text())
        if _unchanged(path, known):
            return known.sha256
    fresh = facts(path)
    if _unchanged(path, fresh) and time.time() - fresh.mtime_ns / 1e9 > SETTLED:
        with suppress(OSError):
            note.parent.mkdir(parents=True, exist_ok=True)
            _write(note, fresh)
    return fresh.sha256


def combined_sha256(hashes: Mapping[str, str], one_file: bool) -> str:
    """One hash for weights: that of the file, or that of the sorted list of the files' hashes."""
    if one_file:
        return next(iter(hashes.values()))
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def _handed_out(home: Path, record: Record) -> Weights:
    files = home / folder_name(record.name) / "files"
    sha256 = combined_sha256({name: known.sha256 for name, known in record.files.items()}, record.one_file)
    return Weights(files / next(iter(record.files)) if record.one_file else files, sha256, record.name)


def _unchanged(path: Path, known: FileFacts) -> bool:
    found = path.stat()
    return (found.st_size, found.st_mtime_ns) == (known.size, known.mtime_ns)


def _write(path: Path, content: BaseModel) -> None:
    """Write a file whole or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".new", delete=False) as file:
        file.write(content.model_dump_json(indent=1))
    os.replace(file.name, path)
