"""How do labels, simulators and other people's datasets become a dataset to train on?

`prepare` takes a label store, a manifest, an HDF5 file or a LeRobot folder, joins frames, boxes and actions, and writes
one dataset. What cannot be used is left out and named with its reason. The same input gives the same dataset; one that
is there already is left alone, and one that was made of something else is not replaced unasked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from labeling.places import Place, on_disk, place
from labeling.recipe import digest
from training.dataset_format import SCHEMA, Dataset, DatasetCategory, DatasetError, NoDataset, World, open_dataset
from training.dataset_writer import DatasetWriter, refuse_to_replace
from training.manifest import MANIFESTS, Manifest, PathSource, PrepareConfig, SimulatorSource, Split, load_manifest
from training.sources import Numbered, Source

REPORT_EVERY = 0.2  # seconds
HDF5_SUFFIXES = {".h5", ".hdf5", ".hdf"}

Progress = Callable[[int, int], None]  # frames done, frames expected


@dataclass(frozen=True)
class Prepared:
    """What `prepare` made."""

    path: Path
    name: str
    frames: int
    size: tuple[int, int]
    actions: int  # numbers in an action
    training: int  # episodes
    validation: int
    categories: list[DatasetCategory]
    fingerprint: str
    new: bool  # otherwise it was there already
    problems: dict[str, str] = field(default_factory=dict)  # file -> why it was left out
    notes: list[str] = field(default_factory=list)  # choices that were made


def prepare(
    source: str | Place, out: str | Path | None = None, videos: str | Place | None = None,
    config: PrepareConfig | None = None, split: Split | None = None, store: str | Place | None = None,
    progress: Progress | None = None, replace: bool = False, workers: int = 1,
) -> Prepared:  # fmt: skip
    """Make the dataset of `source`.

    Args:
        source: A label store, a manifest (YAML), an HDF5 file of stable-worldmodel, or a LeRobot v3 folder.
        out: Where it goes; a manifest knows its own place.
        videos: Where the videos of a label store are now, if not where they were labeled.
        config: Size, categories and more; in place of a manifest's.
        split: Which episodes are held out; in place of a manifest's.
        store: The label store of the videos in a LeRobot folder.
        progress: Called now and then with frames done and expected.
        replace: A dataset at `out` that was made of something else makes way; otherwise it is refused.
        workers: Processes that play a slow simulator.
    """
    path = place(source)
    if path.suffix.lower() in MANIFESTS:
        manifest = load_manifest(path)
        _refuse({"--store": store}, f"a manifest: it names its own. Change source.store in {path}")
        updates = {name: value for name, value in (("settings", config), ("split", split)) if value is not None}
        return prepare_manifest(manifest.model_copy(update=updates), out, videos, progress, replace, workers)
    opened = open_source(path, config or PrepareConfig(), videos, store)
    if out is None:
        raise DatasetError("Say where the dataset goes: --out DATASET.")
    path = on_disk(out, "a dataset")
    return write_dataset(opened, path, opened.name, split or Split(), progress, replace=replace)


def prepare_manifest(
    manifest: Manifest,
    out: str | Path | None = None,
    videos: str | Place | None = None,
    progress: Progress | None = None,
    replace: bool = False,
    workers: int = 1,
) -> Prepared:
    """Make the dataset that a manifest describes; `workers` processes play a slow simulator."""
    path = on_disk(out, "a dataset") if out else manifest.out
    world = None
    if isinstance(manifest.source, SimulatorSource):
        opened: Source = _played(manifest, manifest.source, videos, workers)
        world = World(environment=manifest.source.environment, options=manifest.source.options)
    else:
        opened = _listed(manifest, manifest.source, videos)
    made = write_dataset(opened, path, manifest.name, manifest.split, progress, world, replace)
    if manifest.frames is not None and made.frames != manifest.frames:
        made.notes.append(f"The manifest promises {manifest.frames} frames, the dataset has {made.frames}.")
    return made


def open_source(
    path: Place, config: PrepareConfig, videos: str | Place | None = None, store: str | Place | None = None
) -> Source:
    """The source at `path`, whatever it is; DatasetError if it is nothing that can be read."""
    if path.suffix.lower() in HDF5_SUFFIXES:
        from training.sources.hdf5 import Hdf5

        _refuse({"--videos": videos, "--store": store}, "an HDF5 file: its pictures and boxes are inside")
        return Hdf5(on_disk(path, "an HDF5 file"), config)
    if (path / "meta" / "info.json").is_file():
        from training.sources.lerobot import LeRobot

        _refuse({"--videos": videos}, "a LeRobot folder: its videos are inside")
        return LeRobot(on_disk(path, "a LeRobot folder"), config, store)
    if (path / "zarr.json").is_file():
        from training.sources.store import LabeledVideos

        if isinstance(path, Path):
            _refuse_dataset(path)
        _refuse({"--store": store, "--camera": config.camera}, "a label store: its videos have one picture a frame")
        return LabeledVideos(path, config, videos)
    what = "does not exist" if not path.exists() else "is neither of these"
    raise DatasetError(f"{path} {what}. Give a label store, a manifest (.yaml), an HDF5 file, or a LeRobot v3 folder.")


def write_dataset(
    source: Source, out: Path, name: str, split: Split, progress: Progress | None = None, world: World | None = None,
    replace: bool = False,
) -> Prepared:  # fmt: skip
    """Write the takes of a source as a dataset, unless that very dataset is there already.

    One that was made of the same source, when that was different or with other settings, makes way; one that was made
    of something else only with `replace`. What an earlier call left unfinished is gone on with.
    """
    recipe = digest(schema=SCHEMA, source=source.recipe, split=split.model_dump(mode="json"), name=name)
    refuse_to_replace(out)
    if (known := _there(out)) is not None:
        if known.attributes.get("recipe") == recipe:
            return _described(known, new=False)
        if not replace:
            _refuse_other_origin(known, source.origin)
    problems: dict[str, str] = {}
    tell = _seldom(progress, source.frames)

    def report(file: str, reason: str) -> None:
        problems.setdefault(file, reason)

    # Split and name come last: what was begun with others serves as well.
    begun = digest(schema=SCHEMA, source=source.recipe, made_by=made_by())
    with ExitStack() as stack:
        writer = stack.enter_context(DatasetWriter(out, source.layout, begun, source.origin, replace, tell))
        if isinstance(source, Numbered):
            takes = source.takes_from(len(writer.known), report)
            for one in writer.pass_over():
                if one.reason:
                    report(one.source, one.reason)
        else:
            takes = source.takes(report)
        stack.callback(getattr(takes, "close", lambda: None))  # ends what it has started, and now
        for take in takes:
            if reason := writer.give(take):
                report(take.source, reason)
            tell(writer.rows)
        if not writer.rows:
            raise DatasetError(f"Nothing in {source.name} can be used: {_some(problems) or 'there is no episode'}")
        made = writer.finish(
            name, source.categories, split, recipe=recipe, origin=source.origin, notes=source.notes, problems=problems,
            created_by=f"spectrabox {version('spectrabox')}", world=world and world.model_dump(),
        )  # fmt: skip
    if progress:
        progress(made.frames, made.frames)
    return _described(made, new=True)


def made_by() -> dict[str, str]:
    """What plays, draws and decodes: the halves of a dataset are not to come from two versions of it."""
    found = {"MUJOCO_GL": os.environ.get("MUJOCO_GL", "")}
    for package in ("spectrabox", "numpy", "av", "opencv-python-headless", "mujoco", "ogbench", "gym-pusht", "pymunk"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _seldom(progress: Progress | None, expected: int) -> Callable[[int], None]:
    """Tells `progress` how many frames are done, not too often."""
    told = 0.0

    def tell(done: int) -> None:
        nonlocal told
        if progress and time.monotonic() - told > REPORT_EVERY:
            progress(done, expected)
            told = time.monotonic()

    return tell


def _played(manifest: Manifest, source: SimulatorSource, videos: str | Place | None, workers: int) -> Source:
    """The episodes of the simulator that a manifest names."""
    from training.sources.simulator import Episodes

    settings = manifest.settings
    given = {"--videos": videos, "--camera": settings.camera, "--episode-frames": settings.episode_frames}
    _refuse(given, "a simulator: it draws its own frames, in episodes of source.frames")
    assert manifest.seed is not None
    try:
        return Episodes(source, manifest.seed, settings, workers)
    except ValueError as error:  # an unknown simulator, or one that does not take these options
        raise DatasetError(f"{manifest.name}: {error}") from error


def _listed(manifest: Manifest, source: PathSource, videos: str | Place | None) -> Source:
    """The files that a manifest names, checked against its hash."""
    path = on_disk(source.path, "the source of a manifest")
    if not path.exists():
        raise DatasetError(f"{path}, the source of {manifest.name}, does not exist. Paths count from where you are.")
    if manifest.sha256:
        from training.sources.hashing import refuse_other_content

        refuse_other_content(path, manifest.sha256)
    settings = manifest.settings.model_copy(update={"use_actions": manifest.actions != "none"})
    if manifest.kind == "videos":
        opened = open_source(place(source.store), settings, videos or path)
    else:
        opened = open_source(path, settings, videos, source.store or None)
    if manifest.actions != "none" and not opened.layout.actions:
        raise DatasetError(f"{manifest.name} should have actions {manifest.actions} {path}, but there are none.")
    if manifest.labels != "none" and not opened.layout.objects:
        raise DatasetError(f"{manifest.name} should have labels from {manifest.labels}, but there is not one object.")
    return opened


def _refuse_dataset(path: Path) -> None:
    """DatasetError if a dataset is at `path`, be it a broken one."""
    try:
        open_dataset(path)
    except NoDataset:
        return
    raise DatasetError(f"{path} is a dataset already: train on it with: spectrabox train {path}")


def _there(path: Path) -> Dataset | None:
    """The dataset at `path`, if there is one."""
    try:
        return open_dataset(path)
    except DatasetError:
        return None


def _refuse_other_origin(known: Dataset, origin: str) -> None:
    """DatasetError unless a dataset was made of `origin`: it may have taken hours, and runs may need it."""
    before = known.attributes.get("origin")
    if before != origin:
        what = f"a dataset of {before}" if before else "a dataset that does not say what it was made of"
        raise DatasetError(
            f"{known.path} is {what}; this would be one of {origin}. Choose another --out, or --replace."
        )


def _refuse(options: Mapping[str, Any], what: str) -> None:
    """DatasetError if options were given that nothing would read."""
    given = [name for name, value in options.items() if value]
    if given:
        raise DatasetError(f"{' and '.join(given)} cannot be used with {what}.")


def _described(dataset: Dataset, new: bool) -> Prepared:
    return Prepared(
        path=dataset.path, name=dataset.name, frames=dataset.frames, size=dataset.size, actions=dataset.action_dim,
        training=len(dataset.split("train")), validation=len(dataset.split("validation")),
        categories=dataset.categories, fingerprint=dataset.fingerprint, new=new,
        problems=dict(dataset.attributes.get("problems", {})), notes=list(dataset.attributes.get("notes", [])),
    )  # fmt: skip


def _some(problems: dict[str, str], most: int = 3) -> str:
    texts = list(problems.values())
    return " ".join(texts[:most]) + (f" And {len(texts) - most} more." if len(texts) > most else "")
