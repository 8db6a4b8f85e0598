"""Whose folder is this?

A run's folder holds one run: its settings in `config.yaml`, its checkpoints, metrics and curves. It is never taken over
by another run, nor written by two processes at once, and a resumed run keeps its settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from labeling.files import refuse_links, write_whole
from labeling.problems import RunError
from training import checkpoint
from training.config import TrainConfig, TrainError, as_yaml, differences, load_config

SETTINGS, LOCK = "config.yaml", ".lock"


def chosen_config(run: Path, config: TrainConfig | None, resume: bool) -> TrainConfig:
    """The settings to train with; TrainError if the folder holds another run."""
    newest = checkpoint.last(run)
    if not resume:
        if newest:
            raise TrainError(f"{run} holds a run already. Go on with it by --resume, or choose another folder.")
        if run.is_dir() and any(run.iterdir()) and not (run / SETTINGS).exists():
            raise TrainError(f"{run} is not empty and holds no run. Choose another folder.")
        return config or TrainConfig()
    known = checkpoint.read(newest).config if newest else None
    if known is None and (run / SETTINGS).exists():  # it was stopped before its first checkpoint
        known = load_config(run / SETTINGS)
    if known and config and (other := differences(known, config)):
        raise TrainError(
            f"{run} was started with other settings ({'; '.join(other[:5])}). Leave them out to go on, or start a new "
            "run in another folder."
        )
    return known or config or TrainConfig()


def refuse_links_in(run: Path) -> None:
    """TrainError if a part of a run is a link: what is written to it would land elsewhere."""
    try:
        refuse_links(run)
    except RunError as error:
        raise TrainError(str(error)) from error


@contextmanager
def claimed(run: Path, config: TrainConfig, resume: bool) -> Iterator[None]:
    """Hold the folder, made if need be, for the time of a run."""
    run.mkdir(parents=True, exist_ok=True)
    refuse_links_in(run)
    lock = FileLock(run / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise TrainError(f"Another process trains in {run}.") from error
    try:
        write_whole(run / SETTINGS, as_yaml(config) + "\n")
        yield
    finally:
        lock.release()
