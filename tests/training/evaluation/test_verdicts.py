"""Three small runs that are kept in tests/fixtures/runs get the verdict that they deserve, on episodes made anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from flows.evaluate_cli import app
from training import checkpoint, load
from training.dataset import open_dataset
from training.evaluation.evaluate import evaluate
from training.manifest import Split
from training.simulate import simulate

RUNS = Path(__file__).parents[2] / "fixtures" / "runs"
LARGEST = 320_000  # bytes of weights


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes that none of the runs was trained on, nor their thresholds chosen by."""
    out = tmp_path_factory.mktemp("fresh") / "fresh.zarr"
    return simulate("nball", out, 60, 32, seed=77, size=32, split=Split(validation=0.4), balls=1).path


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("collapsed", "collapsed: frames hardly differ in their latents"),
        ("lazy", "lazy: control ball (R²"),
        ("grounded", "grounded: all 2 kinds of objects are represented"),
    ],
)
def test_a_run_gets_the_verdict_that_it_deserves(name: str, verdict: str, fresh: Path) -> None:
    found, _ = evaluate(load(RUNS / name), open_dataset(fresh), RUNS / name, epochs=1)
    assert found.verdict.startswith(verdict)
    if name == "lazy":
        assert found.verdict.partition(" (measured")[0].endswith("is not represented")  # the white ball is
    if name != "collapsed":  # the table has other figures of the same thing: the verdict says what its own are of
        assert found.verdict.endswith(
            "(measured as while training: mean place of each kind, pairs of up to 500 frames)"
        )
    assert not found.same_dataset
    again = json.loads((checkpoint.find(RUNS / name) / checkpoint.FACTS).read_text())["validation"]["verdict"]
    assert again.startswith(verdict)  # as when it was trained


def test_nothing_is_called_grounded_on_episodes_that_it_was_trained_on(fresh: Path) -> None:
    found, _ = evaluate(load(RUNS / "grounded"), open_dataset(fresh), RUNS / "grounded", "train", epochs=1)
    assert found.verdict.startswith("not judged: whether it is grounded cannot be told without held-out episodes")


@pytest.mark.parametrize(
    ("name", "verdict"), [("grounded", "grounded:"), ("lazy", "lazy:"), ("collapsed", "collapsed:")]
)
def test_one_held_out_episode_is_enough_to_tell_a_good_model_from_a_collapsed_one(
    name: str, verdict: str, tmp_path: Path
) -> None:
    few = simulate("nball", tmp_path / "few.zarr", 20, 32, seed=78, size=32, split=Split(validation=0.05), balls=1)
    found, _ = evaluate(load(RUNS / name), open_dataset(few.path), RUNS / name, epochs=1)
    assert found.episodes == 1
    assert found.verdict.startswith(verdict)


def test_objects_have_the_names_of_the_dataset_that_is_judged_on(tmp_path: Path) -> None:
    rooms = simulate("two_room", tmp_path / "rooms.zarr", 10, 30, seed=1, size=32, split=Split(validation=0.3))
    found, _ = evaluate(load(RUNS / "grounded"), open_dataset(rooms.path), RUNS / "grounded", epochs=1)
    assert "agent, position" in found.knowledge
    assert not any("ball" in name for name in found.knowledge)


def test_a_kept_run_is_judged_by_the_command_and_its_plans_are_shown(fresh: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(RUNS / "grounded", tmp_path / "grounded"))
    result = CliRunner().invoke(app, [str(run), "--dataset", str(fresh), "--starts", "4"])
    assert result.exit_code == 0, result.output
    found = json.loads((run / "evaluation" / "evaluation.json").read_text())
    assert found["verdict"] in " ".join(result.output.split())
    assert [(one["horizon"], one["context"]) for one in found["success"]] == [
        (4, 1),
        (4, 3),
        (6, 1),
        (6, 3),
        (8, 1),
        (8, 3),
    ]
    assert all(one["plans"]["trials"] == 4 for one in found["success"])
    strip = imread(run / "evaluation" / "trips.png")
    red, green, blue = strip[..., :3].transpose(2, 0, 1)
    assert ((green > 0.6) & (red < 0.3) & (blue < 0.5)).sum() > 1000  # targets
    assert "trips" not in found  # pictures are files, not numbers


def test_kept_runs_are_small_and_name_no_machine() -> None:
    for run in RUNS.iterdir():
        if run.is_dir():
            folder = checkpoint.find(run)
            assert (folder / checkpoint.WEIGHTS).stat().st_size < LARGEST
            assert checkpoint.read(folder).data.path == ""
