"""Packages that a simulator stands on: imported when it is opened, named with the cure where they are missing."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from training.dataset_format import DatasetError

# With its dependencies gym-pusht would put another OpenCV over the one that labels videos.
EXTRA_STEPS = {"gym_pusht": " and then: pip install --no-deps gym-pusht==0.1.8"}
OPENGL = (
    "It needs OpenGL for machines without a screen, on Debian: apt install libegl1 libgl1 libopengl0 libgl1-mesa-dri"
)
DRAWING = ("dm_control", "mujoco")  # packages that look for OpenGL as soon as they are imported


class MissingPackageError(DatasetError, ImportError):
    """A simulator cannot be opened; the message says what to install."""


def needed(module: str, world: str) -> Any:
    """The module of that name; MissingPackageError with the command that installs it if `world` lacks it."""
    _without_a_screen()
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if package in DRAWING and not isinstance(error, ModuleNotFoundError):
            raise MissingPackageError(f"{world} cannot be drawn here ({error}). {OPENGL}") from error
        raise MissingPackageError(
            f"{world} needs {package}, which cannot be imported ({error}): pip install -c constraints.txt '.[sim]'"
            + EXTRA_STEPS.get(package, "")
        ) from error


def _without_a_screen() -> None:
    """Both drawing libraries would look for a screen; what is drawn here is only ever read back."""
    if sys.platform.startswith("linux"):
        os.environ.setdefault("MUJOCO_GL", "egl")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
