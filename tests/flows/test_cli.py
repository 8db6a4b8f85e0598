"""The command as a user meets it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Command
from training.envs import make
from training.envs.video import record, write_episode


@pytest.mark.alone
def test_help_is_instant() -> None:
    began = time.monotonic()
    best = min(_timed_help() for _ in range(5))
    assert best < 0.5, f"{best:.2f} s; {time.monotonic() - began:.1f} s in all"


def _timed_help() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "flows.cli", "--help"], check=True, capture_output=True)
    return time.monotonic() - began


def test_help_does_not_import_heavy_libraries() -> None:
    code = "import sys, flows.cli; print([m for m in ('torch', 'cv2', 'zarr', 'prefect', 'numpy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "command", ["label", "watch", "settings", "show", "validate", "overlay", "report", "export", "demo"]
)
def test_each_command_explains_itself(spectrabox: Command, command: str) -> None:
    result = spectrabox(command, "--help")
    assert result.returncode == 0
    assert "Usage" in result.stdout


def test_everyday_commands_work_on_a_folder(spectrabox: Command, videos: Path, tmp_path: Path) -> None:
    store = tmp_path / "labels.zarr"
    labeled = spectrabox("label", videos, "--out", store, "--workers", 1)
    assert labeled.returncode == 0, labeled.stderr
    for text in ("more/three.mp4", "frames", "dropped", str(store)):
        assert text in labeled.stdout.replace("\n", "")
    assert "Traceback" not in labeled.stderr + labeled.stdout
    assert labeled.stderr.strip() == "", "no noise beside the progress bar"
    assert "up to date" in spectrabox("label", videos, "--out", store).stdout
    assert spectrabox("validate", store).returncode == 0
    assert "one.mp4" in spectrabox("show", store).stdout
    exported = spectrabox("export", store, "--format", "youtube-vis", "--out", tmp_path / "labels.json")
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "labels.json").exists()
    assert spectrabox("report", store, "--out", tmp_path / "report").returncode == 0
    assert (tmp_path / "report" / "index.html").exists()
    overlays = spectrabox("overlay", store, "--out", tmp_path / "overlays", "--only", "one")
    assert overlays.returncode == 0, overlays.stderr
    assert len(list((tmp_path / "overlays").rglob("*.mp4"))) == 1


def test_one_file_works_too(spectrabox: Command, videos: Path, tmp_path: Path) -> None:
    result = spectrabox("label", videos / "one.mp4", "--out", tmp_path / "labels.zarr")
    assert result.returncode == 0
    assert "one.mp4" in result.stdout


def test_bad_video_is_reported_and_the_rest_goes_on(spectrabox: Command, videos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    shutil.copy(videos / "one.mp4", folder)
    (folder / "broken.mp4").write_text("not a video")
    (folder / "empty.mov").touch()
    result = spectrabox("label", folder, "--out", tmp_path / "labels.zarr")
    assert result.returncode == 1
    assert "broken.mp4" in result.stdout
    assert "empty" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr
    assert "broken.mp4" in spectrabox("show", tmp_path / "labels.zarr").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["label", "nowhere"], "nowhere does not exist"),
        (["label", ".", "--set", "colour=red"], "no setting colour"),
        (["label", ".", "--set", "keep_static=[1"], "is not a value"),
        (["label", ".", "--profile", "imaginary"], "no profile"),
        (["label", ".", "--device", "cuda"], "runs on the CPU"),
        (["show", "nowhere.zarr"], "not a label store"),
        (["validate", "nowhere.zarr"], "nowhere.zarr"),
        (["report", "nowhere.zarr"], "not a label store"),
    ],
)
def test_wrong_use_gets_one_sentence(spectrabox: Command, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = spectrabox(*arguments, cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert result.returncode in (1, 2)
    assert message in result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr


def test_python_files_beside_the_videos_are_not_run(tmp_path: Path) -> None:
    """A folder off the internet may hold an av.py, which processes found first."""
    write_episode(tmp_path / "clips" / "a.mp4", record(make("nball", balls=1), 24, seed=1))
    for name in ("av", "pickle", "prefect", "zarr"):
        (tmp_path / "clips" / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    installed = [sys.executable, "-P", "-m", "flows.cli"]  # the command itself does not look there either
    for how in ([], ["--flow"]):
        command = [*installed, "label", ".", "--out", str(tmp_path / f"labels{len(how)}.zarr"), *how]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path / "clips")
        assert result.returncode == 0, result.stderr
    assert not (tmp_path / "run").exists()
