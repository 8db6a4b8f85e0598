"""What every case must hold to, whatever it is fed.

A `Case` has a folder for what is given, one for what comes out, and one elsewhere that nobody may touch. Within
`judged`, only errors that are meant for the user may be raised, each in one line; nothing but `out` may change; it must
end in time, and without taking all of the memory. Whoever fails is told how to have the same again.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
import resource
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.fuzz.mutations import mutate

SECONDS = 60.0  # for one case; all end within one or two on a free core
MEMORY = 4 << 30  # bytes that one case may ask for
LONGEST = 700  # signs in an error


class Hang(BaseException):
    """Not an Exception: what catches those must not catch this."""


@dataclass
class Case:
    """One seeded case."""

    test: str  # where it is, for who wants it again
    seed: int
    folder: Path
    done: str = ""  # what was broken
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        """Make the three folders."""
        self.rng = np.random.default_rng(self.seed)
        for place in (self.given, self.out, self.elsewhere):
            place.mkdir(parents=True)
        for name in ("kept.txt", "zarr.json", "0001.png"):
            (self.elsewhere / name).write_text("Nobody may change this.")

    @property
    def given(self) -> Path:
        """Where inputs go."""
        return self.folder / "given"

    @property
    def out(self) -> Path:
        """The only folder that may change."""
        return self.folder / "out"

    @property
    def elsewhere(self) -> Path:
        """What links and names may lead to, and nobody may touch."""
        return self.folder / "elsewhere"

    def mutate(self, target: Path) -> None:
        """Break a file or a folder."""
        self.done += mutate(self.rng, target, self.elsewhere) + ". "

    def fail(self, what: str) -> None:
        """Fail, and say how to have this again."""
        again = f"FUZZ_FIRST={self.seed} FUZZ_CASES=1 python -m pytest '{self.test.partition('[')[0]}'"
        pytest.fail(f"seed {self.seed}: {what}\nbroken: {self.done}\nagain:  {again}", pytrace=True)

    @contextmanager
    def judged(self, *meant: type[Exception], may_change: tuple[Path, ...] = ()) -> Iterator[None]:
        """Hold what is done in here to the promises; `meant` are the errors that are made for the user."""
        before = self._state(may_change)
        try:
            with _bounded():
                yield
        except meant as error:
            self.check_sentence(str(error))
        except Hang:
            self.fail(f"not done after {SECONDS:.0f} seconds")
        except pytest.fail.Exception:
            raise
        except Exception as error:
            raise AssertionError(self._told(error)) from error
        after = self._state(may_change)
        changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
        if changed:
            self.fail(f"changed outside of what it may write: {sorted(changed)}")

    def _told(self, error: Exception) -> str:
        again = f"FUZZ_FIRST={self.seed} FUZZ_CASES=1 python -m pytest '{self.test.partition('[')[0]}'"
        return f"{type(error).__name__} is not meant for the user: {error}\nbroken: {self.done}\nagain:  {again}"

    def check_sentence(self, text: str) -> None:
        """Fail unless what the user is told is one line, not too long, and not that something went wrong inside."""
        if not text.strip() or len(text.splitlines()) > 1 or len(text) > LONGEST:
            self.fail(f"no clear sentence ({len(text)} signs): {text[:1000]!r}")
        if "unexpectedly" in text or "made no progress" in text:
            self.fail(f"not as it should be: {text}")

    def _state(self, may_change: tuple[Path, ...]) -> dict[str, str]:
        """All that is there, but for what may change."""
        known = {}
        for top, folders, names in os.walk(self.folder):
            here = Path(top)
            folders[:] = [name for name in folders if here / name not in (self.out, *may_change)]
            for name in [*folders, *names]:
                path = here / name
                known[str(path.relative_to(self.folder))] = (
                    os.readlink(path) if path.is_symlink()
                    else "folder" if path.is_dir()
                    else hashlib.sha256(path.read_bytes()).hexdigest()
                )  # fmt: skip
        return known


@contextmanager
def _bounded() -> Iterator[None]:
    """Raise Hang when it takes too long, MemoryError when it takes too much."""

    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    faulthandler.dump_traceback_later(3 * SECONDS, exit=True)  # for code that never comes back to Python
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def new_case(test: str, seed: int) -> Iterator[Case]:
    """A case in a folder of its own, which goes in the end."""
    with tempfile.TemporaryDirectory(prefix="spectrabox-fuzz-", ignore_cleanup_errors=True) as folder:
        yield Case(test, seed, Path(folder).resolve() / "case")
