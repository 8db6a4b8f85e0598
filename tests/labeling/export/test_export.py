"""An export is whole or not there, and what cannot be exported is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

from labeling.export import FORMATS, ExportConfig, export
from labeling.export.job import SIDECAR
from labeling.importing import import_labels
from labeling.report import write_report
from labeling.review.desk import Desk
from labeling.review.edits import CheckVideo, RenameCategory
from labeling.run import label_folder
from labeling.store import Store, StoreError
from tests.labeling.conftest import build_store
from tests.labeling.export.conftest import CONFIG
from tests.labeling.odd_videos import video

EVERY = sorted(FORMATS)
WITH_FRAMES = [name for name in EVERY if FORMATS[name].pictures in ("usual", "always")]


def test_unknown_formats_are_named_with_the_choices(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"mot.*youtube-vis"):
        export(store, "voc", tmp_path / "labels.json")


@pytest.mark.parametrize("format", EVERY)
def test_what_is_there_is_replaced_only_if_asked_for(store: Store, tmp_path: Path, format: str) -> None:
    out = tmp_path / FORMATS[format].out
    config = ExportConfig(pictures=False) if format == "yolo" else ExportConfig()
    made = export(store, format, out, config)
    assert (made.path, made.videos, made.problems) == (out, 3, {})
    with pytest.raises(StoreError, match="--force"):
        export(store, format, out, config)
    export(store, format, out, config, force=True)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_folder_of_something_else_is_never_replaced(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreError, match="not written by an export"):
        export(store, "mot", tmp_path / "mine", force=True)
    with pytest.raises(StoreError, match="is a folder"):
        export(store, "csv", tmp_path / "mine", force=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_a_file_of_something_else_is_never_replaced(store: Store, tmp_path: Path) -> None:
    for name in ("a.mp4", "labels.csv.json"):
        (tmp_path / name).write_text("years of work")
    with pytest.raises(StoreError, match=r"a\.mp4 does not end in \.csv"):
        export(store, "csv", tmp_path / "a.mp4", force=True)
    with pytest.raises(StoreError, match=r"labels\.csv\.json is there already"):
        export(store, "csv", tmp_path / "labels.csv")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("a.mp4", "labels.csv.json"), "years of work"
    )


def test_files_have_an_ending_and_folders_not_that_of_a_file(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"writes a file, .* Say --out .*/labels\.h5$"):
        export(store, "swm-hdf5", tmp_path / "labels")
    with pytest.raises(StoreError, match=r"coco writes a folder. Say --out .*/labels, or choose another --format"):
        export(store, "coco", tmp_path / "labels.json")
    assert not list(tmp_path.iterdir())
    export(store, "csv", tmp_path / "boxes.txt")
    export(store, "mot", tmp_path / "v1.2")


def test_where_no_video_is_found_that_is_said_once(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="The same or the like holds for 2 more") as refused:
        export(store, "yolo", tmp_path / "yolo", videos=tmp_path / "nowhere")
    assert str(refused.value).count("--videos") == 1


def test_labels_that_people_made_are_not_called_automatic(make_store, tmp_path: Path) -> None:
    store = make_store()
    desk = Desk(store.path)
    desk.edit(RenameCategory(category=0, name="square"), desk.version)
    desk.edit(CheckVideo(video="squares.mp4"), desk.version)
    store = Store(store.path)
    said = "made without human labels, then reviewed by people (2 edits)"
    made = export(store, "coco", tmp_path / "coco").path
    assert said in json.loads((made / "annotations" / "instances_train.json").read_text())["info"]["description"]
    facts = json.loads((made / SIDECAR).read_text())
    assert facts["labels"]["edits"] == 2
    assert facts["videos"][0]["checked"]
    assert said in (export(store, "yolo", tmp_path / "yolo").path / "data.yaml").read_text()
    assert said in write_report(store, tmp_path / "report").read_text()
    mot = export(store, "mot", tmp_path / "mot").path
    imported = Store(import_labels(mot, store.videos_folder, tmp_path / "truth.zarr").path)
    info = json.loads(export(imported, "youtube-vis", tmp_path / "v.json").path.read_text())["info"]
    assert info["description"].endswith("imported from mot")
    assert info["spectrabox"]["labels"]["imported_from"] == "mot"


@pytest.mark.parametrize("format", ["youtube-vis", "mot"])
def test_a_failed_export_leaves_the_old_one(store: Store, tmp_path: Path, monkeypatch, format: str) -> None:
    out = tmp_path / FORMATS[format].out
    export(store, format, out)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in [out, *out.rglob("*")])

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("labeling.export.job.Job.choose", full_disk)
    monkeypatch.setattr("labeling.export.job.Job._is_sound", lambda *_: True)
    with pytest.raises(StoreError, match="No space left"):
        export(store, format, out, force=True)
    assert sorted((path.name, path.stat().st_mtime_ns) for path in [out, *out.rglob("*")]) == before
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three videos: one with broken labels, one that has changed since, and one that is fine."""
    folder = tmp_path_factory.mktemp("damaged")
    store = build_store(folder, "broken.mp4", "changed.mp4", "fine.mp4")
    chunk = next(path for path in (store.path / "videos" / "broken.mp4" / "boxes" / "c").rglob("*") if path.is_file())
    chunk.write_bytes(b"nonsense")
    video = folder / "videos" / "changed.mp4"
    video.write_bytes(video.read_bytes() + b"\0")
    return Store(store.path)


@pytest.mark.parametrize("format", EVERY)
def test_bad_videos_are_named_and_the_rest_goes_on(damaged: Store, tmp_path: Path, format: str) -> None:
    made = export(damaged, format, tmp_path / FORMATS[format].out)
    expected = {"broken.mp4": "cannot be read"} | ({"changed.mp4": "has changed"} if format in WITH_FRAMES else {})
    assert made.problems.keys() == expected.keys()
    for name, words in expected.items():
        assert words in made.problems[name]
    assert made.videos == 3 - len(expected)
    left = [path.name for path in made.path.rglob("*") if "broken" in path.name or "changed" in path.name]
    assert not left if format in WITH_FRAMES else all("changed" in name for name in left)


def test_if_nothing_can_be_exported_there_is_no_export(make_store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not there"):
        export(make_store(videos=False), "yolo", tmp_path / "yolo")
    assert not (tmp_path / "yolo").exists()


def test_categories_that_were_dropped_stay_away(make_store, tmp_path: Path) -> None:
    store = make_store(videos=False)
    table = store.root.attrs["categories"]
    table[1]["kept"] = False
    zarr.open_group(str(store.path), mode="r+").attrs["categories"] = table
    store = Store(store.path)
    data = json.loads(export(store, "youtube-vis", tmp_path / "a.json").path.read_text())
    assert [row["category_id"] for row in data["annotations"]] == [1]
    made = export(store, "mot", tmp_path / "mot", ExportConfig(dropped=True))
    rows = np.loadtxt(next(made.path.rglob("gt.txt")), delimiter=",")
    assert {int(row[1]): int(row[6]) for row in rows} == {1: 1, 2: 0, 7: 0}


@pytest.mark.parametrize(
    ("format", "choice", "words"),
    [
        ("csv", {"pictures": True}, "holds no pictures"),
        ("lerobot", {"pictures": False}, "frames and boxes together"),
        ("yolo", {"dropped": True}, "Choose one of coco, mot, csv, parquet"),
        ("mot", {"size": 64}, "Only swm-hdf5"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(store: Store, tmp_path: Path, format, choice, words) -> None:
    with pytest.raises(StoreError, match=words):
        export(store, format, tmp_path / "out", ExportConfig(**choice))


def test_the_split_is_by_video_and_stays_when_others_come(make_store, tmp_path: Path) -> None:
    def held_out(*names: str) -> set[str]:
        store = make_store(*names, videos=False, masks=False)
        made = export(store, "mot", tmp_path / "mot", ExportConfig(validation=0.4), force=True)
        rows = json.loads((made.path / SIDECAR).read_text())["videos"]
        return {row["source"] for row in rows if row["split"] == "val"}

    some = held_out("a.mp4", "b.mp4", "c.mp4", "d.mp4", "e.mp4")
    assert len(some) == 2
    assert some & held_out("a.mp4", "b.mp4", "c.mp4", "d.mp4", "e.mp4", "x.mp4")
    assert held_out("alone.mp4") == set()


def test_progress_counts_every_frame(store: Store, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    for format in ("csv", "mot"):
        export(store, format, tmp_path / FORMATS[format].out, CONFIG, progress=lambda _, *at: heard.append(at))
        assert heard[-1] == (72, 72)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Labels of a video in which nothing moves."""
    folder = tmp_path_factory.mktemp("empty")
    (folder / "videos").mkdir()
    video(folder / "videos" / "still.mp4", np.full((12, 48, 64, 3), 90, np.uint8))
    assert not label_folder(folder / "videos", folder / "labels.zarr", workers=1).failed
    return Store(folder / "labels.zarr")


@pytest.mark.parametrize("format", EVERY)
def test_labels_in_which_nothing_was_found_are_exported(empty: Store, tmp_path: Path, format: str) -> None:
    made = export(empty, format, tmp_path / FORMATS[format].out)
    assert made.path.exists()
    assert not made.problems
