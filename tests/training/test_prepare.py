"""From a label store and videos to a dataset: what goes in comes out, and what is wrong is named."""

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
from labeling.tracks import UNASSIGNED
from tests.training.labeled import labeled_folder, sliding_boxes, still_frames, tracks_of
from training.dataset import Windows
from training.dataset_format import DatasetError, open_dataset
from training.manifest import PrepareConfig, Split
from training.prepare import prepare
from training.sources.framing import Framing
from training.sources.labels import Kind, chosen_groups


@pytest.fixture
def labeled(tmp_path):
    return labeled_folder(tmp_path)


def many(labeled, count=10, frames=20, objects=2):
    """So many videos that none needs to be cut."""
    for number in range(count):
        labeled.add(
            f"clip{number:02}.mp4", still_frames(frames), tracks_of(sliding_boxes(frames, objects), range(objects))
        )


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


def test_something_else_is_never_overwritten(labeled, tmp_path):
    many(labeled)
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1.tex").write_text("dear")
    with pytest.raises(DatasetError, match="is no dataset"):
        prepare(labeled.store, precious)
    with pytest.raises(DatasetError, match="is no dataset"):
        prepare(labeled.store, labeled.store)
    assert (precious / "chapter1.tex").read_text() == "dear"


@pytest.mark.parametrize("form", ["npy", "csv", "csv with names", "parquet"])
@pytest.mark.parametrize("missing", [0, 1])
def test_actions_beside_a_video_are_read(labeled, tmp_path, form, missing):
    actions = np.random.default_rng(0).normal(size=(20 - missing, 3)).astype(np.float32)
    path = labeled.add("in/a.mp4", still_frames(20), tracks_of(sliding_boxes(20, 1), [0]))
    file = path.with_name(f"a.actions.{form[:3] if form.startswith('csv') else form}")
    if form == "npy":
        np.save(file, actions)
    elif form == "parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({name: actions[:, i] for i, name in enumerate("xyz")}), file)
    else:
        np.savetxt(file, actions, delimiter=",", header="x,y,z" if "names" in form else "", comments="")
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(episode_frames=100))
    written = open_dataset(made.path).array("actions")[:]
    np.testing.assert_allclose(written[: 20 - missing], actions, rtol=1e-6)
    assert not missing or not written[-1].any()
    without = prepare(labeled.store, tmp_path / "e.zarr", config=PrepareConfig(use_actions=False))
    assert without.actions == 0


def spoil_actions_short(labeled):
    np.save(labeled.folder / "bad.actions.npy", np.zeros((17, 2)))


def spoil_actions_nan(labeled):
    np.save(labeled.folder / "bad.actions.npy", np.where(np.arange(40).reshape(20, 2) == 14, np.nan, 0.0))


def spoil_actions_text(labeled):
    (labeled.folder / "bad.actions.csv").write_text("left,right\n1,2\nfast,3\n")


def spoil_actions_missing(labeled):
    (labeled.folder / "bad.actions.npy").unlink()


def spoil_actions_twice(labeled):
    (labeled.folder / "bad.actions.csv").write_text("1,2\n")


def spoil_actions_size(labeled):
    np.save(labeled.folder / "bad.actions.npy", np.zeros((20, 5)))


def spoil_box(labeled):
    boxes = sliding_boxes(20, 2)
    boxes[7, 1] += 50
    labeled.add("bad.mp4", still_frames(20), tracks_of(boxes, [0, 1]))


def spoil_shape(labeled):
    labeled.add("bad.mp4", still_frames(20, 64, 48), tracks_of(sliding_boxes(20, 1, 48, 64), [0]))


def spoil_video(labeled):
    (labeled.folder / "bad.mp4").write_bytes((labeled.folder / "clip00.mp4").read_bytes() + b"more")


def spoil_gone(labeled):
    (labeled.folder / "bad.mp4").unlink()


def spoil_length(labeled):
    labeled.add("bad.mp4", still_frames(15), tracks_of(sliding_boxes(20, 2), [0, 1]))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (spoil_actions_short, "bad.actions.npy has 17 actions for 20 frames"),
        (spoil_actions_nan, "bad.actions.npy has a NaN or infinite action at frame 7"),
        (spoil_actions_text, "bad.actions.csv"),
        (spoil_actions_missing, "has no actions beside it"),
        (spoil_actions_twice, "several files of actions"),
        (spoil_actions_size, "5 numbers an action, most others have 2"),
        (spoil_box, "a box outside the frame: object 11 at frame 7"),
        (spoil_shape, "48x64 pixels, another shape"),
        (spoil_video, "has changed since"),
        (spoil_gone, "is not there"),
        (spoil_length, "15 frames"),
    ],
)
def test_a_fault_is_named_with_its_file_and_the_rest_goes_on(labeled, tmp_path, spoil, words):
    many(labeled, 3)
    labeled.add("bad.mp4", still_frames(20, colour=90), tracks_of(sliding_boxes(20, 2), [0, 1]))
    for name in ("clip00", "clip01", "clip02", "bad"):
        np.save(labeled.folder / f"{name}.actions.npy", np.ones((20, 2)))
    if spoil is spoil_actions_text:
        (labeled.folder / "bad.actions.npy").unlink()
    spoil(labeled)
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(episode_frames=100))
    assert list(made.problems) == ["bad.mp4"]
    assert words in made.problems["bad.mp4"]
    data = open_dataset(made.path)
    assert sorted(set(data.sources)) == ["clip00.mp4", "clip01.mp4", "clip02.mp4"]
    assert data.frames == 60
    assert data.array("frames").shape[0] == data.array("boxes").shape[0] == 60


def test_nothing_usable_makes_no_dataset_and_says_why(labeled, tmp_path):
    labeled.add("bad.mp4", still_frames(20), tracks_of(sliding_boxes(20, 1), [0]))
    spoil_gone(labeled)
    with pytest.raises(DatasetError, match=r"Nothing in labels can be used: .*bad.mp4 is not there"):
        prepare(labeled.store, tmp_path / "d.zarr")
    assert not (tmp_path / "d.zarr").exists()


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


def test_objects_that_an_episode_does_not_show_take_no_slot_in_it(labeled, tmp_path):
    boxes = np.full((40, 4, 4), np.nan)
    for number in range(4):
        boxes[number * 10 : number * 10 + 10, number] = [5, 5, 15, 15]
    labeled.add("a.mp4", still_frames(40), tracks_of(boxes, [0, 1, 2, 0]))
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(episode_frames=20))
    data = open_dataset(made.path)
    assert data.objects == 2
    assert data.array("boxes").shape == (40, 2, 4)
    assert data.category.tolist() == [[0, 1], [2, 0]]
    assert data.instance.tolist() == [[10, 11], [12, 13]]


def test_many_categories_share_a_group_and_the_choice_is_said(labeled, tmp_path):
    weights = np.linspace(0.1, 1, 12)
    order = np.argsort(-weights)
    boxes = np.full((20, 12, 4), [5, 5, 15, 15.0])
    labeled.add("a.mp4", still_frames(20), tracks_of(boxes, order, weights[order]))
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(max_categories=4))
    assert [row.name for row in made.categories] == ["object-12", "object-11", "object-10", "other"]
    assert set(made.categories[-1].members) == {f"object-{number}" for number in range(1, 10)}
    assert any("9 of 12 categories share the group other" in note for note in made.notes)
    assert open_dataset(made.path).attributes["notes"] == made.notes
    assert open_dataset(made.path).category.max() == 3


def test_categories_that_are_called_alike_stay_apart():
    names = ["ball", "ball", "ball 2", "other", "ball"]
    kinds = [Kind(id, name, 1, 9.0 - id) for id, name in enumerate(names)]
    grouping = chosen_groups([*kinds, Kind(UNASSIGNED, "unassigned", 1, 1.0)], PrepareConfig())
    assert [row.name for row in grouping.categories] == ["ball", "ball 3", "ball 2", "other", "ball 4", "other 2"]
    assert grouping.group_of == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, UNASSIGNED: 5}
    picked = chosen_groups(kinds, PrepareConfig(categories=("ball", "ball")))
    assert [row.name for row in picked.categories] == ["ball", "ball 2", "ball 3"]


def test_categories_can_be_picked_by_name(labeled, tmp_path):
    many(labeled, objects=3)
    only = prepare(labeled.store, tmp_path / "a.zarr", config=PrepareConfig(categories=("object-2",)))
    assert [row.name for row in only.categories] == ["object-2"]
    assert open_dataset(only.path).objects == 1
    assert any("object-1, object-3" in note for note in only.notes)
    rest = prepare(labeled.store, tmp_path / "b.zarr", config=PrepareConfig(categories=("object-2", "other")))
    assert [(row.name, row.members) for row in rest.categories] == [
        ("object-2", ("object-2",)),
        ("other", ("object-1", "object-3")),
    ]
    with pytest.raises(DatasetError, match=r"no category cat\. The store has: object-1, object-2, object-3"):
        prepare(labeled.store, tmp_path / "c.zarr", config=PrepareConfig(categories=("cat",)))


def test_unassigned_tracks_join_the_rest(labeled, tmp_path):
    labeled.add("a.mp4", still_frames(20), tracks_of(sliding_boxes(20, 2), [0, -1]))
    made = prepare(labeled.store, tmp_path / "d.zarr")
    assert [(row.name, row.members) for row in made.categories] == [
        ("object-1", ("object-1",)),
        ("other", ("unassigned",)),
    ]


def test_a_crowd_is_cut_to_the_most_prominent_and_said(labeled, tmp_path):
    labeled.add("a.mp4", still_frames(20), tracks_of(np.full((20, 9, 4), [5, 5, 15, 15.0]), [0] * 9))
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(max_objects=4))
    assert open_dataset(made.path).instance[0].tolist() == [10, 11, 12, 13]
    assert any("a.mp4: 5 of the least prominent" in note for note in made.notes)


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


def test_what_cannot_be_prepared_is_said(tmp_path):
    with pytest.raises(DatasetError, match="does not exist"):
        prepare(tmp_path / "nothing", tmp_path / "d.zarr")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DatasetError, match="neither of these"):
        prepare(tmp_path / "folder", tmp_path / "d.zarr")


@pytest.mark.slow
def test_a_killed_run_leaves_nothing_and_the_next_makes_the_same_dataset(tmp_path):
    out = tmp_path / "d.zarr"
    code = f"from training.simulate import simulate; simulate('nball', {str(out)!r}, episodes=3000, seed=1, balls=1)"
    process = subprocess.Popen([sys.executable, "-c", code])
    draft = tmp_path / f".d.zarr.{process.pid}.part" / "frames" / "c" / "1"
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


@pytest.mark.parametrize("absolute", [False, True])
def test_a_video_outside_of_the_folder_is_left_out_but_links_are_followed(labeled, tmp_path, absolute):
    many(labeled, count=2)
    (labeled.folder / "clip00.mp4").rename(tmp_path / "elsewhere.mp4")
    (labeled.folder / "clip00.mp4").symlink_to(tmp_path / "elsewhere.mp4")
    frames, tracks = still_frames(20), tracks_of(sliding_boxes(20, 1), [0])
    outside = str(tmp_path / "secret.mp4") if absolute else "../secret.mp4"
    labeled.add("secret.mp4", frames, tracks, source=outside).rename(tmp_path / "secret.mp4")
    made = prepare(labeled.store, tmp_path / "d.zarr")
    assert list(made.problems) == [outside]
    assert "secret.mp4 leads out of" in made.problems[outside]
    assert made.frames == 40
