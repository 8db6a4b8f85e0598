"""LeRobot v3 datasets: several episodes to a file, found again by the tables."""

import json

import cv2
import numpy as np
import pytest

from labeling.store import SCHEMA, Store
from tests.training.labeled import Labeled, sliding_boxes, still_frames, tracks_of
from training.dataset_format import DatasetError, open_dataset
from training.envs.video import encode
from training.manifest import PrepareConfig
from training.prepare import prepare

arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
LENGTHS = [[12, 9, 14, 10, 11, 8], [10, 13, 9, 12, 11]]  # episodes of two files
CAMERA = "observation.images.top"
FPS = 10


def table(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(arrow.table(columns), path)


def scene(file, frames):
    return still_frames(frames, 64, 64, colour=40 + 30 * file)


def write(root, kind="video", version="v3.0", spoil=None):
    """A folder as LeRobot writes it; actions count through all rows."""
    features = {
        CAMERA: {"dtype": kind, "shape": [64, 64, 3]}, "action": {"dtype": "float32", "shape": [2]},
        "observation.state": {"dtype": "float32", "shape": [3]}, "episode_index": {"dtype": "int64", "shape": [1]},
    }  # fmt: skip
    info = {
        "codebase_version": version, "fps": FPS, "features": features, "total_episodes": 11,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    }  # fmt: skip
    (root / "meta").mkdir(parents=True)
    (root / "meta" / "info.json").write_text(json.dumps(info))
    episodes, row, number = [], 0, 0
    for file, lengths in enumerate(LENGTHS):
        frames = sum(lengths)
        action = np.arange(row, row + frames)[:, None] + np.array([0.0, 0.5])
        if spoil is not None:
            spoil(file, action)
        columns = {
            "action": list(action.astype(np.float32)),
            "observation.state": list(np.ones((frames, 3), np.float32) * file),
            "episode_index": np.repeat(np.arange(number, number + len(lengths)), lengths),
        }  # fmt: skip
        if kind == "image":
            pictures = [cv2.imencode(".png", image[..., ::-1])[1].tobytes() for image in scene(file, frames)]
            columns[CAMERA] = [{"bytes": picture, "path": ""} for picture in pictures]
        else:
            video = root / "videos" / CAMERA / "chunk-000" / f"file-{file:03}.mp4"
            video.parent.mkdir(parents=True, exist_ok=True)
            encode(video, scene(file, frames), FPS)
        table(root / "data" / "chunk-000" / f"file-{file:03}.parquet", columns)
        begin = 0
        for length in lengths:
            episodes.append({
                "episode_index": number, "length": length, "data/chunk_index": 0, "data/file_index": file,
                f"videos/{CAMERA}/chunk_index": 0, f"videos/{CAMERA}/file_index": file,
                f"videos/{CAMERA}/from_timestamp": begin / FPS, f"videos/{CAMERA}/to_timestamp": (begin + length) / FPS,
                "stats/action/mean": [0.0, 0.0],
            })  # fmt: skip
            number, begin = number + 1, begin + length
        row += frames
    table(root / "meta" / "episodes" / "chunk-000" / "file-000.parquet", arrow.Table.from_pylist(episodes).to_pydict())
    return root


@pytest.mark.parametrize("kind", ["video", "image"])
def test_frames_actions_and_states_of_each_episode_are_found(tmp_path, kind):
    write(tmp_path / "pour", kind)
    made = prepare(tmp_path / "pour", tmp_path / "d.zarr")
    data = open_dataset(made.path)
    assert made.problems == {}
    assert made.name == "pour"
    assert data.episode_length.tolist() == [length for lengths in LENGTHS for length in lengths]
    np.testing.assert_array_equal(data.array("actions")[:, 0], np.arange(data.frames))
    np.testing.assert_array_equal(data.array("state")[:, 0], np.repeat([0, 1], [64, 55]))
    stripe = data.array("frames")[:].mean(axis=(1, 3)).argmax(axis=1)
    assert stripe.tolist() == [*range(64), *range(55)]
    assert any("No label store" in note for note in made.notes)


def test_labels_of_the_videos_are_joined_episode_by_episode(tmp_path):
    root = write(tmp_path / "pour")
    Store(tmp_path / "labels.zarr", mode="a").root.update_attributes({"schema": SCHEMA, "videos": str(root / "videos")})
    labeled = Labeled(root / "videos", tmp_path / "labels.zarr")
    for file, lengths in enumerate(LENGTHS):
        frames = sum(lengths)
        tracks = tracks_of(sliding_boxes(frames, 2), [0, file])
        labeled.add(f"{CAMERA}/chunk-000/file-{file:03}.mp4", scene(file, frames), tracks)
    made = prepare(root, tmp_path / "d.zarr", store=tmp_path / "labels.zarr")
    assert made.problems == {}
    data = open_dataset(made.path)
    expected = np.concatenate([sliding_boxes(sum(lengths), 2) for lengths in LENGTHS])
    centre = (expected[..., 0] + expected[..., 2]) / 2 / 64
    there = data.array("boxes")[:][data.array("present")[:]]
    np.testing.assert_allclose(there[:, 0].reshape(-1, 2), centre, atol=1e-6)
    assert data.category.tolist() == [[0, 0, -1]] * 6 + [[0, -1, 1]] * 5


def test_a_crowd_in_a_video_file_is_said(tmp_path):
    root = write(tmp_path / "pour")
    Store(tmp_path / "labels.zarr", mode="a").root.update_attributes({"schema": SCHEMA, "videos": str(root / "videos")})
    labeled = Labeled(root / "videos", tmp_path / "labels.zarr")
    for file, lengths in enumerate(LENGTHS):
        tracks = tracks_of(sliding_boxes(sum(lengths), 3), [0, 0, 0])
        labeled.add(f"{CAMERA}/chunk-000/file-{file:03}.mp4", scene(file, sum(lengths)), tracks)
    config = PrepareConfig(max_objects=2)
    made = prepare(root, tmp_path / "d.zarr", config=config, store=tmp_path / "labels.zarr")
    assert made.notes[0] == "pour episode 0: 1 of the least prominent objects of an episode are left out (max_objects)."
    assert made.notes[5:] == ["So it is with 6 more."]


def test_a_faulty_episode_is_named_and_the_rest_goes_on(tmp_path):
    def spoil(file, action):
        if file == 1:
            action[12] = np.nan

    write(tmp_path / "pour", spoil=spoil)
    made = prepare(tmp_path / "pour", tmp_path / "d.zarr")
    assert list(made.problems) == ["pour episode 7"]
    assert "NaN or infinite action at frame 2" in made.problems["pour episode 7"]
    assert open_dataset(made.path).episodes == 10


def test_a_missing_file_is_named(tmp_path):
    write(tmp_path / "pour")
    (tmp_path / "pour" / "videos" / CAMERA / "chunk-000" / "file-001.mp4").unlink()
    made = prepare(tmp_path / "pour", tmp_path / "d.zarr")
    assert list(made.problems) == [f"pour episode {number}" for number in range(6, 11)]
    assert "file-001.mp4 is missing" in made.problems["pour episode 6"]


@pytest.mark.parametrize("key", ["video_path", "data_path"])
def test_a_file_outside_of_the_folder_is_refused_but_links_are_followed(tmp_path, key):
    root = write(tmp_path / "pour")
    for part in ("videos", "data"):
        (root / part).rename(tmp_path / part)
        (root / part).symlink_to(tmp_path / part)
    assert prepare(root, tmp_path / "linked.zarr").problems == {}
    info = json.loads((root / "meta" / "info.json").read_text())
    for number, place in enumerate((f"../{info[key]}", f"{tmp_path}/{info[key]}")):
        (root / "meta" / "info.json").write_text(json.dumps(info | {key: place}))
        with pytest.raises(DatasetError, match=r"leads out of .*pour"):
            prepare(root, tmp_path / f"{number}.zarr")


def test_older_versions_are_refused_with_what_to_do(tmp_path):
    write(tmp_path / "pour", version="v2.1")
    with pytest.raises(DatasetError, match=r"version v2\.1; convert it"):
        prepare(tmp_path / "pour", tmp_path / "d.zarr")


def test_a_camera_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    write(tmp_path / "pour")
    with pytest.raises(DatasetError, match=r"There are: observation\.images\.top"):
        prepare(tmp_path / "pour", tmp_path / "d.zarr", config=PrepareConfig(camera="left"))


def test_a_damaged_table_costs_the_episodes_in_it(tmp_path):
    write(tmp_path / "pour")
    (tmp_path / "pour" / "data" / "chunk-000" / "file-001.parquet").write_bytes(b"PAR1 cut off")
    made = prepare(tmp_path / "pour", tmp_path / "d.zarr")
    assert list(made.problems) == [f"pour episode {number}" for number in range(6, 11)]
    assert "file-001.parquet cannot be read" in made.problems["pour episode 6"]


def test_a_table_without_its_actions_and_ragged_ones_are_named(tmp_path):
    write(tmp_path / "pour")
    first, second = ((tmp_path / "pour" / "data" / "chunk-000" / f"file-{file:03}.parquet") for file in range(2))
    table(first, {**parquet.read_table(first).drop_columns(["action"]).to_pydict()})
    rows = parquet.read_table(second).to_pydict()
    rows["action"][12] = [1.0]
    table(second, rows)
    made = prepare(tmp_path / "pour", tmp_path / "d.zarr")
    assert list(made.problems) == [f"pour episode {number}" for number in (*range(6), 7)]
    assert "file-000.parquet has no column action" in made.problems["pour episode 0"]
    assert "file-001.parquet: action does not have the same count" in made.problems["pour episode 7"]


@pytest.mark.parametrize("name", ["fps", "features", "data_path"])
def test_facts_that_are_missing_are_named(tmp_path, name):
    root = write(tmp_path / "pour")
    info = json.loads((root / "meta" / "info.json").read_text())
    del info[name]
    (root / "meta" / "info.json").write_text(json.dumps(info))
    with pytest.raises(DatasetError, match=rf"info\.json does not say {name}"):
        prepare(root, tmp_path / "d.zarr")
