"""Label store or simulator in, trained and evaluated world model out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training.world_model import load, load_released

__all__ = ["load", "load_released"]


def __getattr__(name: str) -> Any:
    """Import on first use: `import training` stays instant."""
    if name in __all__:
        from training import world_model

        return getattr(world_model, name)
    raise AttributeError(f"module 'training' has no attribute {name!r}")
