"""From a label store and videos to a dataset: what goes in comes out."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import zarr

from labeling.config import LabelConfig
from labeling.run import label_folder
from tests.training.labeled import many, sliding_boxes, still_frames, tracks_of
from training.dataset import Windows
from training.dataset_format import DatasetError, open_dataset
from training.manifest import PrepareConfig, Split
from training.prepare import prepare
from training.sources.framing import Framing


def test_boxes_come_out_as_shares_of_the_frame(labeled, tmp_path):
    boxes = sliding_boxes(20, 2)
    boxes[5:9, 1] = np.nan
    labeled.add("a.mp4", still_frames(20), tracks_of(boxes, [0, 1]))
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(episode_frames=100))
    data = open_dataset(made.path)
    x1, y1, x2, y2 = np.moveaxis(boxes, -1, 0)
    expected = np.stack([(x1 + x2) / 128, (y1 + y2) / 96, (x2 - x1) / 64, (y2 - y1) / 48], axis=-1)
    present = data.array("present")[:]
    np.testing.assert_array_equal(present, np.isfinite(boxes[..., 0]))
    np.testing.assert_allclose(data.array("boxes")[:][present], expected[present], atol=1e-6)
    assert np.abs(data.array("boxes")[:][~present]).max() == 0
    np.testing.assert_allclose(data.array("mass")[:][present], expected[present][:, :2], atol=1e-6)
    assert data.size == (64, 64)
    assert data.action_dim == 0
    assert made.actions == 0
    assert [row.name for row in data.categories] == ["object-1", "object-2"]
    assert data.instance.tolist() == [[10, 11]]


def test_frames_are_those_of_the_video_in_their_order(labeled, tmp_path):
    labeled.add("a.mp4", still_frames(70, 64, 64), tracks_of(sliding_boxes(70, 1), [0]))
    config = PrepareConfig(episode_frames=100)
    frames = open_dataset(prepare(labeled.store, tmp_path / "d.zarr", config=config).path).array("frames")[:]
    brightest = frames.mean(axis=(1, 3)).argmax(axis=1)
    assert brightest.tolist() == [number % 64 for number in range(70)]


def test_letterbox_keeps_the_aspect_and_carries_the_boxes_along(labeled, tmp_path):
    labeled.add("a.mp4", still_frames(8, 32, 64), tracks_of(np.full((8, 1, 4), [0, 0, 64, 32.0]), [0]))
    config = PrepareConfig(letterbox=True, episode_frames=100)
    data = open_dataset(prepare(labeled.store, tmp_path / "d.zarr", config=config).path)
    frames = data.array("frames")[:]
    assert frames[:, :16].max() == frames[:, 48:].max() == 0
    assert frames[:, 17:47].min() > 30
    np.testing.assert_allclose(data.array("boxes")[0, 0], [0.5, 0.5, 1, 0.5])


def test_oriented_boxes_survive_stretching():
    box = np.array([32.0, 24.0, 20.0, 4.0, np.pi / 4])
    stretched = Framing(48, 64, 64).oriented(box)
    assert stretched[:2].tolist() == [0.5, 0.5]
    assert stretched[4] == pytest.approx(np.arctan2(1 / 48, 1 / 64))
    assert stretched[2] * stretched[3] == pytest.approx(20 * 4 / (48 * 64))
    flipped = Framing(10, 100, 64).oriented(np.array([50.0, 5.0, 8.0, 6.0, 0.0]))
    assert flipped[2:].tolist() == pytest.approx([0.6, 0.08, -np.pi / 2])
    square = Framing(64, 64, 32).oriented(box)
    assert square[2:].tolist() == pytest.approx([20 / 64, 4 / 64, np.pi / 4])


def test_the_same_input_gives_the_same_bytes(labeled, tmp_path):
    many(labeled)
    first, second = (prepare(labeled.store, tmp_path / name) for name in ("one.zarr", "two.zarr"))
    assert first.fingerprint == second.fingerprint
    files = [p.relative_to(first.path) for p in sorted(first.path.rglob("*")) if p.is_file()]
    for file in files:
        if file.name != "zarr.json":
            assert (first.path / file).read_bytes() == (second.path / file).read_bytes()
    one, two = (dict(open_dataset(made.path).attributes) for made in (first, second))
    assert one | {"name": "", "recipe": ""} == two | {"name": "", "recipe": ""}


def test_a_dataset_that_is_there_is_left_alone_and_made_anew_if_anything_changed(labeled, tmp_path):
    many(labeled)
    out = tmp_path / "d.zarr"
    assert prepare(labeled.store, out).new
    before = (out / "zarr.json").stat().st_mtime_ns
    again = prepare(labeled.store, out)
    assert not again.new
    assert (out / "zarr.json").stat().st_mtime_ns == before
    other = prepare(labeled.store, out, config=PrepareConfig(size=32))
    assert other.new
    assert open_dataset(out).size == (32, 32)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_scene_cut_ends_an_episode(labeled, tmp_path):
    rng = np.random.default_rng(0)
    scenes = [np.repeat(rng.integers(0, 255, (1, 48, 64, 3), dtype=np.uint8) // 2 + base, 25, 0) for base in (0, 120)]
    labeled.add("a.mp4", np.concatenate(scenes), tracks_of(sliding_boxes(50, 1), [0]))
    labeled.add("b.mp4", still_frames(30), tracks_of(sliding_boxes(30, 1), [0]), cuts=[10, 22])
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(episode_frames=100))
    data = open_dataset(made.path)
    assert data.episode_length.tolist() == [25, 25, 10, 12, 8]
    assert data.sources == ["a.mp4", "a.mp4", "b.mp4", "b.mp4", "b.mp4"]
    assert Windows(data, "train", batch=1, skip=6).windows <= 4 * (25 - 19)


def test_few_videos_are_cut_so_that_some_of_each_is_left_to_train_on(labeled, tmp_path):
    labeled.add("a.mp4", still_frames(200), tracks_of(sliding_boxes(200, 1), [0]))
    made = prepare(labeled.store, tmp_path / "d.zarr")
    assert made.validation == 1
    assert made.training == 4
    assert any("cut into episodes" in note for note in made.notes)


def test_statistics_are_those_of_the_training_split_alone(labeled, tmp_path):
    many(labeled, 12)
    for number in range(12):
        actions = np.random.default_rng(number).normal(number, 2, (20, 2))
        np.save(labeled.folder / f"clip{number:02}.actions.npy", actions)
    made = prepare(labeled.store, tmp_path / "d.zarr", split=Split(validation=0.3, seed=4))
    data = open_dataset(made.path)
    train = data.split("train")
    assert len(train) == 8
    rows = [data.array("actions")[o : o + n - 1] for o, n in zip(data.episode_offset[train], [20] * 8, strict=True)]
    np.testing.assert_allclose(data.statistics["actions"].mean, np.concatenate(rows).mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(data.statistics["actions"].std, np.concatenate(rows).std(axis=0), rtol=1e-5)
    boxes = np.concatenate([data.array("boxes")[o : o + 20] for o in data.episode_offset[train]]).reshape(-1, 4)
    np.testing.assert_allclose(data.statistics["boxes"].mean, boxes.mean(axis=0), rtol=1e-5)
    assert data.statistics["boxes"].std[2] == 1.0  # all are equally wide: nothing to divide by


def test_an_incomplete_dataset_is_not_opened(labeled, tmp_path):
    many(labeled)
    made = prepare(labeled.store, tmp_path / "d.zarr")
    zarr.open_group(str(made.path), mode="a").attrs["complete"] = False
    with pytest.raises(DatasetError, match="not complete"):
        open_dataset(made.path)
    with pytest.raises(DatasetError, match="no training dataset"):
        open_dataset(labeled.store)
    with pytest.raises(DatasetError, match="is not a dataset"):
        open_dataset(tmp_path / "nothing")


@pytest.mark.slow
def test_a_killed_run_leaves_nothing_and_the_next_makes_the_same_dataset(tmp_path):
    out = tmp_path / "d.zarr"
    code = f"from training.simulate import simulate; simulate('nball', {str(out)!r}, episodes=3000, seed=1, balls=1)"
    process = subprocess.Popen([sys.executable, "-c", code])
    draft = tmp_path / ".d.zarr.part" / "frames" / "c" / "1"
    while not draft.exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists()
    with pytest.raises(DatasetError):
        open_dataset(out)
    subprocess.run([sys.executable, "-c", code.replace("3000", "100")], check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["d.zarr"]
    other = code.replace("3000", "100").replace("d.zarr", "e.zarr")
    subprocess.run([sys.executable, "-c", other], check=True)
    assert open_dataset(out).fingerprint == open_dataset(tmp_path / "e.zarr").fingerprint


@pytest.mark.slow
def test_videos_that_were_really_labeled_become_batches(videos, tmp_path):
    label_folder(videos, tmp_path / "labels.zarr", LabelConfig(), workers=1)
    made = prepare(tmp_path / "labels.zarr", tmp_path / "d.zarr", videos=videos)
    assert made.problems == {}
    assert made.frames == 120
    data = open_dataset(made.path)
    batch = next(Windows(data, "train", batch=16).batches(0))
    assert batch.present.any()
    assert json.dumps(data.attributes)  # plain data only
    visible = batch.boxes[batch.present]
    assert (visible[:, :2] > 0).all()
    assert (visible[:, :2] < 1).all()
