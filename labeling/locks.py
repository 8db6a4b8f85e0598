"""Who may write to a store?

One run at a time holds it, and the workers of that run, wherever they are, hold a second lock while they write. A lock
dies with its process, so a kill leaves nothing to clean up; and a new run waits for workers that a killed run left.
Reviewers write to a log that no run touches, one at a time and for a moment each, and not while there is a run.
For stores in a bucket see `leases.py`.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from labeling.files import refuse_links
from labeling.places import Place, Url, leased, leased_by, refuse_ended
from labeling.problems import RunError, StoreTaken

PATIENCE = 30.0  # seconds for the workers of an earlier run to end
EDITORS = 5.0  # seconds for other reviewers to write what they have to

Check = Callable[[], None]  # raises RunError if the store is no longer ours


@contextmanager
def locked(out: Place, run: str = "") -> Iterator[Check]:
    """Hold the store for this run alone; RunError if another run has it, or workers of one still write.

    Yields a check that raises RunError if the lock was lost, as can happen in a bucket.
    """
    if isinstance(out, Url):
        with leased(out, run) as check:
            yield check
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{out} cannot be made: {error.strerror}. Choose another --out.") from error
    others = [path.name for path in out.iterdir() if path.suffix != ".partial"]
    if others and "zarr.json" not in others:
        raise RunError(f"{out} holds other files ({min(others)}) and is no label store. Choose another --out.")
    refuse_links(out, below=2, besides="zarr.json")  # files of zarr are replaced whole
    with _open(out) as handle:
        if not _taken(handle, fcntl.LOCK_EX):
            raise StoreTaken(f"another run is writing to {out}. Wait for it, or choose another --out.")
        give_up = time.monotonic() + PATIENCE
        while not is_quiet(out):
            if time.monotonic() > give_up:
                raise StoreTaken(
                    f"workers of an earlier run are still writing to {out}. Wait for them or end them, "
                    "or choose another --out."
                )
            time.sleep(0.05)
        yield lambda: None


@contextmanager
def writing(out: Place, run: str = "") -> Iterator[None]:
    """Say that a worker of `run` writes to the store; any number may at the same time."""
    if isinstance(out, Url):  # a run that takes over from a killed one gives its workers time to notice
        if run:
            refuse_ended(out, run)
        yield
        return
    with _open(out / "stages") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield


@contextmanager
def editing(store: Place) -> Iterator[Check]:
    """Hold the review log of a store for one edit; StoreTaken if the store is being labeled, or others edit for long.

    Yields a check as `locked` does. A run that begins meanwhile is not kept waiting.
    """
    give_up = time.monotonic() + EDITORS
    while True:
        try:
            with _log_of(store) as check:
                if run := is_labeled_by(store):
                    raise StoreTaken(f"{store} is being labeled right now ({run}). Try again when that is done.")
                yield check
                return
        except _OtherEditor as error:
            if time.monotonic() > give_up:
                raise StoreTaken(f"somebody else is writing to the review of {store}. Try again.") from error
            time.sleep(0.05)


class _OtherEditor(Exception):
    """Another process holds the review log."""


@contextmanager
def _log_of(store: Place) -> Iterator[Check]:
    if isinstance(store, Url):
        with ExitStack() as stack:
            try:
                check = stack.enter_context(leased(store / "review"))
            except StoreTaken as error:
                raise _OtherEditor from error
            yield check
        return
    refuse_links(store, below=2, besides="zarr.json")
    with _open(store / "videos") as handle:  # which every store has, and nobody else locks
        if not _taken(handle, fcntl.LOCK_EX):
            raise _OtherEditor
        yield lambda: None


def is_labeled_by(store: Place) -> str:
    """Who is labeling into a store; empty if nobody is."""
    if isinstance(store, Url):
        return leased_by(store)
    with _open(store) as handle:
        if _taken(handle, fcntl.LOCK_SH) and is_quiet(store):
            return ""
    return "by another process"


def is_quiet(out: Place) -> bool:
    """Whether no worker is writing to the store; in a bucket nobody knows."""
    if isinstance(out, Url):
        return False
    if not (out / "stages").exists():
        return True
    with _open(out / "stages") as handle:
        return _taken(handle, fcntl.LOCK_EX)


@contextmanager
def _open(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def _taken(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
