"""Who may write to a store in a bucket?

No process dies with an object, as a lock on a disk does, so the run that has the store leaves a lock beside it, an
object that only one can make, and renews it while it lives. A lock that is no longer renewed is taken over, in one step
that fails if anybody else moved first; one of a dead process of this very machine at once.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError

from labeling.object_storage import bucket_of, facts_of, listed, plainly
from labeling.places import StorageError, Url
from labeling.problems import RunError, StoreTaken

if TYPE_CHECKING:
    from obstore import UpdateVersion

RENEWAL = 20.0  # seconds between two renewals
STALE = 120.0  # seconds after which a lock that was not renewed is looked at
WATCH = 30.0  # seconds for which it is looked at: clocks of two machines may differ, a renewal shows in any case
GRACE = 2.0  # seconds for the workers of a killed run to notice it


@dataclass(frozen=True)
class Owner:
    """The process that has a store."""

    machine: str
    process: int
    lease: str  # a word of its own: one process may ask for a store twice
    renewed: str = ""  # when: makes the content, and so the tag, another one each time

    @classmethod
    def new(cls, lease: str = "") -> Owner:
        """This process."""
        return cls(_machine(), os.getpid(), lease or uuid.uuid4().hex)

    @property
    def is_dead(self) -> bool:
        """Whether it was a process of this machine, and is gone."""
        if self.machine != _machine():
            return False
        try:
            os.kill(self.process, 0)  # no signal, but an error if there is nobody: also where there is no /proc
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):  # another user's, or no number of a process
            return False
        return False

    def __str__(self) -> str:
        return f"process {self.process} on {self.machine.partition(' ')[0]}"

    def as_bytes(self) -> bytes:
        """The content of the lock, as of now."""
        return json.dumps({**vars(self), "renewed": datetime.now(UTC).isoformat()}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Owner:
        """Who wrote a lock."""
        try:
            found = cls(**{str(name): value for name, value in json.loads(content).items()})
            return cls(str(found.machine), int(found.process), str(found.lease), str(found.renewed))
        except (AttributeError, ValueError, TypeError, OverflowError):
            return cls("an unknown machine", 0, "")


@contextmanager
def leased(store: Url, run: str = "") -> Iterator[Callable[[], None]]:
    """Hold a store in a bucket for this run alone; RunError if another run has it. Workers know it by the name `run`.

    Yields a check, which raises RunError if the lock was lost: this process was stopped for so long that another run
    took the store to be free.
    """
    if not store.key:
        raise RunError(f"{store} is a whole bucket. Give the store a name in it: --out {store}/labels.zarr")
    folders, files = listed(store)
    names = [*folders, *(name for name, _, _ in files)]
    if names and "zarr.json" not in names:
        raise RunError(f"{store} holds other files ({min(names)}) and is no label store. Choose another --out.")
    lock, me = store.with_name(f"{store.name}.lock"), Owner.new(run)
    lease = _Lease(lock, me, _acquired(lock, me, store))
    try:
        _refuse_careless_storage(lock, me)
        yield lease.check
    finally:
        lease.end()


def leased_by(store: Url) -> str:
    """Who holds a store, as far as its lock says; empty if nobody does."""
    try:
        _, owner, since = _read(store.with_name(f"{store.name}.lock"))
    except FileNotFoundError:
        return ""
    is_stale = (datetime.now(UTC) - since).total_seconds() > STALE
    return "" if owner.is_dead or is_stale else f"by {owner}"


def refuse_ended(store: Url, run: str) -> None:
    """RunError unless a run still holds a store: its workers may be elsewhere, and not notice that it was killed."""
    with suppress(FileNotFoundError):
        if _read(store.with_name(f"{store.name}.lock"))[1].lease == run:
            return
    raise RunError(f"the run that this was for no longer holds {store}: it was ended, or another took over.")


def _acquired(lock: Url, me: Owner, store: Url) -> str:
    """Make the lock, or take over one that nobody renews; returns its tag."""
    while (tag := _put(lock, me, "create")) is None:
        try:
            tag, owner, since = _read(lock)
        except FileNotFoundError:  # its owner has just ended
            continue
        if owner.lease == me.lease:  # it was made, and the answer got lost
            return tag
        age = (datetime.now(UTC) - since).total_seconds()
        if not owner.is_dead and (age < STALE or _is_renewed(lock, tag)):
            raise StoreTaken(
                f"another run ({owner}) is writing to {store}. Wait for it, or choose another --out. If it was "
                f"killed: its lock, {lock}, is free {STALE:.0f} seconds after it was last renewed."
            )
        if (tag := _put(lock, me, {"e_tag": tag})) is not None:  # else another run was faster: see whose it is now
            time.sleep(GRACE)
            return tag
    return tag


def _refuse_careless_storage(lock: Url, me: Owner) -> None:
    """RunError if an object that is there can be made once more: zarr relies on that as locks do."""
    if _put(lock, me, "create") is not None:
        raise RunError(
            f"the object storage of {lock.parent} ignores conditions on writes (If-None-Match), so two runs could "
            "spoil a store. Label to a disk and copy the store there."
        )


def _put(lock: Url, owner: Owner, mode: Literal["create"] | UpdateVersion) -> str | None:
    """Write the lock and return its tag; None if it is not as `mode` expects it."""
    with plainly(lock):
        try:
            return str(obstore.put(bucket_of(lock), lock.key, owner.as_bytes(), mode=mode)["e_tag"])
        except (AlreadyExistsError, PreconditionError):
            return None


def _read(lock: Url) -> tuple[str, Owner, datetime]:
    """The lock's tag, its owner and when it was written; FileNotFoundError if there is none."""
    with plainly(lock):
        answer = obstore.get(bucket_of(lock), lock.key)
        return str(answer.meta["e_tag"]), Owner.from_bytes(bytes(answer.bytes())), answer.meta["last_modified"]


def _is_renewed(lock: Url, tag: str) -> bool:
    give_up = time.monotonic() + WATCH
    while time.monotonic() < give_up:
        time.sleep(min(1.0, WATCH / 4))
        now = facts_of(lock)
        if now is None or now[2] != tag:
            return now is not None
    return False


class _Lease:
    """A lock that this process has, renewed by a thread."""

    def __init__(self, lock: Url, owner: Owner, tag: str) -> None:
        self._lock, self._owner, self._tag, self._lost = lock, owner, tag, False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """RunError if another run has the store by now."""
        if self._lost:
            raise RunError(
                f"{self._lock} was taken over by another run, because this one was stopped for too long. Wait for the "
                "other, then run the same command again."
            )

    def end(self) -> None:
        """Remove the lock, if it is still ours."""
        self._ended.set()
        self._thread.join()
        with suppress(StorageError, FileNotFoundError):  # storage that is away keeps a lock that soon counts no more
            if _read(self._lock)[1].lease == self._owner.lease:
                with plainly(self._lock):
                    obstore.delete(bucket_of(self._lock), self._lock.key)

    def _keep(self) -> None:
        while not self._ended.wait(RENEWAL) and not self._lost:
            with suppress(StorageError):  # away for a moment: what writes will say so, if it lasts
                self._renew()

    def _renew(self) -> None:
        tag = _put(self._lock, self._owner, {"e_tag": self._tag})
        if tag is None:
            try:
                tag, owner, _ = _read(self._lock)
                self._lost = owner.lease != self._owner.lease  # the same: it was renewed, and the answer got lost
            except FileNotFoundError:
                self._lost = True
        self._tag = tag or self._tag


def _machine() -> str:
    """A name for what process numbers are unique on: the machine since it was started, or a container on it."""
    marks = [platform.node()]
    with suppress(OSError):
        marks += [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    return " ".join(marks)
