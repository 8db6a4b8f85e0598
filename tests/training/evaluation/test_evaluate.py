"""A run is judged, and the result can be looked at."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import zarr
from matplotlib.image import imread
from typer.testing import CliRunner

from flows.evaluate_cli import app
from tests.training.tiny_run import tiny_config, tiny_dataset
from training import checkpoint, load, world_model
from training.evaluation.evaluate import Evaluation, Knowledge, evaluate
from training.evaluation.page import ANOTHER, html, judged
from training.evaluation.page import write as write_page
from training.evaluation.probes import Reading
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
    assert {known["frames"] for known in found["knowledge"].values()} == {72}
    assert len(found["prediction"]) == 8
    assert found["verdict"] in result.output.replace("\n", "")
    page = (run / "evaluation" / "index.html").read_text()
    assert f"Judged at step {found['step']} on 72 frames of 6 held-out episodes of the dataset tiny." in page
    assert "come from no simulator: plans cannot be tried out" in page
    assert found["verdict"] in page
    names = ("projection", "distances", "prediction", "imagined")
    assert page.count("data:image/png;base64,") == 2 * len(names)
    for name in names:
        light, dark = (imread(run / "evaluation" / f"{name}{shade}.png") for shade in ("", "-dark"))
        assert light.shape == dark.shape
        assert light[0, 0, :3].min() > 0.9
        assert dark[0, 0, :3].max() < 0.2


def test_training_episodes_are_marked_as_such(run: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(run), "--on-training-episodes", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "evaluation.md").read_text()
    assert "training episodes of the dataset tiny. The model was trained on them; probes were fitted on others." in text


def test_a_checkpoint_is_judged_into_its_run(run: Path) -> None:
    """Into the checkpoint, its page was deleted with it when training went on."""
    place = checkpoint.find(run)
    assert CliRunner().invoke(app, [str(place)]).exit_code == 0
    assert not (place / "evaluation").exists()
    assert json.loads((run / "evaluation" / "evaluation.json").read_text())["run"] == "run"


def test_a_run_is_named_wherever_one_stands(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    assert CliRunner().invoke(app, ["."]).exit_code == 0
    assert Path("evaluation/evaluation.md").read_text().startswith("# run\n")


@pytest.mark.parametrize(("skip", "ahead"), [(5, 0), (4, 0), (3, 1), (1, 8)])
def test_episodes_too_short_to_look_ahead_in_are_judged_all_the_same(skip: int, ahead: int, tmp_path: Path) -> None:
    """Twelve frames without actions: frames 0, 3, 6 are seen, 9 is imagined; with a skip of 4 no fourth one is left."""
    data = tiny_dataset(tmp_path / "tiny.zarr", actions=0, sometimes=False)
    train(data, tmp_path / "run", tiny_config(steps=2, validate_every=2))
    model = load(tmp_path / "run")
    model = replace(model, config=model.config.model_copy(update={"skip": skip}))
    found, material = evaluate(model, data, tmp_path / "run", epochs=1)
    assert len(found.prediction) == ahead
    assert ("nothing was imagined" in " ".join(found.notes)) == (ahead == 0)
    page = write_page(found, material, tmp_path).read_text()
    assert ("How far ahead it sees" in page) == (ahead > 0)
    assert (tmp_path / "imagined.png").exists() == (ahead > 0)


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


def test_episodes_that_it_was_trained_on_are_not_called_held_out(tmp_path: Path) -> None:
    """The dataset was made anew at the same place with another split: what is held out now was trained on then."""

    def simulated(share: float, **options: float) -> Path:
        split = Split(validation=share)
        return simulate("nball", tmp_path / "nb.zarr", 30, 12, split=split, size=16, balls=1, **options).path

    data, run = simulated(0.1), tmp_path / "run"
    train(data, run, tiny_config(steps=4, validate_every=4))
    shutil.rmtree(data)
    simulated(0.5)
    result = CliRunner().invoke(app, [str(run), "--starts", "0"])
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    assert "is another dataset than when the model was trained on it" in said
    assert "--dataset" in said
    result = CliRunner().invoke(app, [str(run), "--dataset", str(data), "--starts", "0"])
    assert result.exit_code == 0, result.output
    found = json.loads((run / "evaluation" / "evaluation.json").read_text())
    assert found["same_dataset"] is False
    page, table = ((run / "evaluation" / name).read_text() for name in ("index.html", "evaluation.md"))
    for text in (result.output, page, table):
        assert ANOTHER in " ".join(text.split())
        assert "held-out" not in text
    assert {"control ball, velocity", "ball, velocity", "all, velocity"} <= set(found["knowledge"])


def test_what_cannot_be_tried_out_is_said_and_the_rest_is_written(tmp_path: Path) -> None:
    """Goals 4 steps on need longer episodes than these."""
    made = simulate("nball", tmp_path / "short.zarr", 30, 4, split=Split(validation=0.5), size=16, balls=1, radius=2.0)
    train(made.path, tmp_path / "run", tiny_config(steps=4, validate_every=4))
    result = CliRunner().invoke(app, [str(tmp_path / "run"), "--starts", "4"])
    assert result.exit_code == 0, result.output
    assert "Plans were not tried out" in result.output
    assert "Plans were not tried out" in (tmp_path / "run" / "evaluation" / "index.html").read_text()


def test_names_are_text_on_the_page() -> None:
    reading = Reading(1.0, 0.0, 0.0, 0.0)
    known = {"<u>a|b": Knowledge(0.5, reading, reading, 20)}
    text = html(Evaluation("<b>run", 1, "<s>d", "validation", "<i>ok", known, [0.5], [], ["<script>"]), [])
    assert "&lt;u&gt;a|b" in text
    assert not any(mark in text for mark in ("<script>", "<u>", "<i>", "<b>", "<s>"))


def test_what_is_hardly_seen_is_not_judged_and_that_is_said(tmp_path: Path) -> None:
    """Of 72 held-out frames a kind of objects that is rarely there shows in fewer than 20."""
    dataset = tiny_dataset(tmp_path / "tiny.zarr")
    there = np.asarray(dataset.array("present"))
    there[12:, 1] = False  # white is seen in the first episode alone
    zarr.open_array(dataset.path / "present", mode="a")[:] = there
    train(dataset, tmp_path / "run", tiny_config(steps=4, validate_every=4))
    result = CliRunner().invoke(app, [str(tmp_path / "run"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert set(found["knowledge"]) == {"red, position"}
    assert any(note.startswith("Not judged: white, position: the judged frames") for note in found["notes"])


def test_a_folder_that_cannot_be_written_to_is_said_before_the_work(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with mock.patch("training.evaluation.evaluate.evaluate", side_effect=AssertionError("it was judged")):
        result = CliRunner().invoke(app, [str(run), "--out", str(tmp_path / "file" / "out")])
    assert result.exit_code == 2
    assert "Choose another folder: --out" in " ".join(result.output.split())


def test_a_device_that_is_not_there_is_named(run: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    result = CliRunner().invoke(app, [str(run), "--device", "cuda"])
    assert result.exit_code == 2
    assert "no cuda device here" in " ".join(result.output.split())


def test_without_held_out_episodes_it_says_what_to_do(run: Path, tmp_path: Path) -> None:
    size = json.loads(next(run.glob("checkpoints/*/checkpoint.json")).read_text())["data"]["size"][0]
    simulate("nball", tmp_path / "all.zarr", 6, 20, seed=1, size=size, split=Split(validation=0), balls=1)
    told = CliRunner().invoke(app, [str(run), "--dataset", str(tmp_path / "all.zarr"), "--out", str(tmp_path / "e")])
    assert told.exit_code == 2
    words = " ".join(told.output.split())
    assert "holds no episode out" in words
    assert "--on-training-episodes" in words


@pytest.mark.parametrize(
    ("split", "same", "words"),
    [
        ("validation", True, "3 held-out episodes"),
        ("validation", False, "3 episodes"),
        ("train", True, "3 training episodes"),
        ("train", False, "3 training episodes"),
    ],
)
def test_the_page_says_which_episodes_were_judged(split: str, same: bool, words: str) -> None:
    found = Evaluation("run", 1, "set", split, "grounded", {}, [], [], [], 3, 60, same)
    assert judged(found).startswith(f"Judged at step 1 on 60 frames of {words} of the dataset set.")


def test_many_frames_are_encoded_in_pieces_to_the_same_latents(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(run)
    frames = np.random.default_rng(0).integers(0, 256, (3, 5, *model.data.size, 3), dtype=np.uint8)
    whole = model.encode(frames)
    sizes = list[int]()
    model.model.encoder.register_forward_pre_hook(lambda module, given: sizes.append(len(given[0])))
    monkeypatch.setattr(world_model, "AT_ONCE", 4)
    torch.testing.assert_close(model.encode(frames), whole, atol=1e-4, rtol=1e-4)
    assert sizes == [4, 4, 4, 3]


def test_plans_that_fit_into_short_episodes_are_tried_out_and_the_others_named(tmp_path: Path) -> None:
    made = simulate("nball", tmp_path / "short.zarr", 30, 7, split=Split(validation=0.5), size=16, balls=1, radius=2.0)
    train(made.path, tmp_path / "run", tiny_config(steps=4, validate_every=4))
    result = CliRunner().invoke(app, [str(tmp_path / "run"), "--starts", "4"])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "run" / "evaluation" / "evaluation.json").read_text())
    assert [(one["horizon"], one["context"]) for one in found["success"]] == [(4, 1), (4, 3), (6, 1)]
    (note,) = [note for note in found["notes"] if "too short" in note]
    assert "6 steps ahead with 3 frames seen, 8 steps ahead with 1 frames seen" in note


def test_nothing_is_written_through_a_link_in_the_run(run: Path, tmp_path: Path) -> None:
    linked = shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("evaluation"))
    (tmp_path / "elsewhere").mkdir()
    (linked / "evaluation").symlink_to(tmp_path / "elsewhere")
    result = CliRunner().invoke(app, [str(linked)])
    assert result.exit_code == 2
    assert "nothing is written through links" in " ".join(result.output.split())
    assert not any((tmp_path / "elsewhere").iterdir())


def test_names_with_brackets_do_not_break_the_terminal(tmp_path: Path) -> None:
    train(tiny_dataset(tmp_path / "tiny.zarr", names=("ball [/b]", "[red]")), tmp_path / "run", tiny_config(steps=4))
    result = CliRunner().invoke(app, [str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "ball [/b]" in result.output
