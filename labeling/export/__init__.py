"""Which other formats can labels be had in?

Each format is one file with one function behind `Exporter`, and one line in `FORMATS`. `export` leaves a whole file or
folder or none: a run that is stopped half-way leaves nothing that looks like a result.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol

from labeling.export.job import SIDECAR, ExportConfig, Job, Progress
from labeling.places import Place, on_disk
from labeling.store import Store, StoreError

__all__ = ["FORMATS", "ExportConfig", "Exported", "export"]


@dataclass(frozen=True)
class Format:
    """A format that labels can be had in."""

    module: str  # imported when asked for
    what: str
    out: str  # a usual name of what it writes; with a suffix: a file, else a folder
    pictures: Literal["never", "asked", "usual", "always"]  # whether frames are written
    marks: bool = True  # it can say of a track that it was dropped
    beside: bool = False  # licence, split and more are in a file beside it


FORMATS = {
    "coco": Format("coco", "COCO JSON of single frames, one file for train and one for val", "coco", "asked"),
    "youtube-vis": Format("youtube_vis", "one JSON with boxes and masks per track", "labels.json", "never", False),
    "mot": Format("mot", "MOTChallenge: gt/gt.txt and seqinfo.ini for each video", "mot", "asked"),
    "yolo": Format("yolo", "data.yaml, pictures and text files of Ultralytics", "yolo", "usual", False),
    "swm-hdf5": Format("swm_hdf5", "stable-worldmodel: pixels, actions and boxes", "labels.h5", "always", False),
    "lerobot": Format("lerobot", "LeRobot v3: Parquet, mp4, boxes as features", "lerobot", "always", False),
    "csv": Format("csv_table", "a row for every box", "labels.csv", "never", beside=True),
    "parquet": Format("parquet_table", "the same for data frames", "labels.parquet", "never"),
}


class Exporter(Protocol):
    """What the module of a format offers."""

    def write(self, job: Job, out: Path) -> None:
        """Write the labels to the file or into the folder `out`, in memory that does not grow with the videos."""


@dataclass(frozen=True)
class Exported:
    """What `export` wrote."""

    path: Path
    videos: int
    problems: dict[str, str] = field(default_factory=dict)  # video -> why it was left out
    notes: list[str] = field(default_factory=list)


def export(
    store: Store, format: str, out: str | Path, config: ExportConfig | None = None, videos: Place | None = None,
    force: bool = False, progress: Progress | None = None,
) -> Exported:  # fmt: skip
    """Write the labels of a store as `format` to the file or folder `out`.

    Args:
        store: The labels.
        format: A key of `FORMATS`.
        out: Where it goes.
        config: Split, pictures, licence and more.
        videos: Where the videos are now, if not where they were labeled.
        force: Replace what is there: a folder only if an export wrote it, a file only if it ends as this format's do.
        progress: Hears of the video that is worked on, frames done and frames in all.

    Raises:
        StoreError: The format is unknown or cannot hold what is asked for, there is nothing to export, or `out` cannot
            be written.
    """
    if format not in FORMATS:
        raise StoreError(f"there is no export format {format!r}. Choose one of: {', '.join(sorted(FORMATS))}")
    if not len(store):
        raise StoreError(f"{store.path} holds no labeled video. Run spectrabox label again.")
    config = config or ExportConfig()
    kind = FORMATS[format]
    _refuse_what_it_cannot_hold(format, kind, config)
    pictures = kind.pictures == "always" or (kind.pictures == "usual" if config.pictures is None else config.pictures)
    job = Job(store, format, config, videos or store.videos_folder, pictures, progress)
    exporter: Exporter = import_module(f"{__name__}.{kind.module}")
    target, beside = on_disk(out, "an export"), on_disk(f"{out}.json")
    _refuse_what_others_would_not_know(target, format, kind)
    _refuse_to_replace(target, Path(kind.out).suffix, force)
    if kind.beside:
        _refuse_to_replace(beside, ".json", force)
    with _whole(target, is_folder="." not in kind.out) as part:
        exporter.write(job, part)
        count = sum(1 for _ in job.videos())
        if not count:
            raise StoreError(f"nothing in {store.path} can be exported: {_first(list(job.problems.values()))}")
    if kind.beside:
        with _whole(beside, is_folder=False) as part:
            part.write_text(json.dumps(job.provenance(), indent=1) + "\n", encoding="utf-8")
    return Exported(Path(out).expanduser(), count, job.problems, job.notes)


def _refuse_what_it_cannot_hold(format: str, kind: Format, config: ExportConfig) -> None:
    if config.pictures and kind.pictures == "never":
        raise StoreError(f"{format} holds no pictures. Leave --pictures away.")
    if config.pictures is False and kind.pictures == "always":
        raise StoreError(f"{format} holds frames and boxes together. Leave --no-pictures away.")
    if config.dropped and not kind.marks:
        could = ", ".join(name for name, other in FORMATS.items() if other.marks)
        raise StoreError(f"{format} cannot say that a track was dropped. Choose one of {could}, or no --dropped.")
    if config.size and format != "swm-hdf5":
        raise StoreError(f"{format} holds frames in their own size. Only swm-hdf5 takes --size.")


def _refuse_what_others_would_not_know(out: Path, format: str, kind: Format) -> None:
    """StoreError if a file would have no ending, or a folder that of a file."""
    usual = Path(kind.out).suffix
    if usual and not out.suffix and not out.is_dir():
        raise StoreError(f"{format} writes a file, and tools know files by how they end. Say --out {out}{usual}")
    endings = {Path(other.out).suffix for other in FORMATS.values()} - {""}
    if not usual and out.suffix.lower() in endings and not out.is_file():
        raise StoreError(f"{format} writes a folder. Say --out {out.with_suffix('')}, or choose another --format.")


def _first(reasons: list[str]) -> str:
    others = len(reasons) - 1
    return reasons[0] + (f" The same or the like holds for {others} more." if others else "")


@contextmanager
def _whole(out: Path, is_folder: bool) -> Iterator[Path]:
    """A place beside `out` to write to, which takes its name if all goes well and is gone otherwise."""
    part, old = out.with_name(f".{out.name}.part"), out.with_name(f".{out.name}.old")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove(part)
        if is_folder:
            part.mkdir()
        yield part
        if out.is_dir():
            _remove(old)
            out.replace(old)
        part.replace(out)
    except OSError as error:
        raise StoreError(f"{out} cannot be written: {error.strerror or error}. Choose another --out.") from error
    finally:
        with suppress(OSError):
            _remove(part)
            _remove(old)


def _refuse_to_replace(out: Path, suffix: str, force: bool) -> None:
    """StoreError if something is at `out` that is not to be replaced; a format without a suffix writes folders."""
    if not out.exists():
        return
    is_folder = not suffix
    if out.is_dir() != is_folder:
        wanted = f"a folder, such as {out.with_suffix('')}" if is_folder else f"a file, such as {out / 'labels.json'}"
        raise StoreError(f"{out} is a {'folder' if out.is_dir() else 'file'}. This format writes {wanted}.")
    if is_folder and any(out.iterdir()) and not (out / SIDECAR).is_file():
        raise StoreError(f"{out} holds other files and was not written by an export. Choose another --out.")
    if not force and (not is_folder or any(out.iterdir())):
        raise StoreError(f"{out} is there already. Choose another --out, or replace it with --force.")
    if not is_folder and out.suffix.lower() != suffix:
        raise StoreError(f"{out} does not end in {suffix} and may be something else: it is not replaced.")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
