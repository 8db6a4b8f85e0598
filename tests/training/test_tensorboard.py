"""TensorBoard gets the numbers of `metrics.jsonl`, in files that TensorBoard itself reads; without it, that is said."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.training.tiny_run import tiny_config, tiny_dataset
from training import checkpoint, metrics
from training.config import TrainError
from training.dataset_format import Dataset
from training.trainer import Listener, train

TRACKED = tiny_config(steps=10, checkpoint_every=3, log_every=1, validate_every=4, tracker="tensorboard")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """One of its categories is called like a column of the metrics."""
    return tiny_dataset(tmp_path_factory.mktemp("data") / "tiny.zarr", names=("step", "white"))


def shown(run: Path) -> list[tuple[str, int, float]]:
    """Name, step and value of all that TensorBoard finds in a run."""
    board = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    return sorted((name, one.step, one.value) for name in board.Tags()["scalars"] for one in board.Scalars(name))


def written(run: Path) -> list[tuple[str, int, float]]:
    """The same from `metrics.jsonl`."""

    def numbers(row: Mapping[str, Any], path: str) -> Iterator[tuple[str, float]]:
        for name, value in row.items():
            if isinstance(value, dict):
                yield from numbers(value, f"{path}/{name}")
            elif isinstance(value, int | float):
                yield f"{path}/{name}", value

    rows = [(row.pop("split"), row.pop("step"), row) for row in metrics.read(run)]
    return sorted((name, step, value) for split, step, row in rows for name, value in numbers(row, split))


def same(one: list[tuple[str, int, float]], other: list[tuple[str, int, float]]) -> bool:
    """Floats of event files have 32 bits."""
    return [row[:2] for row in one] == [row[:2] for row in other] and [row[2] for row in one] == pytest.approx(
        [row[2] for row in other], rel=1e-6
    )


def test_all_numbers_of_a_run_are_there_whatever_a_category_is_called(dataset: Dataset, tmp_path: Path) -> None:
    train(dataset, tmp_path, TRACKED)
    assert same(shown(tmp_path), written(tmp_path))
    assert {step for name, step, _ in shown(tmp_path) if name == "validation/probe/step"} == {4, 8, 10}


def test_a_resumed_run_has_every_number_once(dataset: Dataset, tmp_path: Path) -> None:
    class Stop(Listener):
        def stepped(self, step: int, terms: object) -> None:
            if step == 7:  # which is written down, and lies behind the last checkpoint
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(dataset, tmp_path, TRACKED, listener=Stop())
    newest = checkpoint.last(tmp_path)
    assert newest is not None
    assert newest.name == "step-00000006"
    train(dataset, tmp_path, TRACKED, resume=True)
    assert same(shown(tmp_path), written(tmp_path))


def test_without_tensorboard_it_is_said_what_to_install(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # an import of it fails
    with pytest.raises(TrainError, match="pip install tensorboard"):
        train(dataset, tmp_path, TRACKED)
    assert checkpoint.last(tmp_path) is None
