"""The Prefect flow against a real server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
from prefect.exceptions import ParameterTypeError
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import doctor
from flows.label_videos import label_videos
from flows.local import server
from labeling.run import RunError, label_folder
from tests.conftest import Command
from tests.labeling.odd_videos import video
from tests.labeling.test_run import contents

pytestmark = pytest.mark.slow


def test_flow_writes_the_same_store_as_the_command(api: str, videos: Path, tmp_path: Path) -> None:
    summary = label_videos(videos, tmp_path / "flow.zarr", workers=2)
    assert not summary.failed
    label_folder(videos, tmp_path / "plain.zarr", workers=1)
    assert contents(tmp_path / "flow.zarr") == contents(tmp_path / "plain.zarr")
    runs = httpx.post(f"{api}/flow_runs/filter", json={}).json()
    assert [run["state_type"] for run in runs] == ["COMPLETED"]
    artifacts = httpx.post(f"{api}/artifacts/filter", json={}).json()
    assert any(artifact["key"] == "label-videos" and "more/three.mp4" in artifact["data"] for artifact in artifacts)


def test_wrong_parameters_are_refused_before_any_work(api: str, videos: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterTypeError, match="workers"):
        label_videos(videos, tmp_path / "labels.zarr", workers="many")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ParameterTypeError, match="config"):
        label_videos(videos, tmp_path / "labels.zarr", config={"filters": {"overlap": 7}})  # type: ignore[arg-type]  # on purpose
    assert not (tmp_path / "labels.zarr").exists()


def test_command_runs_the_flow_with_a_server_of_its_own(spectrabox: Command, videos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    shutil.copy(videos / "one.mp4", folder)
    (folder / "broken.mp4").write_text("not a video")
    result = spectrabox(
        "label", folder, "--out", tmp_path / "labels.zarr", "--flow", env=without_server(tmp_path / "prefect")
    )
    assert result.returncode == 1
    assert "one.mp4" in result.stdout
    assert "broken.mp4" in result.stdout
    assert sentences(result.stderr) == [], "the server has stopped without a word"
    assert not [noise for noise in NOISE if noise in result.stdout]


NOISE = (
    "Traceback", "Error", "INFO", "WARNING", "CRITICAL", "prefect", "Prefect", "flow run", "Task run", "httpx",
    "sqlalchemy",
)  # fmt: skip


def environment(api: str) -> dict[str, str]:
    """That of a user whose Prefect is set up to use this server."""
    return {**os.environ, "PREFECT_API_URL": api, "COLUMNS": "400"}


def without_server(home: Path) -> dict[str, str]:
    """That of a user who never heard of Prefect."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    return {**others, "PREFECT_HOME": str(home), "COLUMNS": "400"}


def sentences(output: str) -> list[str]:
    """What is left on the terminal, line by line, without the progress bar that was drawn over."""
    assert not [noise for noise in NOISE if noise in output], output
    return [line.strip() for line in output.splitlines() if line.strip()]


def test_strict_flow_says_which_video_stopped_it(api: str, spectrabox: Command, videos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    shutil.copy(videos / "one.mp4", folder)
    (folder / "broken.mp4").write_text("not a video")
    result = spectrabox("label", folder, "--out", tmp_path / "labels.zarr", "--flow", "--strict", env=environment(api))
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = sentences(result.stderr)
    assert line.startswith(f"error {folder / 'broken.mp4'} is not a video that can be read")


def test_flow_without_weights_says_how_to_get_them(api: str, spectrabox: Command, videos: Path, tmp_path: Path) -> None:
    home = tmp_path / "weights"
    result = spectrabox(
        "label", videos, "--out", tmp_path / "labels.zarr", "--flow", "--proposals", "videocutler",
        "--set", f"weights.folder={home}", env=environment(api),
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stdout == ""
    assert sentences(result.stderr) == [
        f"error The weights videocutler are not on this machine (looked in {home}). "
        "Licence: CC BY-NC-SA 4.0, non-commercial use only. Download them (about 176 MB) with "
        f"`spectrabox weights fetch videocutler --folder {home}`, "
        f"or bring a copy with `spectrabox weights add videocutler PATH --folder {home}`."
    ]
    assert not (tmp_path / "labels.zarr").exists()


@pytest.mark.parametrize("server", ["theirs", "its own"])
def test_interrupted_flow_stops_with_one_sentence_and_goes_on_later(api: str, tmp_path: Path, server: str) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (600, 120, 160, 3), np.uint8)
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / "videos").mkdir(exist_ok=True)
        video(tmp_path / "videos" / name, frames)
    out = tmp_path / "labels.zarr"
    command = [sys.executable, "-m", "flows.cli", "label", str(tmp_path / "videos"), "--out", str(out), "--flow"]
    settings = environment(api) if server == "theirs" else without_server(tmp_path / "prefect")
    run = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings, start_new_session=True
    )
    while run.poll() is None and not (out.exists() and len(list(out.glob("stages/*"))) > 1):
        time.sleep(0.01)
    started = psutil.Process(run.pid).children(recursive=True)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: the whole group gets it
    printed, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert printed == ""
    assert sentences(said) == ["Stopped. Run the same command again to go on from here."]
    assert started
    _, left = psutil.wait_procs(started, timeout=10)
    assert not left


def test_server_does_not_outlive_a_killed_run(tmp_path: Path) -> None:
    code = "import time; from flows.local import server\nwith server() as url: print(url, flush=True); time.sleep(600)"
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_API_URL": ""}
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    assert run.stdout is not None
    url = run.stdout.readline().strip()
    assert httpx.get(f"{url}/health").status_code == 200
    started = psutil.Process(run.pid).children(recursive=True)
    run.kill()
    run.wait()
    _, left = psutil.wait_procs(started, timeout=20)
    assert not left


def test_a_server_that_cannot_start_says_why_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", f"sqlite+aiosqlite:///{tmp_path}/nowhere/prefect.db")
    known, began = psutil.Process().children(recursive=True), time.monotonic()
    with pytest.raises(RunError) as refused, temporary_settings(restore_defaults={PREFECT_API_URL}), server():
        pass
    assert str(refused.value).startswith("the Prefect server did not start: ")
    assert "does not answer" not in str(refused.value), refused.value
    assert time.monotonic() - began < 60
    assert [child for child in psutil.Process().children(recursive=True) if child not in known] == []


def test_the_doctor_names_the_server_that_answers(api: str) -> None:
    (found,) = doctor.prefect()
    assert found.state == "good"
    assert f"the server at {api} answers" in found.words
