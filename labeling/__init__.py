"""Videos in, tracked and categorised boxes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeling.store import open_store

__all__ = ["open_store"]


def __getattr__(name: str) -> Any:
    """Import on first use: `import labeling` stays instant."""
    if name == "open_store":
        from labeling.store import open_store

        return open_store
    raise AttributeError(f"module 'labeling' has no attribute {name!r}")
