"""Broken actions, manifests and settings are refused with one sentence, or read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import yaml
from pyarrow import parquet

from labeling.actions import aligned, read_actions
from labeling.config import as_yaml as label_settings
from labeling.config import load_config as load_label_config
from labeling.problems import VideoError
from labeling.settings_files import ConfigError
from tests.fuzz.cases import Case
from tests.fuzz.mutations import ELSEWHERE, hostile_json
from training.config import TrainConfig, TrainError
from training.config import as_yaml as train_settings
from training.config import load_config as load_train_config
from training.manifest import ManifestError, load_manifest

FRAMES = 12
MANIFESTS = sorted((Path(__file__).parents[2] / "data_manifests").glob("*.yaml"))


@pytest.mark.fuzz(10)
@pytest.mark.parametrize("suffix", ["npy", "csv", "parquet"])
def test_broken_actions(case: Case, suffix: str) -> None:
    table = np.random.default_rng(0).normal(size=(FRAMES, 3)).astype(np.float32)
    file = case.given / f"clip.actions.{suffix}"
    if suffix == "npy":
        np.save(file, table)
    elif suffix == "csv":
        np.savetxt(file, table, delimiter=",", header="x,y,z", comments="")
    else:
        columns = {name: table[:, place] for place, name in enumerate("xyz")}
        parquet.write_table(pyarrow.table(columns), file)
    case.mutate(file)
    with case.judged(VideoError):
        actions = aligned(read_actions(file), FRAMES, file)
        assert actions.shape[0] == FRAMES
        assert np.isfinite(actions).all()


def broken_yaml(case: Case, text: str) -> Path:
    """A file of the text with one entry changed to what nobody expects, or with broken bytes."""
    file = case.given / "file.yaml"
    file.write_text(text, encoding="utf-8")
    if case.rng.random() < 0.6:
        tree, case.done = hostile_json(case.rng, yaml.safe_load(text))
        file.write_text(json.dumps(tree).replace(ELSEWHERE, str(case.elsewhere)), encoding="utf-8")
    else:
        case.mutate(file)
    return file


@pytest.mark.fuzz(16)
def test_broken_manifests(case: Case) -> None:
    file = broken_yaml(case, MANIFESTS[case.seed % len(MANIFESTS)].read_text(encoding="utf-8"))
    with case.judged(ManifestError):
        assert load_manifest(file).out.parent == Path("datasets")


@pytest.mark.fuzz(8)
def test_broken_settings_of_labeling(case: Case) -> None:
    file = broken_yaml(case, label_settings())
    with case.judged(ConfigError):
        load_label_config(file)


@pytest.mark.fuzz(8)
def test_broken_settings_of_training(case: Case) -> None:
    file = broken_yaml(case, train_settings(TrainConfig()))
    with case.judged(ConfigError, TrainError):
        load_train_config(file)
