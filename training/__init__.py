"""Label store or simulator in, trained and evaluated world model out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training.world_model import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """Import on first use: `import training` stays instant."""
    if name == "load":
        from training.world_model import load

        return load
    raise AttributeError(f"module 'training' has no attribute {name!r}")
