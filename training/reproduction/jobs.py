"""How is a job done in a process of its own?

`Jobs` starts one for each, hears what it is at, and says why it failed if it did: an error, or a kill. The process ends
when the one that started it does, however that ends.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from threadpoolctl import threadpool_limits

from labeling.lifetime import deaf, end_with_parent

Hear = Callable[[str], None]  # what a job is at
Job = Callable[..., None]  # takes its arguments, then whom to tell; must be found by its module's name

STOPPED = "it was stopped"


class Jobs:
    """Jobs that are done side by side, each from a thread that waits for it."""

    def __init__(self) -> None:
        self._running: set[BaseProcess] = set()
        self._stopped = False
        self._turn = threading.Lock()  # nothing starts while all are stopped

    def do(self, job: Job, arguments: tuple[Any, ...], hear: Hear, threads: int = 0) -> str:
        """Do a job in a process of its own.

        Args:
            job: What to do.
            arguments: Of the job, before the one to tell.
            hear: Is told what the job is at.
            threads: That the job computes with; 0: as many as it likes.

        Returns:
            Why it failed, or nothing.
        """
        spawn = multiprocessing.get_context("spawn")
        here, there = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_work, args=(there, job, arguments, threads))
        with self._turn:
            if self._stopped:
                return STOPPED
            with deaf():
                process.start()
            self._running.add(process)
        there.close()  # so that its end is the end of the pipe
        ended = None
        try:
            while True:
                kind, text = here.recv()
                if kind == "at":
                    hear(text)
                else:
                    ended = text
        except EOFError:
            process.join()
        finally:
            self._running.discard(process)
        if ended is not None:
            return str(ended)
        if self._stopped:
            return STOPPED
        code = process.exitcode or 0
        return f"its process was ended by signal {-code}" if code < 0 else f"its process ended with exit code {code}"

    def stop(self) -> None:
        """End all that run and start no more: they say `STOPPED`."""
        with self._turn:
            self._stopped = True
            for process in list(self._running):
                process.kill()


def in_a_line(error: Exception) -> str:
    """What went wrong; errors of ours are sentences for the user, others come with their kind."""
    words = " ".join(str(error).split())
    ours = type(error).__module__.partition(".")[0] in ("training", "labeling")
    return words if ours and words else f"{type(error).__name__}: {words}"


def _work(there: Connection, job: Job, arguments: tuple[Any, ...], threads: int) -> None:
    """In the other process."""
    end_with_parent()
    if threads:
        os.environ["OMP_NUM_THREADS"] = str(threads)  # of what is not imported yet, as torch
        threadpool_limits(threads)  # of what is, as numpy
    try:
        job(*arguments, lambda what: there.send(("at", what)))
        there.send(("end", ""))
    except Exception as error:
        there.send(("end", in_a_line(error)))
