"""Each box state of the paper trains, from a file that has its columns to a checkpoint; without them one is told."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from tests.training.test_hdf5 import write
from tests.training.tiny_run import tiny_config
from training.config import TrainError
from training.dataset import Dataset, DatasetError, Windows, open_dataset
from training.manifest import PrepareConfig
from training.prepare import prepare
from training.settings import MASKED_STATES, BoxState, Matching, TargetConfig
from training.targets import BoxTarget, box_error
from training.trainer import train

LENGTHS = [12] * 12
ROWS = sum(LENGTHS)
STATES = get_args(BoxState)


def objects(seed: int = 0) -> dict[str, np.ndarray]:
    """Two objects in every column that a file may have, in pixels of 16 x 16; the second is sometimes absent."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform(4, 12, (ROWS, 2, 2))
    pose = rng.normal(size=(ROWS, 2, 6))
    pose[:, 1, 3:5] = np.nan  # roll and pitch do not apply to the second
    boxes = np.concatenate([centre - 2, centre + 2], axis=-1)
    boxes[::5, 1] = np.nan
    return {
        "boxes": boxes, "mass": centre, "velocity": rng.normal(size=(ROWS, 2, 2)), "pose": pose,
        "oriented": np.concatenate([centre, np.full((ROWS, 2, 2), [6.0, 3.0]), rng.uniform(-1, 1, (ROWS, 2, 1))], -1),
        "depth": np.sort(rng.uniform(0.5, 2, (ROWS, 2, 5)), axis=-1), "pose_velocity": rng.normal(size=(ROWS, 2, 3)),
    }  # fmt: skip


def made(folder: Path, name: str = "cube", **changes: np.ndarray | None) -> Dataset:
    write(folder / f"{name}.h5", LENGTHS, **{**objects(), **changes})
    found = prepare(folder / f"{name}.h5", folder / f"{name}.zarr", config=PrepareConfig(size=16))
    assert found.problems == {}
    return open_dataset(found.path)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    torch.set_num_threads(1)
    return made(tmp_path_factory.mktemp("every"))


def test_columns_of_objects_are_taken_over_in_the_units_of_the_dataset(dataset: Dataset) -> None:
    given, present = objects(), dataset.array("present")[:]
    for name, scale in {"mass": 16, "velocity": 16, "depth": 1, "pose": 1, "pose_velocity": 1}.items():
        np.testing.assert_allclose(dataset.array(name)[:][present] * scale, given[name][present], rtol=1e-5, atol=1e-6)
    oriented = dataset.array("oriented")[:]
    np.testing.assert_allclose(oriented[present][:, :4] * 16, given["oriented"][present][:, :4], rtol=1e-5)
    np.testing.assert_allclose(oriented[present][:, 4], given["oriented"][present][:, 4], atol=1e-6)


def test_statistics_leave_out_numbers_that_do_not_apply(dataset: Dataset) -> None:
    rows = np.isin(np.arange(ROWS) // LENGTHS[0], dataset.split("train"))
    seen = objects()["pose"][rows][dataset.array("present")[:][rows]]
    np.testing.assert_allclose(dataset.statistics["pose"].mean, np.nanmean(seen, axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(dataset.statistics["pose"].std, np.nanstd(seen, axis=0), rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_each_state_trains(dataset: Dataset, tmp_path: Path, state: BoxState) -> None:
    matching = {"exact": "none", "compact7": "frame", "compact13": "sequence"}.get(state, "fourier")
    target = {"state": state, "matching": matching}
    config = tiny_config(target=target, steps=2, validate_every=2, monitor_windows=12)
    row = train(dataset, tmp_path / "run", config, device="cpu").validation
    assert 0 < row["encoded"] < 1e3
    assert 0 < row["predicted"] < 1e3


@pytest.mark.parametrize("matching", get_args(Matching))
@pytest.mark.parametrize("state", STATES)
def test_each_state_has_a_loss_with_each_matching_that_applies(
    dataset: Dataset, state: BoxState, matching: Matching
) -> None:
    if (matching == "fourier" and state in MASKED_STATES) or (state == "exact" and matching != "none"):
        with pytest.raises(ValueError, match="choose matching none"):
            TargetConfig(state=state, matching=matching)
        return
    target = BoxTarget.of(TargetConfig(state=state, matching=matching), dataset)
    batch = next(Windows(dataset, batch=8).batches(0))
    answers = torch.zeros(8, 4, target.size)
    truth = target.matched(target(batch), answers, batch)
    assert 0 < box_error(answers, truth) < 1e3


@pytest.mark.parametrize(
    ("state", "lacks"),
    [("obb", "oriented"), ("bb+com", "mass"), ("bb+depth25-75", "depth"), ("compact7", "velocity"), ("exact", "state")],
)
def test_a_dataset_without_the_column_is_refused_before_training(tmp_path: Path, state: BoxState, lacks: str) -> None:
    data = made(tmp_path, **{lacks: None})
    config = tiny_config(target={"state": state, "matching": "none"})
    with pytest.raises(TrainError, match=f"{lacks.replace('+', '.')}.*does not have.*target.state=bb, "):
        train(data, tmp_path / "run", config, device="cpu")
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"depth": np.ones((ROWS, 2, 3))}, "the column depth has the shape"),
        ({"pose": np.ones((ROWS, 1, 6))}, "the column pose has the shape"),
    ],
)
def test_a_column_of_another_shape_is_named(tmp_path: Path, changes: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(DatasetError, match=words):
        made(tmp_path, **changes)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("depth", -1.0, "depth of 0 or less"),
        ("depth", 9.0, "they must not fall"),
        ("depth", np.nan, "depth that are NaN"),
        ("pose", np.inf, "pose that are NaN or infinite, first at frame 3"),
        ("mass", np.nan, "mass that are NaN"),
    ],
)
def test_numbers_that_cannot_be_right_cost_the_episode_and_are_named(
    tmp_path: Path, name: str, value: float, words: str
) -> None:
    columns = objects()
    columns[name][3, 0, 0] = value
    write(tmp_path / "a.h5", LENGTHS, **columns)
    found = prepare(tmp_path / "a.h5", tmp_path / "d.zarr", config=PrepareConfig(size=16))
    assert list(found.problems) == ["a.h5 episode 0"]
    assert words in found.problems["a.h5 episode 0"]
    assert open_dataset(found.path).episodes == len(LENGTHS) - 1
