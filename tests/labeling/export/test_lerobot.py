"""LeRobot v3: read back by its documented schema, and by our own importer as a dataset to train on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas
import pytest

from labeling.export import ExportConfig, export
from labeling.export.lerobot import BOXES, CAMERA, PRESENT
from labeling.store import Store
from labeling.video import Video
from tests.labeling.export.conftest import CONFIG, LICENCE, same, truth
from training.dataset_format import open_dataset
from training.manifest import PrepareConfig
from training.prepare import prepare


@pytest.fixture(scope="module")
def folder(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = export(store, "lerobot", tmp_path_factory.mktemp("lerobot") / "arm", CONFIG)
    assert made.problems == {}
    return made.path


def info_of(folder: Path) -> dict:
    return json.loads((folder / "meta" / "info.json").read_text())


def episodes(folder: Path) -> list[tuple[pandas.Series, pandas.DataFrame]]:
    """Row of the table of episodes, and the rows of its data, found as LeRobot finds them."""
    info = info_of(folder)
    table = pandas.read_parquet(folder / "meta" / "episodes")
    found = []
    for _, row in table.iterrows():
        place = {"chunk_index": row["data/chunk_index"], "file_index": row["data/file_index"]}
        data = pandas.read_parquet(folder / info["data_path"].format(**place))
        found.append((row, data[data["episode_index"] == row["episode_index"]]))
    return found


def column(data: pandas.DataFrame, name: str, shape: list[int]) -> np.ndarray:
    return np.array(data[name].map(lambda cell: np.vstack(cell) if len(shape) == 2 else cell).tolist()).reshape(
        -1, *shape
    )


def test_every_box_is_found_again_to_the_last_bit(store: Store, folder: Path) -> None:
    features = info_of(folder)["features"]
    found = {}
    for row, data in episodes(folder):
        boxes, present = (
            column(data, BOXES, features[BOXES]["shape"]),
            column(data, PRESENT, features[PRESENT]["shape"]),
        )
        assert not boxes[~present].any()
        instances = [1, 2]  # object-1, unassigned
        for frame, place in np.argwhere(present):
            found[row["source"], frame, instances[place]] = boxes[frame, place]
    same(found, truth(store), within=0)
    assert features[PRESENT]["names"] == ["object-1", "unassigned"]


def test_tables_agree_with_one_another(folder: Path) -> None:
    info, rows = info_of(folder), 0
    assert (info["codebase_version"], info["total_episodes"], info["total_frames"]) == ("v3.0", 3, 72)
    assert info["splits"] == {"train": "0:2", "val": "2:3"}
    assert info["licence_of_videos"] == LICENCE
    for number, (row, data) in enumerate(episodes(folder)):
        assert (row["episode_index"], row["dataset_from_index"], row["dataset_to_index"]) == (number, rows, rows + 24)
        assert data["index"].tolist() == list(range(rows, rows + 24))
        assert data["frame_index"].tolist() == list(range(24))
        np.testing.assert_allclose(data["timestamp"], np.arange(24) / info["fps"], atol=1e-6)
        assert set(data.columns) == set(info["features"]) - {CAMERA}
        rows += 24
    tasks = pandas.read_parquet(folder / "meta" / "tasks.parquet")
    assert tasks["task_index"].to_dict() == {"not stated": 0}
    stats = json.loads((folder / "meta" / "stats.json").read_text())
    assert np.shape(stats[CAMERA]["mean"]) == (3, 1, 1)
    every = np.concatenate([np.stack(data["action"]) for _, data in episodes(folder)])
    np.testing.assert_allclose(stats["action"]["mean"], every.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(stats["action"]["std"], every.std(axis=0), atol=1e-6)


def test_frames_and_actions_are_those_of_the_videos(store: Store, folder: Path) -> None:
    for row, data in episodes(folder):
        original = store.videos_folder / row["source"]
        copy = folder / info_of(folder)["video_path"].format(
            video_key=CAMERA,
            chunk_index=row[f"videos/{CAMERA}/chunk_index"],
            file_index=row[f"videos/{CAMERA}/file_index"],
        )
        pairs = zip(Video(original).frames(), Video(copy).frames(), strict=True)
        for number, (one, other) in enumerate(pairs):
            assert np.abs(one.image.astype(int) - other.image).mean() < 3
            assert abs(other.time - number / 12) < 1e-4
        np.testing.assert_array_equal(np.stack(data["action"]), np.load(original.with_suffix(".actions.npy")))


def test_our_importer_takes_it(folder: Path, tmp_path: Path) -> None:
    made = prepare(folder, tmp_path / "d.zarr", config=PrepareConfig(size=32))
    data = open_dataset(made.path)
    assert made.problems == {}
    assert (data.frames, data.action_dim) == (72, 2)
    expected = np.concatenate([np.stack(rows["action"]) for _, rows in episodes(folder)])
    np.testing.assert_allclose(data.array("actions")[:], expected, atol=1e-6)


def test_one_object_and_no_actions_are_fine(make_store, tmp_path: Path) -> None:
    store = make_store("a.mp4", category=(0, 1))
    table = [dict(row, kept=row["id"] == 0) for row in store.root.attrs["categories"]]
    Store(store.path, mode="a").root.attrs["categories"] = table
    made = export(Store(store.path), "lerobot", tmp_path / "arm", ExportConfig(validation=0))
    [(_, data)] = episodes(made.path)
    assert data[PRESENT].tolist() == [True] * 24, "LeRobot stores what has one number as that number"
    np.testing.assert_array_equal(column(data, BOXES, [1, 4])[:, 0], store["a"].boxes[:, 0])
    assert "action" not in data
