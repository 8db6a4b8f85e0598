"""Manifests: the ones we ship are valid, and a wrong one says what is wrong."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.training.labeled import labeled_folder, sliding_boxes, still_frames, tracks_of
from training.dataset_format import DatasetError, open_dataset
from training.envs import make
from training.manifest import Manifest, ManifestError, PrepareConfig, SimulatorSource, Split, load_manifest
from training.prepare import prepare
from training.sources.hashing import content_hash

SHIPPED = sorted((Path(__file__).parents[2] / "data_manifests").glob("*.yaml"))
SMALL = {
    "name": "small", "kind": "simulator", "source": {"environment": "nball", "options": {"balls": 2}, "episodes": 6,
    "frames": 8}, "seed": 4, "licence": "Apache-2.0", "actions": "simulator", "labels": "simulator",
}  # fmt: skip


def written(path, **changes):
    path.write_text(yaml.safe_dump({name: value for name, value in (SMALL | changes).items() if value is not None}))
    return path


def test_there_is_a_manifest_for_each_of_our_datasets():
    assert {path.stem for path in SHIPPED} >= {"nball-1", "nball-3", "nball-6", "two-room", "demo-videos"}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_manifest_that_we_ship_is_valid(path):
    manifest = load_manifest(path)
    assert manifest.name == path.stem
    assert str(manifest.out) == f"datasets/{path.stem}.zarr"
    if isinstance(manifest.source, SimulatorSource):
        world = make(manifest.source.environment, **manifest.source.options)
        assert manifest.frames == manifest.source.episodes * manifest.source.frames
        assert manifest.settings.size == world.size[0]


@pytest.mark.parametrize(
    ("name", "windows"), [("two-room", 730_000), ("push-t", 500_000), ("cube", 500_000), ("reacher", 500_000)]
)
def test_as_many_windows_are_trained_on_as_in_the_paper(name, windows):
    manifest = load_manifest(next(path for path in SHIPPED if path.stem == name))
    trained = (~manifest.split.choose(manifest.source.episodes)).sum() * (manifest.source.frames - 4 * 5 + 1)
    assert windows <= trained <= 1.005 * windows


def test_a_manifest_makes_its_dataset_where_it_belongs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = prepare(written(tmp_path / "m.yaml", frames=48))
    assert made.path == Path("datasets/small.zarr")
    assert made.name == "small"
    assert (made.frames, made.training, made.validation) == (48, 5, 1)
    assert made.notes == []
    elsewhere = prepare(tmp_path / "m.yaml", tmp_path / "here.zarr", config=PrepareConfig(size=32))
    assert elsewhere.size == (32, 32)


def test_a_promise_of_frames_that_is_not_kept_is_said(tmp_path):
    made = prepare(written(tmp_path / "m.yaml", frames=50), tmp_path / "d.zarr")
    assert any("promises 50 frames, the dataset has 48" in note for note in made.notes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": None}, "needs a seed"),
        ({"kind": "film"}, "kind"),
        ({"labels": "store"}, "come from the simulator"),
        ({"kind": "videos"}, "has a path, not an environment"),
        ({"source": {"path": "videos"}}, "has an environment, not a path"),
        ({"kind": "videos", "source": {"path": "v"}, "actions": "none", "labels": "store"}, "need source.store"),
        (
            {"kind": "hdf5", "source": {"path": "v"}, "actions": "beside", "labels": "none"},
            "actions of hdf5 are inside",
        ),
        ({"colour": "red"}, "there is no entry colour"),
        ({"split": {"validation": 1.5}}, "split.validation"),
        ({"name": "../up"}, "name"),
        ({"sha256": "abc"}, "sha256"),
    ],
)
def test_a_wrong_manifest_says_what_is_wrong(tmp_path, changes, words):
    with pytest.raises(ManifestError, match=words) as error:
        load_manifest(written(tmp_path / "m.yaml", **changes))
    assert "m.yaml" in str(error.value)


@pytest.mark.parametrize("text", ["- a\n- b", "a: [", "\xff"])
def test_a_file_that_is_no_manifest_is_refused(tmp_path, text):
    path = tmp_path / "m.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ManifestError, match=r"m\.yaml"):
        load_manifest(path)
    with pytest.raises(ManifestError, match="cannot be read"):
        load_manifest(tmp_path / "none.yaml")


def test_videos_of_a_manifest_are_checked_against_its_hash(tmp_path):
    labeled = labeled_folder(tmp_path)
    labeled.add("a.mp4", still_frames(20), tracks_of(sliding_boxes(20, 1), [0]))
    facts = {
        "kind": "videos", "source": {"path": str(labeled.folder), "store": str(labeled.store)}, "seed": None,
        "actions": "none", "labels": "store", "sha256": content_hash(labeled.folder),
    }  # fmt: skip
    assert prepare(written(tmp_path / "m.yaml", **facts), tmp_path / "d.zarr").frames == 20
    (labeled.folder / "more.txt").write_text("new")
    with pytest.raises(DatasetError, match="it is another file"):
        prepare(tmp_path / "m.yaml", tmp_path / "d.zarr")


def test_actions_that_a_manifest_promises_must_be_there(tmp_path):
    labeled = labeled_folder(tmp_path)
    labeled.add("a.mp4", still_frames(20), tracks_of(sliding_boxes(20, 1), [0]))
    facts = {
        "kind": "videos", "source": {"path": str(labeled.folder), "store": str(labeled.store)}, "seed": None,
        "actions": "beside", "labels": "store",
    }  # fmt: skip
    with pytest.raises(DatasetError, match="should have actions beside"):
        prepare(written(tmp_path / "m.yaml", **facts), tmp_path / "d.zarr")
    np.save(labeled.folder / "a.actions.npy", np.zeros((20, 2)))
    assert prepare(tmp_path / "m.yaml", tmp_path / "d.zarr").actions == 2
    ignored = prepare(written(tmp_path / "n.yaml", **facts | {"actions": "none"}), tmp_path / "e.zarr")
    assert ignored.actions == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"store": "s.zarr"}, r"--store cannot be used with a manifest: it names its own.*m\.yaml"),
        ({"videos": "v"}, "--videos cannot be used with a simulator"),
        (
            {"config": PrepareConfig(camera="a", episode_frames=4)},
            "--camera and --episode-frames cannot be used with a sim",
        ),
    ],
)
def test_options_that_a_manifest_does_not_read_are_refused(tmp_path, given, words):
    with pytest.raises(DatasetError, match=words):
        prepare(written(tmp_path / "m.yaml"), tmp_path / "d.zarr", **given)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            {"environment": "two_room", "options": {"balls": 3}},
            "There is no option balls. Those of two_room are: door, size",
        ),
        ({"environment": "pong"}, "There is no environment 'pong'"),
    ],
)
def test_a_world_that_a_manifest_gets_wrong_is_named_with_what_there_is(tmp_path, source, words):
    with pytest.raises(DatasetError, match=f"small: {words}"):
        prepare(written(tmp_path / "m.yaml", source=source), tmp_path / "d.zarr")


def test_the_split_holds_out_a_share_the_same_for_the_same_seed():
    assert Split(validation=0.25).choose(100).sum() == 25
    np.testing.assert_array_equal(Split(seed=3).choose(50), Split(seed=3).choose(50))
    assert (Split(seed=3).choose(50) != Split(seed=4).choose(50)).any()
    assert Split(validation=0.01).choose(5).sum() == 1
    assert Split(validation=0.9).choose(2).sum() == 1
    assert Split(validation=0).choose(9).sum() == 0
    assert Split().choose(1).sum() == 0


def test_a_manifest_is_plain_data():
    assert Manifest(**Manifest(**SMALL).model_dump(mode="json")) == Manifest(**SMALL)


def test_another_split_of_the_same_frames_is_another_dataset(tmp_path):
    path = written(tmp_path / "m.yaml")
    first = prepare(path, tmp_path / "a.zarr")
    other = prepare(path, tmp_path / "b.zarr", split=Split(validation=0.5))
    assert other.validation == 3
    assert first.fingerprint != other.fingerprint
    np.testing.assert_array_equal(
        open_dataset(first.path).array("frames")[:], open_dataset(other.path).array("frames")[:]
    )
