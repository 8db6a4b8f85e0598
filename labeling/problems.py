"""What does the user read when a video cannot be labeled?

`VideoError` is the one error that stages raise for a bad input; its message names the file, the reason and a remedy.
`plainly` turns what the operating system says about a file into such an error. `RunError` is for what no video is to
blame for; `storing` turns what the operating system says about the store into one.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAKE_A_STORE = "Make one of a folder of videos with: spectrabox label FOLDER --out labels.zarr"


class VideoError(Exception):
    """A video cannot be labeled; the message says why and what to do."""


class Unreadable(VideoError):
    """Nobody knows what is in a video: the disk or the storage does not give it out right now."""


class StoreError(Exception):
    """A store cannot be used; the message says which and what to do."""


class RunError(Exception):
    """A run cannot start or go on; the message says why and what to do."""


class StoreTaken(RunError):
    """Somebody else is writing to the store."""


def shown(path: str | Path) -> str:
    """A path as one printable line: a name may hold line breaks or bytes that are no text."""
    text = str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def in_short(error: BaseException, most: int = 200) -> str:
    """What an error says, as one printable line; its kind if it says nothing."""
    words = " ".join(shown(line.strip()) for line in str(error).splitlines() if line.strip())
    return (words if len(words) <= most else f"{words[:most]}...") or type(error).__name__


@contextmanager
def plainly(path: Path) -> Iterator[None]:
    """Raise Unreadable where reading `path` makes the operating system complain."""
    try:
        yield
    except OSError as error:
        raise Unreadable(f"{shown(path)} {_complaint(error)}") from error


def _complaint(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist: it was moved or deleted, or it is a link to nothing. Put it back or remove the link."
    if isinstance(error, PermissionError):
        return "may not be read: permission denied. Give yourself the right to read it (chmod u+r)."
    if error.errno == errno.ELOOP:
        return "is a link that leads back to itself. Remove it."
    return f"cannot be read: {error.strerror or error}. Check the disk or network drive that it is on."


@contextmanager
def storing(store: object) -> Iterator[None]:
    """Raise RunError where the operating system does not let us write to `store`; a bucket speaks for itself."""
    try:
        yield
    except OSError as error:
        if isinstance(store, Path) and (reason := _refusal(store, error)):
            raise RunError(f"{shown(store)}: {reason}") from error
        raise


def _refusal(store: Path, error: OSError) -> str:
    """Why nothing can be written to the store; empty if the error is about something else."""
    again = "Then run the same command again: it goes on from here."
    if error.errno == errno.ENOSPC:
        free = shutil.disk_usage(next(place for place in (store, *store.parents) if place.exists())).free
        return f"no space left on the disk ({free / 1e6:.1f} MB free). Make room, or choose another --out. {again}"
    if error.errno == errno.EDQUOT:
        return f"your quota on this disk is used up. Make room, or choose another --out. {again}"
    if error.errno == errno.EROFS:
        return f"the disk is read-only. Mount it for writing, or choose another --out. {again}"
    mine = error.filename is not None and Path(str(error.filename)).is_relative_to(store)
    if error.errno in (errno.EACCES, errno.EPERM) and mine:
        return f"{shown(error.filename)} may not be written. Give yourself the right (chmod -R u+rwX). {again}"
    if error.errno in (errno.EISDIR, errno.ENOTDIR) and mine:
        return f"{shown(error.filename)} is a folder in the place of a file, or the reverse. Remove it. {again}"
    return ""
