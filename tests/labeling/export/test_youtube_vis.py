"""Labels leave the store whole, in formats that other tools read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from faster_coco_eval import mask as coco

from labeling.export import export
from labeling.export.rle import compress_runs, resize_runs
from labeling.masks import Mask, decode_runs, encode_runs
from labeling.store import Store
from tests.labeling.export.conftest import CONFIG, LICENCE, same, truth

MakeStore = Callable[..., Store]


def exported(store: Store, out: Path) -> dict:
    return json.loads(export(store, "youtube-vis", out).path.read_text())


def test_every_track_is_an_annotation_with_a_box_per_frame(make_store: MakeStore, tmp_path: Path) -> None:
    data = exported(make_store("squares.mp4", "more/squares.mp4"), tmp_path / "new" / "labels.json")
    assert [video["file_names"][23] for video in data["videos"]] == ["more/squares/00023.jpg", "squares/00023.jpg"]
    assert [row["id"] for row in data["annotations"]] == [1, 2, 3, 4]
    first, second = data["annotations"][:2]
    assert first["bboxes"][3] == [6, 8, 16, 16]
    assert first["score"] == pytest.approx(0.8)
    assert second["bboxes"][8:16] == second["segmentations"][8:16] == second["areas"][8:16] == [None] * 8
    assert {row["category_id"] for row in data["annotations"]} == {row["id"] for row in data["categories"]} == {1, 2}


def test_every_box_is_found_again_with_licence_and_split(store: Store, tmp_path: Path) -> None:
    data = json.loads(export(store, "youtube-vis", tmp_path / "labels.json", CONFIG).path.read_text())
    videos = {row["id"]: row for row in data["videos"]}
    found = {}
    for row in data["annotations"]:
        for frame, box in enumerate(row["bboxes"]):
            if box:
                x, y, width, height = box
                place = videos[row["video_id"]]["file_name"], frame, row["instance_id"]
                found[place] = np.array([x, y, x + width, y + height])
    same(found, truth(store), within=1.1e-3)
    assert sorted(row["split"] for row in videos.values()) == ["train", "train", "val"]
    assert [row["name"] for row in data["licenses"]] == [LICENCE]
    assert {row["license"] for row in videos.values()} == {data["licenses"][0]["id"]}


def test_unassigned_tracks_have_a_category_of_their_own(make_store: MakeStore, tmp_path: Path) -> None:
    data = exported(make_store(category=(0, -1)), tmp_path / "labels.json")
    assert data["categories"][-1] == {"id": 3, "name": "unassigned", "kept": True}
    assert [row["category_id"] for row in data["annotations"]] == [1, 3]


@pytest.mark.parametrize("shrink", [1, 2])
def test_masks_come_in_the_size_of_the_video(make_store: MakeStore, tmp_path: Path, shrink: int) -> None:
    data = exported(make_store(shrink=shrink), tmp_path / "labels.json")
    mask = coco.decode(data["annotations"][0]["segmentations"][5])
    rows, columns = np.nonzero(mask)
    assert mask.shape == (64, 96)
    assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == (10, 8, 26, 24)
    assert data["annotations"][0]["areas"][5] == pytest.approx(256, abs=12)


def test_without_masks_there_are_boxes_alone(make_store: MakeStore, tmp_path: Path) -> None:
    annotation = exported(make_store(masks=False), tmp_path / "labels.json")["annotations"][0]
    assert "segmentations" not in annotation
    assert annotation["areas"][0] == 256


def test_run_strings_are_those_of_coco() -> None:
    rng = np.random.default_rng(3)
    masks = [rng.random((37, 53)) < share for share in (0.5, 0.02, 0.98, 0, 1)]
    masks.append(np.pad(np.ones((300, 1100), bool), ((0, 700), (900, 0))))
    runs = [encode_runs(Mask(0, 0, mask.astype(np.uint8) * 255), *mask.shape) for mask in masks]
    strings = compress_runs(np.concatenate(runs), np.cumsum([0, *(len(run) for run in runs)]))
    for mask, string in zip(masks, strings, strict=True):
        assert string == coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()


def test_enlarged_masks_stay_in_place_and_reach_the_edges() -> None:
    small = np.zeros((40, 60), np.uint8)
    small[30:40, 20:33] = 255
    large = decode_runs(resize_runs(encode_runs(Mask(0, 0, small), 40, 60), (40, 60), (100, 150)), 100, 150)
    rows, columns = np.nonzero(large)
    assert (columns.min(), rows.min(), rows.max()) == (50, 75, 99)
    assert abs(columns.max() + 1 - 82.5) <= 0.5
