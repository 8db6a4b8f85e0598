"""What fuzzing found, each by the name of what the user saw."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from labeling import open_store
from labeling.actions import read_actions
from labeling.config import load_config
from labeling.folder import Source
from labeling.observations import Observations
from labeling.pipeline import label_video
from labeling.problems import RunError, StoreError, VideoError
from labeling.review.desk import Desk
from labeling.review.edits import SplitTrack
from labeling.run import label_folder
from labeling.settings_files import ConfigError
from labeling.store import Store
from labeling.validate import validate
from labeling.vocabulary import Vocabulary
from tests.labeling.conftest import build_store
from tests.labeling.odd_videos import pictures, video
from tests.training.tiny_run import tiny_config, tiny_dataset
from training import checkpoint, load
from training.config import TrainError, merged
from training.config import load_config as load_train_config
from training.dataset import Windows, open_dataset
from training.dataset_format import DatasetError
from training.manifest import ManifestError, load_manifest
from training.trainer import train

HOME = "videos/squares.mp4"


def one_line(error: BaseException) -> str:
    assert len(str(error).splitlines()) == 1
    return str(error)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.npy", b""),  # EOFError
        ("head.npy", b"\x93NUMPY\x01\x00\x16\x00{'descr': '<f4', (\0\0\0\n"),  # TokenError
        (
            "huge.npy",
            b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846,)}\n",
        ),
        ("field.csv", b'"' + b"x" * 200_000),  # csv.Error
        ("page.parquet", b"PAR1" + b"\0" * 50 + b"PAR1"),  # errors of several lines
    ],
)
def test_broken_actions_are_refused_in_one_line(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(VideoError, match="cannot be read as a table of actions") as refused:
        read_actions(tmp_path / name)
    one_line(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "- " * 3000,  # RecursionError
        f"a: {'9' * 5000}",  # ValueError: exceeds the limit for integer string conversion
        "a: 2026-02-31",  # ValueError: day is out of range
        "a: b: c\n  d: [",  # an error of several lines
        "a: \0",
        "a: *nobody",
    ],
)
def test_yaml_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    for reader in (load_manifest, load_config, load_train_config):
        with pytest.raises((ManifestError, ConfigError), match="is not valid YAML") as refused:
            reader(file)
        one_line(refused.value)


def test_a_value_on_the_command_line_that_is_no_date_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="is not a value"):
        load_config(settings=["keep_static=2026-02-31"])


def test_a_manifest_whose_names_are_numbers_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("1: 2\n")
    with pytest.raises(ManifestError, match="must hold entries like"):
        load_manifest(tmp_path / "m.yaml")


def test_twenty_wrong_settings_are_not_all_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("".join(f"wrong{number}: 1\n" for number in range(20)))
    with pytest.raises(ConfigError, match="and 16 more") as refused:
        load_config(tmp_path / "s.yaml")
    assert len(one_line(refused.value)) < 500


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{", b'{"step": "x"}', b"[" * 100_000])
def test_a_broken_checkpoint_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / checkpoint.FACTS).write_bytes(content)
    with pytest.raises(TrainError, match="is not a checkpoint that this version reads") as refused:
        checkpoint.read(tmp_path)
    one_line(refused.value)


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    """A store to break."""
    return Path(shutil.copytree(sound, tmp_path / "labels.zarr"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(str(build_store(tmp_path_factory.mktemp("sound"), videos=False).path))


def edit(file: Path, **changes: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_store_that_claims_terabytes_is_not_read(store: Path) -> None:
    """A few bytes of metadata; missing chunks would have been filled up in memory until the system was out of it."""
    edit(store / HOME / "boxes" / "zarr.json", shape=[1 << 40, 2, 4])
    with pytest.raises(StoreError, match=r"videos/squares.mp4/boxes is damaged \(it claims .* GB that are not there\)"):
        _ = open_store(store)["squares"].tracks
    assert any("boxes" in problem for problem in validate(store))


def test_a_chunk_that_is_missing_is_named_by_validate(store: Path) -> None:
    """Zarr reads it as if there were nothing there, and says nothing."""
    shutil.rmtree(store / "stages" / "squares.mp4" / "embedding" / "c")
    assert any("embedding lacks 1 of 1 chunks" in problem for problem in validate(store))


@pytest.mark.parametrize(
    ("name", "value"),
    [("frames", "many"), ("height", 10**9), ("fps", 1e308), ("source", 7), ("source", "\ud800"), ("dropped", [1])],
)
def test_a_store_that_says_what_cannot_be_is_refused_in_words(store: Path, name: str, value: object) -> None:
    known = json.loads((store / HOME / "zarr.json").read_text())["attributes"]
    edit(store / HOME / "zarr.json", attributes=known | {name: value})
    with pytest.raises(StoreError, match=f"squares.mp4 is damaged .the attribute {name} is") as refused:
        open_store(store)["squares.mp4"]
    one_line(refused.value)


def test_masks_whose_runs_add_up_to_gigabytes_are_refused(store: Path) -> None:
    counts = zarr.open_group(str(store), mode="r+")[f"{HOME}/masks/counts"]
    counts[0] = 4_000_000_000
    with pytest.raises(StoreError, match="a stored mask is damaged: its runs cover 40000"):
        open_store(store)["squares"].mask(0, 0)


@pytest.mark.parametrize("file", ["zarr.json", f"{HOME}/zarr.json", f"{HOME}/boxes/zarr.json", f"{HOME}/boxes/c/0/0/0"])
def test_broken_bytes_in_a_store_are_told_in_one_line(store: Path, file: str) -> None:
    (store / file).write_bytes(b"\xff{")
    with pytest.raises(StoreError, match="is damaged") as refused:
        _ = open_store(store)["squares"].tracks
    assert "spectrabox validate" in one_line(refused.value)
    assert validate(store)


@pytest.mark.slow
def test_tracks_that_are_damaged_go_and_the_video_is_labeled_anew(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    clip, store = video(tmp_path / "videos" / "one.mp4", pictures(12)), tmp_path / "labels.zarr"
    label_folder(tmp_path / "videos", store, workers=1)
    whole = store / "stages" / "one.mp4" / "whole" / "c" / "0" / "0"
    whole.write_bytes(whole.read_bytes()[:-4])
    opened = Store(store, mode="a")
    words = opened.vocabulary
    assert isinstance(words, Vocabulary)
    with pytest.raises(VideoError, match=r"was damaged and is removed\. Run again to label it anew"):
        label_video(opened, Source("one.mp4", "one.mp4", clip), load_config(), words)
    assert not label_folder(tmp_path / "videos", store, workers=1).failed
    assert validate(store) == []


@pytest.mark.slow
def test_rows_that_lead_beyond_the_video_are_damage(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    video(tmp_path / "videos" / "one.mp4", pictures(12))
    label_folder(tmp_path / "videos", tmp_path / "labels.zarr", workers=1)
    stage = zarr.open_group(str(tmp_path / "labels.zarr"), mode="r+")["stages/one.mp4"]
    stage["whole"][-1, 0] = 500
    with pytest.raises(StoreError, match="rows are not in the order of the frames"):
        Observations.read(stage)
    stage["whole"][-1, 0] = 11
    shutil.rmtree(tmp_path / "labels.zarr" / "stages" / "one.mp4" / "real" / "c")  # reads as zeros
    with pytest.raises(StoreError, match="boxes without a size"):
        Observations.read(stage)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("zarr.json", b"{"),
        ("frames/zarr.json", b"{"),
        ("frames/c/0/0/0/0", b"no picture"),
        ("episode_length/c/0", np.full(24, -5).tobytes()),
        ("episode_source/c/0", np.full(24, 99).tobytes()),
    ],
)
def test_a_damaged_dataset_is_refused_in_one_line(tmp_path: Path, file: str, content: bytes) -> None:
    dataset = tiny_dataset(tmp_path / "tiny.zarr").path
    assert (dataset / file).exists()
    (dataset / file).write_bytes(content)
    with pytest.raises(DatasetError, match=r"tiny\.zarr is damaged.*Prepare it anew") as refused:
        next(Windows(open_dataset(dataset), "train", length=4, batch=8).batches(0))
    one_line(refused.value)


def test_a_preset_that_is_no_name_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("preset: [nball]\n")
    with pytest.raises(ConfigError, match="preset"):
        load_train_config(tmp_path / "s.yaml")


@pytest.mark.parametrize(
    ("group", "change"),
    [
        ("data", {"statistics": {}}),  # KeyError
        ("data", {"statistics": {"actions": {"mean": [0, 0], "std": [1, 1, 1]}}}),  # tensors that do not fit
        ("config", {"model": {"projector": 1 << 50}}),  # more memory than there is
    ],
)
def test_a_checkpoint_that_describes_no_model_is_refused_in_one_line(
    tmp_path: Path, group: str, change: dict[str, object]
) -> None:
    train(tiny_dataset(tmp_path / "tiny.zarr"), tmp_path / "run", tiny_config(steps=1))
    file = checkpoint.find(tmp_path / "run", "last") / checkpoint.FACTS
    facts = json.loads(file.read_text())
    edit(file, **{group: merged(facts[group], change) if group == "config" else facts[group] | change})
    with pytest.raises(TrainError, match="cannot be used: no model can be as it says") as refused:
        load(tmp_path / "run", "last")
    one_line(refused.value)


def test_broken_masks_of_a_reviewed_video_are_told_in_one_line(store: Path) -> None:
    desk = Desk(store)
    desk.edit(SplitTrack(video="squares.mp4", track=1, frame=6), desk.version)
    (store / HOME / "masks" / "offsets" / "c" / "0").write_bytes(b"")
    with pytest.raises(StoreError, match=r"masks.* is damaged") as refused:
        list(open_store(store)["squares"].mask_runs())
    one_line(refused.value)


def test_a_folder_in_the_place_of_a_file_is_told_in_one_line_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    video(tmp_path / "videos" / "0.mp4", pictures(14))
    label_folder(tmp_path / "videos", tmp_path / "labels.zarr", workers=1)
    group = tmp_path / "labels.zarr" / "videos" / "zarr.json"
    kept = group.read_bytes()
    group.unlink()
    group.mkdir()
    with pytest.raises((RunError, StoreError)) as refused:
        label_folder(tmp_path / "videos", tmp_path / "labels.zarr", workers=1)
    assert "a folder in the place of a file" in one_line(refused.value)
    group.rmdir()
    group.write_bytes(kept)
    assert label_folder(tmp_path / "videos", tmp_path / "labels.zarr", workers=1).up_to_date
