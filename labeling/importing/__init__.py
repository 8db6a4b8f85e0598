"""How do ground truth and other tools' labels become a label store?

`import_labels` takes a folder of MOTChallenge or a JSON of COCO video (CocoVID, TAO, YouTube-VIS) and the videos that
they are of, and writes a store like any other: training, exports and scores take it. Each format is one file that
yields `Sequence`s; a sequence that cannot be used is named with its reason, and the rest goes on.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import zarr

from labeling.folder import Source, find_videos
from labeling.importing import coco_video, mot
from labeling.importing.matching import Videos
from labeling.importing.sequence import ImportProblem, Sequence
from labeling.importing.writing import PROFILE, Progress, write_sequence, write_tables
from labeling.locks import locked
from labeling.places import on_disk
from labeling.store import Store, StoreError
from labeling.video import VideoError

__all__ = ["Imported", "import_labels", "read_sequences"]

READERS: tuple[Callable[[Path], Iterator[Sequence] | None], ...] = (mot.read, coco_video.read)


@dataclass(frozen=True)
class Imported:
    """What `import_labels` wrote."""

    path: Path
    videos: int
    tracks: int
    problems: dict[str, str] = field(default_factory=dict)  # sequence -> why it was left out
    notes: list[str] = field(default_factory=list)


def import_labels(
    labels: str | Path, videos: str | Path, out: str | Path, force: bool = False, progress: Progress | None = None
) -> Imported:
    """Write the labels at `labels`, of the videos in the folder `videos`, as the label store `out`.

    Args:
        labels: A folder of MOTChallenge, one of its gt.txt, a JSON of COCO video, or a folder of such.
        videos: A folder, searched recursively; sequences are found by their names.
        out: The store.
        force: Replace a store that was imported before.
        progress: Hears of the video that is read, frames done and frames expected.

    Raises:
        StoreError: There are no labels, none can be used, or `out` is there already.
    """
    path, target = on_disk(labels, "labels to import"), on_disk(out, "an imported store")
    if not path.exists():
        raise StoreError(f"{path} does not exist. Give a folder or gt.txt of MOTChallenge, or a JSON of COCO video.")
    if (path / "videos").is_dir() and (path / "zarr.json").is_file():
        raise StoreError(f"{path} is a label store already: score, export and prepare take it as it is.")
    folder = find_videos(videos)
    if not folder.sources:
        raise StoreError(f"{videos} holds no video. Say with --videos where those are that {path} is about.")
    known = Videos(folder.sources)
    problems: dict[str, str] = {}
    skipped: Counter[str] = Counter()
    taken: dict[Source, str] = {}
    count = 0
    with _whole(target, force) as part:
        store = Store(part, mode="a")
        names: list[str] = []  # of the categories, in the order in which they are met
        for sequence in read_sequences(path):
            try:
                sequence.checked()
                source = known.find(sequence)
                if source in taken:
                    raise ImportProblem(f"{sequence.where}: {taken[source]} has labels of {source.relative} already.")
                count += write_sequence(store, source, sequence, names, skipped, progress)
                taken[source] = str(sequence.where)
            except (ImportProblem, VideoError) as error:
                problems[sequence.name] = str(error)
        if not taken:
            raise StoreError(f"nothing in {path} can be imported: {_first(list(problems.values()))}")
        write_tables(store, folder.root, names, path, problems)
    notes = [f"{what}: {number:,}." for what, number in skipped.items()]
    return Imported(target, len(taken), count, problems, notes)


def _first(reasons: list[str]) -> str:
    others = len(reasons) - 1
    return "".join(reasons[:1]) + (f" The same or the like holds for {others} more." if others > 0 else "")


def read_sequences(path: Path) -> Iterator[Sequence]:
    """The sequences at `path`, by the first reader that knows it; StoreError if none does."""
    for read in READERS:
        if (found := read(path)) is not None:
            return found
    raise StoreError(f"{path} has neither gt/gt.txt of MOTChallenge nor a JSON with annotations of COCO video.")


@contextmanager
def _whole(out: Path, force: bool) -> Iterator[Path]:
    """A place beside `out` to write a store to, which takes its name if all goes well and is gone otherwise."""
    _put_back(out.with_name(f".{out.name}.old"), out)
    if out.exists():
        _refuse_to_replace(out, force)
    part, old = out.with_name(f".{out.name}.part"), out.with_name(f".{out.name}.old")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)
        yield part
        with locked(out, "import") if out.exists() else nullcontext():
            if (out / "review").exists():  # what people did outlives the labels that they did it to
                shutil.copytree(out / "review", part / "review")
            shutil.rmtree(old, ignore_errors=True)
            if out.exists():
                out.replace(old)
            part.replace(out)
    except OSError as error:
        raise StoreError(f"{out} cannot be written: {error.strerror or error}. Choose another --out.") from error
    finally:
        with suppress(OSError):
            _put_back(old, out)
            for left in (part, old):
                shutil.rmtree(left, ignore_errors=True)


def _put_back(old: Path, out: Path) -> None:
    """Have the old store back where a new one did not take its place: this time, or when an import was killed."""
    if old.exists() and not out.exists():
        old.replace(out)


def _refuse_to_replace(out: Path, force: bool) -> None:
    if not force:
        raise StoreError(f"{out} is there already. Choose another --out, or replace it with --force.")
    try:
        profile = zarr.open_group(str(out), mode="r", zarr_format=3).attrs.get("profile")
    except Exception:  # no store, whatever it is
        profile = None
    if profile != PROFILE:
        raise StoreError(f"{out} was not imported: it is not replaced. Choose another --out.")
