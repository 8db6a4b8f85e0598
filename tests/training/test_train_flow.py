"""The commands that make datasets and train, and the flow `train-world-model` against a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import torch
import typer
from prefect.exceptions import ParameterTypeError
from typer.testing import CliRunner, Result

import training
from flows import train_cli
from flows.threads import sleeping_threads
from flows.train_world_model import heard_by, train_world_model
from labeling.run import label_folder
from labeling.settings_files import ConfigError
from tests.training.tiny_run import numbers, same, tiny_config, tiny_dataset, weights
from training.config import as_yaml
from training.dataset_format import DatasetError
from training.manifest import PrepareConfig, Split
from training.trainer import Listener, train


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def spectrabox(*arguments: object) -> Result:
    """The commands as they are mounted at the top of `spectrabox`."""
    app = typer.Typer()
    app.add_typer(train_cli.app)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.yaml"
    file.write_text(as_yaml(tiny_config(steps=6, validate_every=3)))
    return file


def test_simulate_then_train_then_load(tmp_path: Path, settings: Path) -> None:
    made = spectrabox(
        "simulate", "nball", "--balls", 2, "--episodes", 12, "--frames", 8, "--size", 16, "--out", tmp_path / "d.zarr"
    )
    assert made.exit_code == 0, made.output
    assert "96 frames of 16 by 16" in made.output
    trained = spectrabox("train", tmp_path / "d.zarr", "--out", tmp_path / "run", "--config", settings)
    assert trained.exit_code == 0, trained.output
    for word in ("SIGReg statistic", "R² of the position", "Spearman of distances", "Curves:", "World model:"):
        assert word in trained.output
    assert training.load(tmp_path / "run", "last").step == 6
    assert (tmp_path / "run" / "report.md").read_text().splitlines()[2] in " ".join(trained.output.split())
    assert "step 3: validation loss" in trained.output
    again = spectrabox("train", tmp_path / "d.zarr", "--out", tmp_path / "run", "--config", settings)
    assert again.exit_code == 2
    assert "--resume" in again.output
    resumed = spectrabox("train", tmp_path / "d.zarr", "--out", tmp_path / "run", "--resume")
    assert resumed.exit_code == 0, resumed.output


def test_a_manifest_serves_both_commands(tmp_path: Path) -> None:
    manifest = tmp_path / "small.yaml"
    manifest.write_text(
        "name: small\nkind: simulator\nlicence: Apache-2.0\nseed: 3\nactions: simulator\nlabels: simulator\n"
        "source: {environment: nball, episodes: 5, frames: 8}\nsettings: {size: 32}\n"
    )
    for command in ("prepare", "simulate"):
        made = spectrabox(command, manifest, "--out", tmp_path / f"{command}.zarr", "--validation", 0.4)
        assert made.exit_code == 0, made.output
        assert "40 frames of 32 by 32" in made.output
        assert "2 for validation" in made.output
    changed = spectrabox("prepare", manifest, "--out", tmp_path / "other.zarr", "--size", 16)
    assert "of 16 by 16" in changed.output


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("train", "nowhere.zarr"), "is not a dataset"),
        (("train", "nowhere.zarr", "--set", "speed=3"), "there is no setting speed"),
        (("train", "nowhere.zarr", "--preset", "huge"), "there is no preset 'huge'"),
        (("prepare", "nowhere.zarr", "--out", "x.zarr"), "nowhere.zarr"),
        (("simulate", "chess", "--out", "x.zarr"), "nball"),
        (
            ("simulate", "two_room", "--balls", "2", "--out", "x.zarr"),
            "no option balls. Those of two_room are: door, size",
        ),
        (("simulate", "nball"), "--out"),
        (("simulate", "m.yaml", "--episodes", "5", "--seed", "0"), "--episodes and --seed cannot be used with a manif"),
        (("simulate", "m.yaml", "--videos", "x", "--balls", "1"), "--videos and --balls cannot be used with a manif"),
        (("simulate", "nball", "--videos", "x", "--size", "32"), "--size cannot be used with --videos"),
        (("simulate", "nball", "--videos", "x", "--validation", "0"), "--validation cannot be used with --videos"),
        (("simulate", "nball", "--videos", "x", "--replace"), "--replace cannot be used with --videos"),
        (("train-settings", "--preset", "huge"), "there is no preset"),
    ],
)
def test_mistakes_are_answered_in_words(
    command: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = spectrabox(*command)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_a_dataset_is_replaced_only_if_asked(tmp_path: Path) -> None:
    def simulated(*more: object) -> Result:
        return spectrabox("simulate", "nball", "--frames", 5, "--size", 16, "--out", tmp_path / "d.zarr", *more)

    assert simulated("--episodes", 3).exit_code == 0
    refused = simulated("--episodes", 4)
    assert refused.exit_code == 2
    assert "3 episodes of 5 frames; this would be one of nball seed=0, 4 episodes" in " ".join(refused.output.split())
    assert "Traceback" not in refused.output
    assert "20 frames" in simulated("--episodes", 4, "--replace").output


def test_settings_of_a_preset_are_printed_as_a_file(tmp_path: Path) -> None:
    printed = spectrabox("train-settings", "--preset", "lewm")
    (tmp_path / "all.yaml").write_text(printed.output)
    assert "size: 224" in printed.output
    result = spectrabox("train", "nowhere.zarr", "--config", tmp_path / "all.yaml")
    assert "is not a dataset" in result.output


@pytest.mark.slow
def test_the_flow_trains_like_the_command_and_reports(api: str, tmp_path: Path) -> None:
    data, config = tiny_dataset(tmp_path / "d.zarr"), tiny_config(steps=6, validate_every=3)
    steps: list[int] = []

    class Steps(Listener):
        def stepped(self, step: int, terms: object) -> None:
            steps.append(step)

    with heard_by(Steps()):
        values = train_world_model(data.path, tmp_path / "flow", config=config, device="cpu")
    assert steps == [1, 2, 3, 4, 5, 6]
    train(data, tmp_path / "plain", config)
    assert numbers(tmp_path / "flow") == numbers(tmp_path / "plain")
    assert same(weights(tmp_path / "flow"), weights(tmp_path / "plain"))
    assert values["verdict"] in (tmp_path / "flow" / "report.md").read_text()
    artifacts = httpx.post(f"{api}/artifacts/filter", json={}).json()
    assert any(found["key"] == "train-world-model" and values["verdict"] in found["data"] for found in artifacts)
    with pytest.raises(ParameterTypeError, match="config"):
        train_world_model(data.path, tmp_path / "wrong", config={"batch": "many"})  # type: ignore[arg-type]
    assert not (tmp_path / "wrong").exists()


@pytest.mark.slow
def test_the_flow_refuses_what_it_would_not_read(api: str, tmp_path: Path) -> None:
    data, run = tiny_dataset(tmp_path / "d.zarr"), tmp_path / "run"
    with pytest.raises(DatasetError, match="is a dataset already, so dataset and prepare and split cannot be used"):
        train_world_model(data.path, run, tmp_path / "e.zarr", prepare=PrepareConfig(size=16), split=Split())
    with pytest.raises(ConfigError, match="preset and config are both given"):
        train_world_model(data.path, run, preset="nball-cpu", config=tiny_config())
    assert not run.exists()


FLOW = """
import sys
from pathlib import Path
from flows.train_world_model import train_world_model
from training.config import load_config

dataset, run, settings = map(Path, sys.argv[1:])
train_world_model(dataset, run, config=load_config(settings), device="cpu")
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["command", "flow"])
def test_waiting_threads_sleep_whichever_way_a_training_is_started(
    way: str, api: str, settings: Path, tmp_path: Path
) -> None:
    data, run = tiny_dataset(tmp_path / "d.zarr").path, tmp_path / "run"
    environment = {
        name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    }
    environment |= {"PREFECT_API_URL": api, "OMP_DISPLAY_ENV": "verbose"}  # torch's threads say how they wait
    arguments = {
        "command": ["-m", "flows.cli", "train", data, "--out", run, "--config", settings],
        "flow": ["-c", FLOW, data, run, settings],
    }[way]
    ended = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    assert set(re.findall(r"GOMP_SPINCOUNT = '(\d+)'", ended.stderr)) == {"0"}


def test_how_threads_wait_is_left_to_the_user_who_chose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    sleeping_threads()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"


@pytest.mark.slow
def test_plain_videos_train_end_to_end_through_the_flow(api: str, videos: Path, tmp_path: Path) -> None:
    """Labels without a label, actions without actions: label, prepare, train, report."""
    label_folder(videos, tmp_path / "labels.zarr", workers=1)
    config = tiny_config(steps=6, validate_every=3, batch=8)
    values = train_world_model(
        tmp_path / "labels.zarr", tmp_path / "run", tmp_path / "d.zarr", prepare=PrepareConfig(size=16), config=config
    )
    world = training.load(tmp_path / "run")
    assert world.model.actions == 0
    assert set(values["probe"]) == set(world.data.categories.values())
    assert values["encoded"] > 0
    assert os.path.getsize(tmp_path / "run" / "curves.png") > 10_000
