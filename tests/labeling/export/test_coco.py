"""COCO: read back by faster-coco-eval."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from faster_coco_eval import COCO

from labeling.export import ExportConfig, export
from labeling.export.job import SIDECAR
from labeling.store import Store
from tests.labeling.export.conftest import CONFIG, LICENCE, same, truth


@pytest.fixture(scope="module")
def folder(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("coco") / "coco"
    made = export(store, "coco", out, CONFIG.model_copy(update={"pictures": True}))
    assert (made.problems, made.videos) == ({}, 3)
    return out


def read(folder: Path) -> dict:
    found = {}
    for split in ("train", "val"):
        coco = COCO(str(folder / "annotations" / f"instances_{split}.json"))
        sources = {video["id"]: video["file_name"] for video in coco.dataset["videos"]}
        for row in coco.loadAnns(coco.getAnnIds()):
            image = coco.loadImgs(row["image_id"])[0]
            x, y, width, height = row["bbox"]
            found[sources[image["video_id"]], image["frame_id"], row["instance_id"]] = [x, y, x + width, y + height]
    return found


def test_every_box_is_found_again(store: Store, folder: Path) -> None:
    same(read(folder), truth(store))


def test_a_video_is_in_one_split_alone_and_the_licence_goes_along(store: Store, folder: Path) -> None:
    splits = [json.loads((folder / "annotations" / f"instances_{name}.json").read_text()) for name in ("train", "val")]
    names = [{video["file_name"] for video in data["videos"]} for data in splits]
    assert [len(found) for found in names] == [2, 1]
    assert names[0] | names[1] == {labels.source for labels in store.values()}
    for data in splits:
        assert data["licenses"][0]["name"] == LICENCE
        assert [row["name"] for row in data["categories"]] == ["object-1", "object-2", "unassigned"]
        assert {row["category_id"] for row in data["annotations"]} == {1, 3}
    assert json.loads((folder / SIDECAR).read_text())["licence_of_videos"] == LICENCE


def test_pictures_are_those_of_the_videos(store: Store, folder: Path) -> None:
    data = json.loads((folder / "annotations" / "instances_val.json").read_text())
    for image in data["images"]:
        picture = cv2.imread(str(folder / "val" / image["file_name"]))
        assert picture.shape == (image["height"], image["width"], 3)
    row = next(row for row in data["annotations"] if row["category_id"] == 1)
    image = next(image for image in data["images"] if image["id"] == row["image_id"])
    x, y, width, height = row["bbox"]
    middle = cv2.imread(str(folder / "val" / image["file_name"]))[round(y + height / 2), round(x + width / 2)]
    assert middle[2] > 180 > middle[0], "the first square is red"


def test_masks_are_those_of_the_store(store: Store, folder: Path) -> None:
    coco = COCO(str(folder / "annotations" / "instances_val.json"))
    name = coco.dataset["videos"][0]["file_name"]
    frames = {image["id"]: image["frame_id"] for image in coco.dataset["images"]}
    rows = [row for row in coco.dataset["annotations"] if row["instance_id"] == 1][:5]
    for row in rows:
        mask = store[name].mask(frames[row["image_id"]], 0)
        np.testing.assert_array_equal(coco.annToMask(row), mask)
        assert row["area"] == mask.sum()


def test_what_was_dropped_comes_with_a_mark(store: Store, tmp_path: Path) -> None:
    export(store, "coco", tmp_path / "all", ExportConfig(dropped=True, validation=0))
    same(read(tmp_path / "all"), truth(store, dropped=True))
    data = json.loads((tmp_path / "all" / "annotations" / "instances_train.json").read_text())
    assert {row["instance_id"]: row["kept"] for row in data["annotations"]} == {1: True, 2: True, 7: False}
    assert not (tmp_path / "all" / "train").exists(), "no pictures were asked for"
