"""What does the user read when a video cannot be labeled?

`VideoError` is the one error that stages raise for a bad input; its message names the file, the reason and a remedy.
`plainly` turns what the operating system says about a file into such an error.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class VideoError(Exception):
    """A video cannot be labeled; the message says why and what to do."""


def shown(path: str | Path) -> str:
    """A path as one printable line: a name may hold line breaks or bytes that are no text."""
    text = str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


@contextmanager
def plainly(path: Path) -> Iterator[None]:
    """Raise VideoError where reading `path` makes the operating system complain."""
    try:
        yield
    except OSError as error:
        raise VideoError(f"{shown(path)} {_complaint(error)}") from error


def _complaint(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist: it was moved or deleted, or it is a link to nothing. Put it back or remove the link."
    if isinstance(error, PermissionError):
        return "may not be read: permission denied. Give yourself the right to read it (chmod u+r)."
    if error.errno == errno.ELOOP:
        return "is a link that leads back to itself. Remove it."
    return f"cannot be read: {error.strerror or error}. Check the disk or network drive that it is on."
