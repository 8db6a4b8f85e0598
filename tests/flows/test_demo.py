"""The demo as a user meets it: labels, dataset and world model from nothing; up to date the second time."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import training
from tests.training.tiny_run import numbers
from training import checkpoint
from training.dataset_format import open_dataset

pytestmark = pytest.mark.slow

# The real demo but for the size of the model and the length of its training.
SMALL = """
import sys
from pathlib import Path
from flows import demo
from tests.training.tiny_run import tiny_config
demo.TRAINING = tiny_config(
    steps=int(sys.argv[2]), batch=8, log_every=2, validate_every=10, checkpoint_every=5, monitor_windows=16,
    model={"encoder": {"size": 64, "patch": 16}},
)
if "stop" in sys.argv:
    from training import checkpoint
    save = checkpoint.save
    def save_and_stop(*given):
        save(*given)
        raise KeyboardInterrupt  # what Ctrl-C becomes; the signal itself is ignored in the background of a shell
    checkpoint.save = save_and_stop
demo.run_demo(Path(sys.argv[1]))
"""
STEPS = 20


def demo(folder: Path, steps: int = STEPS, *more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    environment |= {"PREFECT_HOME": str(folder.parent / "prefect"), "COLUMNS": "200"}
    command = [sys.executable, "-c", SMALL, str(folder), str(steps), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)


def run(folder: Path, steps: int = STEPS) -> tuple[str, str]:
    """Output and errors of a demo that should end well."""
    ended = demo(folder, steps)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, ended.stderr


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of a first demo, and what it said."""
    folder = tmp_path_factory.mktemp("first") / "demo"
    return folder, *run(folder)


def test_the_demo_ends_with_a_world_model_and_its_last_values(shown: tuple[Path, str, str]) -> None:
    folder, out, errors = shown
    for words in ("one_ball.mp4", "460 frames of 64 by 64, no actions", "R² of the position", f"step {STEPS}"):
        assert words in out
    for file in ("report/index.html", "run/curves.png", "run/report.md", "run/metrics.jsonl"):
        assert (folder / file).is_file()
    looks = [row for row in numbers(folder / "run") if row["split"] == "validation"]
    assert len(looks) == 2
    assert f"{looks[-1]['total']:.4g}" in out
    assert looks[-1]["verdict"] in out
    assert training.load(folder / "run", "last").model.actions == 0
    noise = [line for line in errors.splitlines() if line.strip() and not line.startswith("step ")]
    assert noise == []


def test_python_of_the_readme_works_on_what_the_demo_made(shown: tuple[Path, str, str], monkeypatch) -> None:
    folder, _, _ = shown
    monkeypatch.chdir(folder.parent)
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    frames = np.asarray(open_dataset(folder / "dataset.zarr").array("frames")[:4])
    codes = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert len(codes) >= 2
    for code in codes:
        exec(code, {"frames": frames})


def test_a_second_demo_leaves_everything_as_it_is_and_says_so(shown: tuple[Path, str, str]) -> None:
    folder, _, _ = shown
    watched = ("labels.zarr/zarr.json", "dataset.zarr/zarr.json", "run/metrics.jsonl", "run/curves.png")
    before = {name: (folder / name).stat().st_mtime_ns for name in watched}
    out, errors = run(folder)
    assert "Labels, dataset and world model are up to date." in out
    assert "Everything is up to date." in out
    assert "(was there already)" in out
    assert errors.strip() == ""
    assert {name: (folder / name).stat().st_mtime_ns for name in watched} == before


def test_a_demo_that_is_stopped_while_it_trains_goes_on_to_the_same_numbers(
    shown: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder, _, _ = shown
    shutil.move(folder / "run", tmp_path / "run")
    stopped = demo(folder, STEPS, "stop")  # after its first checkpoint
    assert stopped.returncode == 130, stopped.stderr
    assert "again to go on" in stopped.stderr
    assert checkpoint.read(checkpoint.find(folder / "run", "last")).step < STEPS
    run(folder)
    assert numbers(folder / "run") == numbers(tmp_path / "run")


def test_a_run_of_other_settings_is_put_aside_not_lost(shown: tuple[Path, str, str]) -> None:
    folder, _, _ = shown
    before = numbers(folder / "run")
    out, _ = run(folder, steps=5)
    assert f"it is {folder / 'run-1'} now" in out
    assert numbers(folder / "run-1") == before
    assert checkpoint.read(checkpoint.find(folder / "run", "last")).step == 5


@pytest.mark.parametrize("damaged", ["facts", "weights"])
def test_a_run_of_another_version_is_put_aside_and_a_new_one_is_trained(
    shown: tuple[Path, str, str], damaged: str
) -> None:
    folder, _, _ = shown
    newest = checkpoint.last(folder / "run")
    assert newest is not None
    if damaged == "facts":
        facts = json.loads((newest / checkpoint.FACTS).read_text())
        (newest / checkpoint.FACTS).write_text(json.dumps(facts | {"schema_version": 99, "novelty": True}))
    else:
        weights = load_file(newest / checkpoint.WEIGHTS)
        save_file({f"renamed.{name}": tensor for name, tensor in weights.items()}, newest / checkpoint.WEIGHTS)
    others = set(folder.glob("run-*"))
    out, _ = run(folder, steps=5)
    (aside,) = set(folder.glob("run-*")) - others
    assert f"was written by another version, or is damaged: it is {aside} now" in out
    assert (aside / newest.relative_to(folder / "run")).is_dir()
    assert checkpoint.read(checkpoint.find(folder / "run", "last")).step == 5
