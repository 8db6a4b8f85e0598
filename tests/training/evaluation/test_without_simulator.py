"""A world model of labeled video is judged on held-out video, with what the labeling saw in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from tests.training.tiny_run import tiny_config
from training import load
from training.dataset import open_dataset
from training.evaluation.evaluate import evaluate
from training.manifest import PrepareConfig, Split
from training.prepare import prepare
from training.simulate import simulate_videos
from training.trainer import train
from training.world_model import DataFacts

pytestmark = pytest.mark.slow


def spectrabox(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on ten videos, of which two are held out."""
    folder = tmp_path_factory.mktemp("video")
    simulate_videos("nball", folder / "videos", episodes=10, frames=30, seed=5, balls=1)
    spectrabox("label", folder / "videos", "--out", folder / "labels.zarr", "--workers", 1)
    config = PrepareConfig(size=32, use_actions=False)
    made = prepare(folder / "labels.zarr", folder / "video.zarr", config=config, split=Split(validation=0.2))
    encoder = {"size": 32, "patch": 8, "width": 16, "depth": 1, "heads": 2, "ffn": 32}
    train(made.path, folder / "run", tiny_config(steps=30, validate_every=30, model={"encoder": encoder}))
    return folder / "run"


def test_held_out_video_is_judged_by_its_labels(judged: Path) -> None:
    output = spectrabox("evaluate", judged)
    found = json.loads((judged / "evaluation" / "evaluation.json").read_text())
    dataset = open_dataset(judged.parent / "video.zarr")
    assert (found["episodes"], found["split"], found["success"]) == (2, "validation", [])
    assert found["frames"] == dataset.episode_length[dataset.split("validation")].sum() == 60
    kinds = {row.name for row in dataset.categories}
    assert kinds
    said = " ".join([*found["knowledge"], *found["notes"]])
    assert all(f"{kind}, position" in said for kind in kinds)
    assert found["knowledge"]
    page = (judged / "evaluation" / "index.html").read_text()
    for words in (
        "60 frames of 2 held-out episodes of the dataset labels",
        "trained without actions: it imagines what comes, but cannot plan",
        "taken from the boxes of the dataset",
        found["verdict"],
    ):
        assert words in output
        assert words in page
    assert "are trained on as well" not in page  # whole videos were held out
    assert not (judged / "evaluation" / "trips.png").exists()
    assert (judged / "evaluation" / "imagined.png").stat().st_size > 5000


def test_stretches_of_one_video_are_not_taken_for_new_ones(judged: Path, tmp_path: Path) -> None:
    config = PrepareConfig(size=32, use_actions=False, episode_frames=15)
    made = prepare(judged.parent / "labels.zarr", tmp_path / "cut.zarr", config=config)
    cut = open_dataset(made.path)
    model = replace(load(judged), data=DataFacts.of(cut))  # as if it had been trained on these
    found, _ = evaluate(model, cut, judged, epochs=1)
    assert any("recordings that are judged are trained on as well, in other stretches" in note for note in found.notes)
