"""Packages that some formats need and others do without."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from labeling.store import StoreError


def needed(module: str, format: str) -> Any:
    """A module that a format needs; StoreError, with what to install, if it is not there."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise StoreError(
            f"the format {format} needs {package}: pip install -c constraints.txt '.[datasets]'"
        ) from error
