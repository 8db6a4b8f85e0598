"""Which other formats can labels be had in?

Each format is one file with one function behind `Exporter`. `export` takes a store and leaves a whole file or none: a
run that is stopped half-way leaves nothing that looks like a result.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Protocol

from labeling.store import Store, StoreError

FORMATS = {"youtube-vis": "labeling.export.youtube_vis"}  # imported when asked for


class Exporter(Protocol):
    """What the module of a format offers."""

    def write(self, store: Store, out: Path) -> None:
        """Write all labels of `store` to the file `out`, in memory that does not grow with the videos."""


def export(store: Store, format: str, out: Path) -> Path:
    """Write the labels of a store as `format` to the file `out`, and return its path.

    Raises:
        StoreError: The format is unknown, there is nothing to export, or `out` cannot be written.
    """
    if format not in FORMATS:
        raise StoreError(f"there is no export format {format!r}. Choose one of: {', '.join(sorted(FORMATS))}")
    if not len(store):
        raise StoreError(f"{store.path} holds no labeled video. Run spectrabox label again.")
    exporter: Exporter = import_module(FORMATS[format])
    out = Path(out).expanduser()
    if out.is_dir():
        raise StoreError(f"{out} is a folder. Give the file to write, such as {out / 'labels.json'}")
    part = out.with_name(f".{out.name}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        exporter.write(store, part)
        part.replace(out)
    except OSError as error:
        raise StoreError(f"{out} cannot be written: {error.strerror}. Choose another --out.") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return out
