"""How do processes end with the one that started them, and not before?"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection, parent_process, resource_tracker


def end_with_parent() -> None:
    """End this process of `multiprocessing` when the one that started it is gone, however that ended.

    Those of a pool would wait for work for ever, and others go on with work that nobody asks for any more.
    """
    parent = parent_process()
    assert parent is not None, "this is called in a process that another one started"

    def watch(sentinel: int = parent.sentinel) -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def deaf() -> Iterator[None]:
    """Processes that are started within do not hear Ctrl-C: the terminal tells everybody, and their parent decides."""
    resource_tracker.ensure_running()  # which is started with the first of them, and hears Ctrl-C again from then on
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # is inherited
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
