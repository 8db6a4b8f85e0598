"""How many processes can work side by side?"""

from __future__ import annotations

import os


def cores() -> int:
    """Cores that this process is allowed to run on; a share of time that a container is given does not show here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
