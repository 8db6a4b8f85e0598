"""How do the threads of a training wait for one another?

By default they spin, which keeps a core from those who have work: on two busy cores a step takes two to five times as
long. Sleeping costs about a tenth where all cores are free.
"""

from __future__ import annotations

import os


def sleeping_threads() -> None:
    """Let torch's threads sleep while they wait, unless the user chose otherwise; only before torch is imported."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
