"""A run is judged, and the result can be looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from flows.evaluate_cli import app
from tests.training.tiny_run import tiny_config, tiny_dataset
from training.evaluation.evaluate import Evaluation
from training.evaluation.page import HEADINGS, PLANS, templates
from training.manifest import Split
from training.simulate import simulate
from training.trainer import train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluated")
    train(tiny_dataset(folder / "tiny.zarr", sometimes=False), folder / "run", tiny_config())
    return folder / "run"


def test_a_run_is_judged_on_held_out_episodes(run: Path) -> None:
    result = CliRunner().invoke(app, [str(run)])
    assert result.exit_code == 0, result.output
    found = json.loads((run / "evaluation" / "evaluation.json").read_text())
    assert found["split"] == "validation"
    assert set(found["knowledge"]) == {"red, position", "white, position", "all, position"}
    assert all(-1 <= known["spearman"] <= 1 for known in found["knowledge"].values())
    assert len(found["prediction"]) == 8
    assert found["verdict"] in result.output.replace("\n", "")
    page = (run / "evaluation" / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert found["verdict"] in page
    for name in ("projection", "distances", "prediction", "imagined"):
        assert (run / "evaluation" / f"{name}.png").stat().st_size > 5000


def test_training_episodes_are_marked_as_such(run: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(run), "--on-training-episodes", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "on the train episodes" in (tmp_path / "evaluation.md").read_text()


def test_a_dataset_that_is_gone_is_asked_for(run: Path, tmp_path: Path) -> None:
    data = run.parent / "tiny.zarr"
    moved = data.rename(tmp_path / "moved.zarr")
    try:
        result = CliRunner().invoke(app, [str(run)])
        assert result.exit_code == 2
        assert "give --dataset" in " ".join(result.output.split())
        assert CliRunner().invoke(app, [str(run), "--dataset", str(moved)]).exit_code == 0
    finally:
        moved.rename(data)


def test_what_cannot_be_tried_out_is_said_and_the_rest_is_written(tmp_path: Path) -> None:
    """Goals 8 steps on, after 3 frames, need longer episodes than these."""
    made = simulate("nball", tmp_path / "short.zarr", 30, 9, split=Split(validation=0.5), size=16, balls=1, radius=2.0)
    train(made.path, tmp_path / "run", tiny_config(steps=4, validate_every=4))
    result = CliRunner().invoke(app, [str(tmp_path / "run"), "--starts", "4"])
    assert result.exit_code == 0, result.output
    assert "Plans were not tried out" in result.output
    assert "Plans were not tried out" in (tmp_path / "run" / "evaluation" / "index.html").read_text()


def test_names_are_text_on_the_page() -> None:
    found = Evaluation("<b>run", 1, "d", "validation", "<i>ok", {}, [0.5], [], ["<script>"])
    text = (
        templates()
        .get_template("page.html")
        .render(
            found=found,
            headings=HEADINGS,
            rows=[("<u>a|b", *"1234567")],
            plans=PLANS,
            tried=[],
            ahead="0.5",
            pictures={},
        )
    )
    assert not any(mark in text for mark in ("<script>", "<u>", "<i>", "<b>"))


def test_a_device_that_is_not_there_is_named(run: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    result = CliRunner().invoke(app, [str(run), "--device", "cuda"])
    assert result.exit_code == 2
    assert "no cuda device here" in " ".join(result.output.split())
