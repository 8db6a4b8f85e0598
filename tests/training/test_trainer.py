"""Training runs: the same numbers for the same seed and after a stop, words where something is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from tests.training.tiny_run import numbers, same, tiny_config, tiny_dataset, weights
from training import checkpoint, metrics
from training.config import OptimiserConfig, TrainError
from training.dataset_format import Dataset
from training.trainer import Listener, learning_rate, train
from training.world_model import load


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture of `whole` is looked at; drawing others would take longer than the runs."""
    monkeypatch.setattr("training.curves.draw", lambda run: run / "curves.png")


class Hears(Listener):
    """Keeps the notes that a run begins with."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def started(self, step: int, steps: int, notes: list[str]) -> None:
        self.notes += notes


def test_resuming_where_nothing_was_trained_says_that_it_starts_anew(dataset: Dataset, tmp_path: Path) -> None:
    first, second = Hears(), Hears()
    train(dataset, tmp_path / "mistyped", tiny_config(steps=2), resume=True, listener=first)
    assert first.notes == [f"{tmp_path / 'mistyped'} has no checkpoint to go on from: training starts anew."]
    train(dataset, tmp_path / "mistyped", resume=True, listener=second)
    assert second.notes == []


class StopAt(Listener):
    """Ctrl-C after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, step: int, terms: Any) -> None:
        if step == self.step:
            raise KeyboardInterrupt


def test_a_run_leaves_metrics_curves_and_checkpoints(whole: Path) -> None:
    rows = metrics.read(whole)
    assert [row["step"] for row in rows if row["split"] == "train"] == [5, 10, 15, 20, 24]
    assert [row["step"] for row in rows if row["split"] == "validation"] == [8, 16, 24]
    assert {"total", "prediction", "regularizer", "encoded", "predicted", "gradient", "lr"} <= rows[0].keys()
    assert {"total", "sigreg", "rank", "spearman", "probe", "verdict"} <= rows[-1].keys()
    assert set(rows[-1]["spearman"]) == set(rows[-1]["probe"]) == {"red", "white"}
    assert rows[-2]["total"] < rows[0]["total"]
    for line in (whole / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_curves_are_a_picture_of_the_run(whole: Path) -> None:
    picture = cv2.imread(str(whole / "curves.png"))
    assert picture is not None
    assert picture.shape == (660, 1000, 3)
    assert 0.5 < (picture > 250).all(axis=2).mean() < 0.99
    blue, orange, green, red, grey = (31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40), (127, 127, 127)
    panels = {
        "loss": (picture[60:320, :500], (blue, red)), "spread": (picture[60:320, 500:], (green, grey)),
        "distance": (picture[340:620, :500], (blue, orange)), "position": (picture[340:620, 500:], (blue, orange)),
    }  # fmt: skip
    for name, (panel, colours) in panels.items():
        for colour in colours:
            drawn = (np.abs(panel.astype(int) - colour[::-1]).max(axis=2) < 12).sum()
            assert drawn > 20, (name, colour)


def test_the_same_seed_gives_the_same_numbers_another_seed_others(
    dataset: Dataset, whole: Path, tmp_path: Path
) -> None:
    torch.manual_seed(77)
    train(dataset, tmp_path / "again", tiny_config())
    drawn = torch.rand(1)
    torch.manual_seed(77)
    assert torch.equal(drawn, torch.rand(1)), "training changed the random numbers of its caller"
    assert numbers(tmp_path / "again") == numbers(whole)
    assert same(weights(tmp_path / "again"), weights(whole))
    train(dataset, tmp_path / "other", tiny_config(seed=1, steps=5))
    assert numbers(tmp_path / "other")[0]["total"] != numbers(whole)[0]["total"]


@pytest.mark.parametrize("stop", [3, 12, 17])
def test_a_stopped_run_goes_on_to_the_same_numbers(dataset: Dataset, whole: Path, tmp_path: Path, stop: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(dataset, tmp_path, tiny_config(), listener=StopAt(stop))
    result = train(dataset, tmp_path, resume=True)
    assert result.step == 24
    assert numbers(tmp_path) == numbers(whole)
    assert same(weights(tmp_path), weights(whole))


def test_a_finished_run_is_left_as_it_is(dataset: Dataset, whole: Path) -> None:
    before = {path: path.read_bytes() for path in (whole / "checkpoints").rglob("*.*")}
    result = train(dataset, whole, tiny_config(), resume=True)
    assert (result.step, result.validation["step"]) == (24, 24)
    assert result.verdict == metrics.read(whole)[-1]["verdict"]
    assert {path: path.read_bytes() for path in (whole / "checkpoints").rglob("*.*")} == before


def test_a_folder_is_not_taken_over(dataset: Dataset, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainError, match=r"holds a run already.*--resume"):
        train(dataset, whole, tiny_config())
    with pytest.raises(TrainError, match=r"other settings \(batch: 12 and 6; seed: 0 and 4\)"):
        train(dataset, whole, tiny_config(batch=6, seed=4), resume=True)
    with pytest.raises(TrainError, match="trained on another dataset"):
        train(tiny_dataset(tmp_path / "other.zarr", seed=5), whole, resume=True)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(TrainError, match="is not empty"):
        train(dataset, tmp_path, tiny_config())


def test_training_stops_on_nan_and_keeps_the_last_good_checkpoint(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.trainer.learning_rate", lambda step, *rest: 1e30 if step == 13 else 1e-3)
    with pytest.raises(TrainError, match=r"no longer a number at step 15 .*last good checkpoint is .*step-00000012"):
        train(dataset, tmp_path, tiny_config())
    assert all(torch.isfinite(tensor).all() for tensor in weights(tmp_path).values())
    assert load(tmp_path, "last").step == 12
    assert max(row["step"] for row in metrics.read(tmp_path)) <= 14


def test_weights_that_are_no_numbers_never_reach_a_checkpoint(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.trainer.learning_rate", lambda step, *rest: float("inf") if step == 5 else 1e-3)
    with pytest.raises(TrainError, match=r"no longer numbers at step 6 .*There is no checkpoint yet"):
        train(dataset, tmp_path, tiny_config())
    assert checkpoint.last(tmp_path) is None


def test_video_without_actions_trains(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path / "free.zarr", actions=0)
    train(data, tmp_path / "run", tiny_config())
    rows = [row for row in metrics.read(tmp_path / "run") if row["split"] == "train"]
    assert rows[-1]["total"] < rows[0]["total"]
    assert load(tmp_path / "run").model.actions == 0


def test_actions_of_skipped_frames_are_normalised_side_by_side(dataset: Dataset, tmp_path: Path) -> None:
    train(dataset, tmp_path, tiny_config(steps=2, skip=2))
    world = load(tmp_path)
    usual = dataset.statistics["actions"]
    assert world.model.actions == 4
    assert torch.allclose(world.model.action_encoder.mean, torch.tensor([*usual.mean, *usual.mean]).float())
    assert torch.allclose(world.model.action_encoder.std, torch.tensor([*usual.std, *usual.std]).float())


def test_half_precision_trains_to_about_the_same_loss(dataset: Dataset, whole: Path, tmp_path: Path) -> None:
    train(dataset, tmp_path, tiny_config(precision="bf16", steps=10))
    rows, full = numbers(tmp_path), numbers(whole)
    assert rows[0]["total"] == pytest.approx(full[0]["total"], rel=0.05)
    assert rows[0]["total"] != full[0]["total"]


def test_without_the_head_and_without_a_validation_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny_dataset(tmp_path / "d.zarr")
    monkeypatch.setattr(Dataset, "split", lambda self, name: np.arange(24) if name == "train" else np.arange(0))
    heard: list[str] = []

    class Notes(Listener):
        def started(self, step: int, steps: int, notes: list[str]) -> None:
            heard.extend(notes)

    config = tiny_config(steps=4, objective={"encoded_weight": 0, "predicted_weight": 0})
    result = train(data, tmp_path / "run", config, listener=Notes())
    assert "training frames are validated on" in heard[0]
    assert result.validation["encoded"] == 0
    assert load(tmp_path / "run").head is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": {"encoder": {"size": 32, "patch": 8}}}, "16 by 16 pixels, the model takes 32 by 32.*--size 32"),
        ({"target": {"state": "bb+depth50"}}, "needs the column depth"),
    ],
)
def test_what_does_not_fit_is_said_before_training(
    dataset: Dataset, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(TrainError, match=words):
        train(dataset, tmp_path, tiny_config(**change))
    assert checkpoint.last(tmp_path) is None


def test_a_missing_device_is_named(dataset: Dataset, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(TrainError, match="no cuda device"):
        train(dataset, tmp_path, tiny_config(), device="cuda")


def test_the_learning_rate_rises_then_falls_to_zero() -> None:
    config = OptimiserConfig(lr=1.0, warmup=0.1)
    rates = [learning_rate(step, 100, config) for step in range(100)]
    assert rates[0] == pytest.approx(1 / 11)
    assert np.argmax(rates) == 10
    assert rates[10] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.5)
    assert 0 < rates[99] < 0.001
    assert np.all(np.diff(rates[10:]) < 0)
    stopped = [learning_rate(step, 100, config.model_copy(update={"schedule": 10.0})) for step in range(100)]
    assert stopped == [learning_rate(step, 1000, config) for step in range(100)]
