"""What cannot be prepared is named with its file, and the rest goes on; nothing else is overwritten or opened."""

import json

import numpy as np
import pytest
import zarr

from flows.train_world_model import prepare_dataset
from tests.training.labeled import many, sliding_boxes, still_frames, tracks_of
from training.dataset_format import DatasetError, open_dataset
from training.manifest import PrepareConfig
from training.prepare import prepare
from training.simulate import simulate


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


def test_a_dataset_of_another_source_is_not_replaced_without_a_word(labeled, tmp_path):
    many(labeled)
    out = tmp_path / "nb.zarr"
    played = simulate("nball", out, episodes=3, frames=5, balls=1)
    words = "nb.zarr is a dataset of nball balls=1 seed=0, 3 episodes of 5 frames; this would be one of .*labels.zarr"
    with pytest.raises(DatasetError, match=words):
        prepare(labeled.store, out)
    with pytest.raises(DatasetError, match=r"balls=3 seed=0.* Choose another --out, or --replace"):
        simulate("nball", out, episodes=3, frames=5, balls=3)
    assert open_dataset(out).fingerprint == played.fingerprint
    assert not simulate("nball", out, episodes=3, frames=5, balls=1).new
    assert prepare(labeled.store, out, replace=True).new
    assert open_dataset(out).world is None
    assert prepare(labeled.store, out, config=PrepareConfig(size=32)).size == (32, 32)  # the same source goes on


def test_a_dataset_that_says_nothing_of_its_source_is_replaced_only_if_asked(labeled, tmp_path):
    many(labeled)
    out = prepare(labeled.store, tmp_path / "d.zarr").path
    attributes = json.loads((out / "zarr.json").read_text())
    del attributes["attributes"]["origin"]  # as it was before origins were written down
    (out / "zarr.json").write_text(json.dumps(attributes))
    assert not prepare(labeled.store, out).new
    with pytest.raises(DatasetError, match="does not say what it was made of"):
        prepare(labeled.store, out, config=PrepareConfig(size=32))


def test_a_dataset_is_no_source_it_is_ready(labeled, tmp_path):
    many(labeled)
    out = prepare(labeled.store, tmp_path / "d.zarr").path
    for place in (None, tmp_path / "e.zarr"):
        with pytest.raises(DatasetError, match=r"d\.zarr is a dataset already: train on it with: spectrabox train"):
            prepare(out, place)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"store": "s.zarr"}, "--store cannot be used with a label store"),
        ({"config": PrepareConfig(camera="top")}, "--camera cannot be used with a label store"),
    ],
)
def test_options_that_a_label_store_does_not_read_are_refused(labeled, tmp_path, given, words):
    many(labeled, 1)
    with pytest.raises(DatasetError, match=words):
        prepare(labeled.store, tmp_path / "d.zarr", **given)
    assert not (tmp_path / "d.zarr").exists()


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


def test_what_cannot_be_prepared_is_said(tmp_path):
    with pytest.raises(DatasetError, match="does not exist"):
        prepare(tmp_path / "nothing", tmp_path / "d.zarr")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DatasetError, match="neither of these"):
        prepare(tmp_path / "folder", tmp_path / "d.zarr")


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


def test_a_dataset_of_another_version_is_not_taken_for_a_label_store(tmp_path):
    made = simulate("nball", tmp_path / "d.zarr", 12, 8, balls=1)
    zarr.open_group(str(made.path)).attrs["schema"] = 99
    for make in (prepare, lambda source, out: prepare_dataset.fn(source, out, None, None, None, None, False)):
        with pytest.raises(DatasetError, match="has schema 99"):
            make(made.path, tmp_path / "other.zarr")
