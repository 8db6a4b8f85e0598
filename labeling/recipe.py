"""What decides a video's labels?

A recipe is a hash over everything that does: the versions of the code, the settings, the weights, the input. Each
stage's recipe includes that of the stage before it, so a change redoes the stages that it touches and no others.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(**parts: Any) -> str:
    """Hash JSON-like parts by name; the same parts give the same hash on every machine."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
