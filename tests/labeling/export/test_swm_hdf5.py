"""HDF5 of stable-worldmodel: read back by its reader, and by our own importer as a dataset to train on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import zarr

from labeling.export import ExportConfig, export
from labeling.store import Store
from labeling.video import Video
from tests.labeling.conftest import FRAMES, HEIGHT, WIDTH
from tests.labeling.export.conftest import CONFIG, LICENCE, same, truth
from training.dataset_format import open_dataset
from training.manifest import PrepareConfig
from training.prepare import prepare

h5py = pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def file(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = export(store, "swm-hdf5", tmp_path_factory.mktemp("hdf5") / "labels.h5", CONFIG)
    assert (made.problems, made.notes) == ({}, [])
    return made.path


@pytest.fixture(scope="module")
def read() -> Iterator[Callable[..., Any]]:
    """`HDF5Dataset` of stable-worldmodel, without the rest of that package, which asks for LanceDB and torchvision."""
    spec = find_spec("stable_worldmodel")
    if spec is None or find_spec("loguru") is None:
        pytest.skip("stable-worldmodel is not there: .ci/run installs it")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("stable_worldmodel", "stable_worldmodel.data", "stable_worldmodel.data.formats"):
            package = ModuleType(name)  # its own modules are found in it, its `__init__` is not run
            package.__path__ = [str(Path(spec.submodule_search_locations[0], *name.split(".")[1:]))]
            patch.setitem(sys.modules, name, package)
        yield import_module("stable_worldmodel.data.formats.hdf5").HDF5Dataset
        for name in [name for name in sys.modules if name.startswith("stable_worldmodel.")]:
            patch.delitem(sys.modules, name)


def episodes(path: Path) -> list[tuple[str, dict[str, np.ndarray]]]:
    """Source and columns of each episode; like stable-worldmodel's reader, which takes every member for a column."""
    with h5py.File(path, "r", swmr=True) as file:
        lengths, offsets = file["ep_len"][:], file["ep_offset"][:]
        names = [name for name in file if name not in ("ep_len", "ep_offset")]
        rows = [slice(start, start + length) for start, length in zip(offsets, lengths, strict=True)]
        return [
            (source, {name: file[name][part] for name in names})
            for source, part in zip(file.attrs["episodes"], rows, strict=True)
        ]


def test_every_box_is_found_again_to_the_last_bit(store: Store, file: Path) -> None:
    found = {}
    for source, columns in episodes(file):
        for frame, place in np.argwhere(columns["instance"] >= 0):
            found[source, frame, columns["instance"][frame, place]] = columns["boxes"][frame, place]
        assert (np.isfinite(columns["boxes"]).all(axis=-1) == (columns["instance"] >= 0)).all()
    same(found, truth(store), within=0)


def test_their_reader_finds_every_box_frame_and_action(store: Store, file: Path, read: Callable[..., Any]) -> None:
    dataset, ours = read(path=file), dict(episodes(file))
    sources = list(ours)
    assert dataset.lengths.tolist() == [store[id].frames for id in store.ids]
    found = {}
    for number, source in enumerate(sources):
        columns = {name: column.numpy() for name, column in dataset.load_episode(number).items()}
        for frame, place in np.argwhere(columns["instance"] >= 0):
            found[source, frame, columns["instance"][frame, place]] = columns["boxes"][frame, place]
        columns["pixels"] = columns["pixels"].transpose(0, 2, 3, 1)  # it puts colours first
        assert columns.keys() == ours[source].keys()
        for name, column in columns.items():
            np.testing.assert_array_equal(column, ours[source][name], err_msg=name)
    same(found, truth(store), within=0)


def test_their_windows_hold_boxes_and_frames_of_the_same_moments(
    store: Store, file: Path, read: Callable[..., Any]
) -> None:
    from torch.utils.data import DataLoader

    dataset = read(path=file, frameskip=3, num_steps=4)
    assert len(dataset) == sum(store[id].frames - 11 for id in store.ids)
    (batch,) = DataLoader(dataset, batch_size=len(dataset))
    for (episode, start), boxes, time, pixels, action in zip(
        dataset.clip_indices, *(batch[name].numpy() for name in ("boxes", "time", "pixels", "action")), strict=True
    ):
        labels, (source, columns) = store[store.ids[episode]], episodes(file)[episode]
        assert labels.source == source
        rows = slice(start, start + 12, 3)
        np.testing.assert_array_equal(time, labels.tracks.time[rows])
        np.testing.assert_array_equal(boxes, columns["boxes"][rows])
        np.testing.assert_array_equal(pixels.transpose(0, 2, 3, 1), columns["pixels"][rows])
        np.testing.assert_array_equal(action, columns["action"][start : start + 12].reshape(4, 6))


def test_their_reader_takes_videos_in_which_nothing_was_found_and_no_actions(
    make_store, tmp_path: Path, read: Callable[..., Any]
) -> None:
    store = make_store("a.mp4")
    root = zarr.open_group(str(store.path), mode="r+")
    root.attrs["categories"] = [kind | {"kept": False} for kind in root.attrs["categories"]]
    dataset = read(path=export(Store(store.path), "swm-hdf5", tmp_path / "labels.h5").path, num_steps=2)
    assert (len(dataset), dataset[0]["boxes"].shape, "action" in dataset[0]) == (FRAMES - 1, (2, 0, 4), False)
    assert (dataset.get_dim("boxes"), dataset.get_row_data(3)["pixels"].shape) == (0, (HEIGHT, WIDTH, 3))


def test_frames_and_actions_are_those_of_the_videos(store: Store, file: Path) -> None:
    for source, columns in episodes(file):
        video = store.videos_folder / source
        np.testing.assert_array_equal(columns["pixels"], [frame.image for frame in Video(video).frames()])
        np.testing.assert_array_equal(columns["action"], np.load(video.with_suffix(".actions.npy")))


def test_places_split_and_licence_are_said(store: Store, file: Path) -> None:
    with h5py.File(file) as opened:
        assert opened["boxes"].attrs["names"].tolist() == ["object-1", "unassigned"]
        assert sorted(opened.attrs["split"].tolist()) == ["train", "train", "val"]
        assert opened.attrs["licence"] == LICENCE
        assert json.loads(opened.attrs["spectrabox"])["labels"]["profile"] == "embedded"


def test_our_importer_makes_the_same_dataset_of_it_as_of_the_store(store: Store, file: Path, tmp_path: Path) -> None:
    config = PrepareConfig(size=32, episode_frames=24)
    ours, theirs = (
        open_dataset(prepare(source, tmp_path / f"{name}.zarr", config=config).path)
        for name, source in (("ours", store.path), ("theirs", file))
    )
    for name in ("actions", "present", "boxes", "mass", "oriented", "frames"):
        np.testing.assert_allclose(theirs.array(name)[:], ours.array(name)[:], atol=1e-6, err_msg=name)
    assert [kind.members for kind in theirs.categories] == [kind.members for kind in ours.categories]


def test_frames_can_be_stretched_and_boxes_with_them(store: Store, tmp_path: Path) -> None:
    made = export(store, "swm-hdf5", tmp_path / "small.h5", ExportConfig(size=32))
    assert any("oriented" in note for note in made.notes)
    source, columns = episodes(made.path)[0]
    assert columns["pixels"].shape == (24, 32, 32, 3)
    scale = np.array([32 / 96, 32 / 64] * 2)
    np.testing.assert_allclose(columns["boxes"][3, 0], truth(store)[source, 3, 1] * scale, rtol=1e-6)
    assert "oriented" not in columns


def test_a_video_with_other_actions_or_another_size_is_left_out(make_store, tmp_path: Path) -> None:
    store = make_store("a.mp4", "b.mp4", "c.mp4", "d.mp4")
    for name in "abc":
        np.save(tmp_path / "videos" / f"{name}.actions.npy", np.zeros((24 if name != "b" else 7, 2), np.float32))
    made = export(store, "swm-hdf5", tmp_path / "labels.h5")
    assert "7 actions for 24 frames" in made.problems["b.mp4"]
    assert "no numbers an action" in made.problems["d.mp4"]
    assert [source for source, _ in episodes(made.path)] == ["a.mp4", "c.mp4"]
