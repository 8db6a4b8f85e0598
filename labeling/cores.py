"""How many processes can work side by side?"""

from __future__ import annotations

import os


def cores() -> int:
    """Cores that this process may use: a container or a scheduler may allow fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
