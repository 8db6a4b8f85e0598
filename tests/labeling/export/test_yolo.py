"""YOLO: read back by the rules by which Ultralytics checks a dataset."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import yaml

from labeling.export import ExportConfig, export
from labeling.store import Store
from tests.labeling.export.conftest import CONFIG, LICENCE, truth


def read(folder: Path, split: str) -> dict[str, np.ndarray]:
    """The rows (n, 5) of every picture of a split; labels lie where `images` becomes `labels`."""
    data = yaml.safe_load((folder / "data.yaml").read_text())
    found = {}
    for picture in sorted((folder / data[split]).glob("*.jpg")):
        file = Path(str(picture).replace("/images/", "/labels/")).with_suffix(".txt")
        rows = [line.split() for line in file.read_text().splitlines()]
        table = np.array(rows, float).reshape(-1, 5)
        assert set(table[:, 0]) <= set(data["names"])
        assert ((table[:, 1:] >= 0) & (table[:, 1:] <= 1)).all()
        assert len(np.unique(table, axis=0)) == len(table)
        assert cv2.imread(str(picture)).shape == (64, 96, 3)
        found[picture.stem] = table
    return found


def test_every_box_is_found_again(store: Store, tmp_path: Path) -> None:
    made = export(store, "yolo", tmp_path / "yolo", CONFIG)
    assert made.problems == {}
    splits = [read(made.path, split) for split in ("train", "val")]
    assert [len(pictures) for pictures in splits] == [48, 24]
    found = splits[0] | splits[1]
    sources = {id.removesuffix(".mp4"): labels.source for id, labels in store.items()}
    everything = truth(store)
    checked = 0
    for stem, table in found.items():
        name, frame = stem.rsplit("_", 1)
        source = next(sources[id] for id in sources if id.startswith(name))
        expected = [box for key, box in everything.items() if key[:2] == (source, int(frame))]
        middle, sides = table[:, 1:3] * [96, 64], table[:, 3:] * [96, 64]
        edges = np.concatenate([middle - sides / 2, middle + sides / 2], axis=1)
        np.testing.assert_allclose(edges, np.reshape(expected, (-1, 4)), atol=1e-6)
        checked += len(table)
    assert checked == len(everything)


def test_names_licence_and_split_are_said(store: Store, tmp_path: Path) -> None:
    made = export(store, "yolo", tmp_path / "yolo", ExportConfig(pictures=False, validation=0, licence=LICENCE))
    text = (made.path / "data.yaml").read_text()
    data = yaml.safe_load(text)
    assert data == {
        "train": "images/train",
        "val": "images/train",
        "names": {0: "object-1", 1: "object-2", 2: "unassigned"},
    }
    assert LICENCE in text
    assert any("held out" in note for note in made.notes)
    assert not list(made.path.rglob("*.jpg"))


def test_frames_without_objects_have_an_empty_file(make_store, tmp_path: Path) -> None:
    store = make_store(category=(0, 0))
    made = export(store, "yolo", tmp_path / "yolo", ExportConfig(pictures=False))
    sizes = [len(path.read_text().splitlines()) for path in sorted(made.path.rglob("squares_*.txt"))]
    assert sizes == [2] * 8 + [1] * 8 + [2] * 8
