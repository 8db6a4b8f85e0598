"""Training settings: presets, files, single settings, and errors in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from labeling.settings_files import ConfigError
from training.config import PRESETS, TrainConfig, as_yaml, differences, load_config
from training.settings import MODELS, OBJECTIVES


@pytest.mark.parametrize("preset", list(PRESETS))
def test_a_preset_brings_its_model_and_loss(preset: str) -> None:
    config = load_config(preset=preset)
    assert config.preset == preset
    assert config.model == MODELS[config.preset]
    assert config.objective == OBJECTIVES[config.preset]


def test_presets_have_the_values_of_the_paper_and_of_the_release() -> None:
    nball, lewm = load_config(preset="nball"), load_config(preset="lewm")
    assert (nball.batch, nball.epochs, nball.skip, nball.length) == (64, 200, 1, 4)
    assert (lewm.batch, lewm.epochs, lewm.skip, lewm.length) == (128, 10, 5, 4)
    assert lewm.optimiser.model_dump() == {
        "lr": 5e-5, "weight_decay": 1e-3, "warmup": 0.01, "schedule": 10.0, "clip": 1.0,
    }  # fmt: skip
    assert load_config(preset="nball-cpu").steps == 4000


def test_settings_count_over_the_file_and_the_file_over_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text("preset: nball-cpu\nbatch: 8\noptimiser:\n  lr: 0.5\nmodel:\n  latent: 16\n")
    config = load_config(file, ["optimiser.lr=1e-4", "target.sigma=3"])
    assert (config.preset, config.batch, config.optimiser.lr, config.target.sigma) == ("nball-cpu", 8, 1e-4, 3)
    assert config.model.latent == 16
    assert config.model.projector == MODELS["nball-cpu"].projector
    assert config.objective.directions == 256
    assert load_config(file, preset="lewm").model.encoder.size == 224


def test_a_preset_also_fills_in_what_a_form_leaves_out() -> None:
    config = TrainConfig.model_validate({"preset": "lewm", "model": {"latent": 32}})
    assert (config.skip, config.model.latent, config.model.encoder.depth) == (5, 32, 12)


def test_chosen_epochs_count_over_the_steps_of_a_preset() -> None:
    config = load_config(settings=["epochs=5"], preset="nball-cpu")
    assert (config.epochs, config.steps) == (5, 0)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ([], 90),
        (["epochs=5"], 0),
        ([" epochs =5"], 0),
        (["epochs=5", "steps=70"], 70),
        (["steps=70", "epochs=5"], 0),
        (["epochs=5", "batch=6"], 0),
    ],
)
def test_of_steps_and_epochs_the_one_that_is_said_last_counts(settings: list[str], steps: int, tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text("epochs: 5\nsteps: 90\n")
    config = load_config(file, settings, "nball-cpu")
    assert (config.epochs, config.steps) == (5, steps)
    assert load_config(file, settings, steps=30).steps == 30


@pytest.mark.parametrize("preset", list(PRESETS))
def test_printed_settings_read_back_as_the_same(preset: str, tmp_path: Path) -> None:
    config = load_config(preset=preset, settings=["batch=6"])
    file = tmp_path / "all.yaml"
    file.write_text(as_yaml(config))
    assert load_config(file) == config
    assert TrainConfig.model_validate_json(config.model_dump_json()) == config
    assert set(yaml.safe_load(file.read_text())) == set(TrainConfig.model_fields)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("batch", "key=value"),
        ("batch=many", "batch: "),
        ("batch=1", "batch: .*greater than or equal to 2"),
        ("speed=3", "there is no setting speed"),
        ("model.encoder.colour=3", "there is no setting model.encoder.colour"),
        ("preset=huge", "there is no preset 'huge'; choose from 'nball', 'nball-cpu' or 'lewm'"),
        ("batch.size=3", "batch"),
        ("length=5", "windows of 5 need model.predictor.context=4"),
        ("objective.encoded_weight=0", "predicted_weight needs encoded_weight"),
        ("model.encoder.patch=7", "patches of 7 pixels do not fill frames of 64"),
        ("tracker=[", "is not a value"),
    ],
)
def test_wrong_settings_are_refused_in_words(setting: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_config(settings=[setting])


def test_a_wrong_form_is_refused() -> None:
    with pytest.raises(ValidationError):
        TrainConfig.model_validate({"batch": "many"})


def test_unreadable_files_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "missing.yaml")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(ConfigError, match="must hold settings"):
        load_config(tmp_path / "list.yaml")
    (tmp_path / "broken.yaml").write_text("a: [")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_config(tmp_path / "broken.yaml")


def test_differences_are_named() -> None:
    one, other = load_config(), load_config(settings=["batch=32", "optimiser.lr=0.5"])
    assert differences(one, other) == ["batch: 64 and 32", "optimiser.lr: 0.0003 and 0.5"]


def test_settings_are_shown_without_loading_torch() -> None:
    code = "import sys; import training.config; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("state", ["obb", "obb2+com", "bb+com", "bb+depth50", "compact7"])
def test_noise_that_would_leave_parts_of_a_target_clean_is_refused(state: str) -> None:
    settings = [f"target.state={state}", "target.matching=none", "target.noise=0.01"]
    with pytest.raises(
        ConfigError, match=f"noise moves the edges of boxes and would leave parts of .*{state[-3:]} clean"
    ):
        load_config(None, settings, "nball")
    assert load_config(None, ["target.noise=0.01"], "nball").target.noise == 0.01
