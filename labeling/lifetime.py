"""How does a process end with the one that started it?"""

from __future__ import annotations

import os
import threading
from multiprocessing import connection, parent_process


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
