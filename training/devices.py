"""Where does training run, in which number format, and in how many processes?

`accelerated` gives an accelerate `Accelerator` for the time of one run. Several processes are started by torchrun or
`accelerate launch`; each then trains on its part of every batch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from training.config import Device, Precision, TrainError

if TYPE_CHECKING:
    from accelerate import Accelerator  # type: ignore[import-untyped]

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # names of glibc's settings
KEPT = 1 << 30  # bytes that may lie free
LARGEST = (1 << 30, 1 << 25)  # a piece of memory that is kept; older versions of glibc allow no more than the second


@contextmanager
def accelerated(precision: Precision, device: Device) -> Iterator[Accelerator]:
    """An accelerator on the chosen device; TrainError if there is no such device."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState  # type: ignore[import-untyped]

    kind = available(device)
    if kind == "cpu":
        keep_memory()
    half = precision == "bf16" or (precision == "auto" and kind == "cuda")
    # Accelerate remembers its first precision and device for the whole process: a second run may want others.
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(cpu=kind == "cpu", mixed_precision="bf16" if half else "no")
    several = accelerator.num_processes > 1
    try:
        yield accelerator
    finally:
        if several and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        AcceleratorState._reset_state(reset_partial_state=True)


def available(device: Device) -> str:
    """The device itself, or the best there is for `auto`; TrainError if it is not here."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return next(kind for kind in ("cuda", "mps", "cpu") if there[kind])
    if not there[device]:
        raise TrainError(f"There is no {device} device here. Leave --device out, or choose cpu.")
    return device


def keep_memory() -> None:
    """Let memory that was freed stay with this process.

    glibc gives large pieces back at once, and a training step asks for the same ones again: handing them over, page by
    page, takes up to an eighth of its time on a CPU. Where there is no glibc, nothing is done.
    """
    try:
        settings = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    settings(TRIM_THRESHOLD, KEPT)
    for size in LARGEST:
        if settings(MMAP_THRESHOLD, size):
            return
