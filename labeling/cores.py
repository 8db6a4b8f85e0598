"""How many processes can work side by side?"""

from __future__ import annotations


def cores() -> int:
    """Cores that this process is allowed to run on, or fewer where its container is given a share of their time."""
    from joblib.externals.loky import cpu_count  # heavy

    return int(cpu_count())
