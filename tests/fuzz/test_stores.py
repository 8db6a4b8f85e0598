"""Broken label stores: every command reads them, refuses them with one sentence, or makes them whole again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from labeling import open_store
from labeling.config import load_config
from labeling.export import FORMATS, ExportConfig, export
from labeling.overlay import write_overlays
from labeling.problems import RunError, VideoError
from labeling.report import write_report
from labeling.review.desk import Desk
from labeling.review.edits import RenameCategory, SplitTrack
from labeling.run import label_folder
from labeling.show import summary
from labeling.store import StoreError
from labeling.validate import validate
from tests.fuzz.cases import Case
from tests.labeling.odd_videos import pictures, video
from training.dataset_format import DatasetError
from training.manifest import PrepareConfig
from training.prepare import prepare

MEANT = (StoreError, VideoError, RunError, DatasetError)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with videos and their real labels, masks, review and all."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "videos").mkdir()
    for number in range(2):
        video(folder / "videos" / f"{number}.mp4", pictures(14 + number))
    label_folder(folder / "videos", folder / "labels.zarr", workers=1)
    desk = Desk(folder / "labels.zarr")  # what people changed is read along with the labels
    for change in (RenameCategory(category=0, name="square"), SplitTrack(video="0.mp4", track=0, frame=6)):
        desk.edit(change, desk.version)
    return folder


@pytest.fixture
def broken(case: Case, sound: Path) -> Path:
    """A store that was broken."""
    shutil.copytree(sound, case.given, dirs_exist_ok=True)
    store = case.given / "labels.zarr"
    root = json.loads((store / "zarr.json").read_text())
    root["attributes"]["videos"] = str(case.given / "videos")
    (store / "zarr.json").write_text(json.dumps(root))
    case.mutate(store)
    return store


def read_all(store: Path, out: Path) -> None:
    opened = open_store(store)
    assert opened.vocabulary is None or len(opened.vocabulary.prototypes) >= 0
    for id, labels in opened.items():
        assert labels.tracks.boxes.shape[0] == labels.frames, id
        assert len(labels.dropped) >= 0
        if labels.has_masks:
            for frame, track, runs in labels.mask_runs():
                assert (frame, track) <= (labels.frames, len(labels.tracks))
                assert len(runs)
            if labels.frames and len(labels.tracks):
                assert labels.mask(0, 0).shape == labels.mask_size
    with suppress(KeyError):
        opened["1"].to_pandas()


def show(store: Path, out: Path) -> None:
    with (out / "shown.txt").open("w") as file:
        Console(file=file, width=200).print(summary(open_store(store)))


def export_as(name: str) -> Callable[[Path, Path], None]:
    def write(store: Path, out: Path) -> None:
        export(open_store(store), name, out / FORMATS[name].out, ExportConfig())

    write.__name__ = name
    return write


COMMANDS: list[Callable[[Path, Path], None]] = [
    read_all, show,
    *map(export_as, sorted(FORMATS)),
    lambda store, out: write_report(open_store(store), out / "report") and None,
    lambda store, out: write_overlays(open_store(store), out / "overlays") and None,
    lambda store, out: prepare(store, out / "data.zarr", config=PrepareConfig(size=16)) and None,
]  # fmt: skip


@pytest.mark.fuzz(40)
def test_broken_stores(case: Case, broken: Path) -> None:
    """Whatever reads it; what is wrong is said in sentences by `validate`."""
    with case.judged():
        problems = validate(broken)
    for problem in problems:
        case.check_sentence(problem)
    for command in (read_all, show, COMMANDS[case.rng.integers(2, len(COMMANDS))]):
        case.done += f"({command.__name__}) "
        with case.judged(*MEANT):
            command(broken, case.out)


@pytest.mark.slow
@pytest.mark.fuzz(4)
def test_a_broken_store_is_labeled_again_or_refused(case: Case, broken: Path) -> None:
    """A run makes nothing worse, nothing that it writes is half-written, and nothing is written through a link."""
    before = validate(broken)
    with case.judged(*MEANT, may_change=(broken,)):
        config = load_config(settings=[f"filters.min_frames={case.seed % 3 + 2}"])  # others than before, mostly
        summary = label_folder(case.given / "videos", broken, config, workers=1, refit=case.seed % 2 == 0)
        for outcome in summary.failed:
            case.check_sentence(outcome.failure)
    with case.judged():
        worse = set(validate(broken)) - set(before)
    if worse:
        case.fail(f"worse than before: {sorted(worse)[:3]}")
