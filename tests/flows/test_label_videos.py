"""The Prefect flow against a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from prefect.exceptions import ParameterTypeError
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.label_videos import label_videos
from flows.local import server
from labeling.run import label_folder
from tests.conftest import Command
from tests.labeling.test_run import contents

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prefect server with a database of its own."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PREFECT_HOME", str(tmp_path_factory.mktemp("prefect")))
    with server() as url, temporary_settings(updates={PREFECT_API_URL: url}):
        yield url
    patch.undo()


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
        label_videos(videos, tmp_path / "labels.zarr", workers="many")  # type: ignore[arg-type]
    with pytest.raises(ParameterTypeError, match="config"):
        label_videos(videos, tmp_path / "labels.zarr", config={"filters": {"overlap": 7}})  # type: ignore[arg-type]
    assert not (tmp_path / "labels.zarr").exists()


def test_command_runs_the_flow_with_a_server_of_its_own(spectrabox: Command, videos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    shutil.copy(videos / "one.mp4", folder)
    (folder / "broken.mp4").write_text("not a video")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    environment["PREFECT_HOME"] = str(tmp_path / "prefect")
    result = spectrabox("label", folder, "--out", tmp_path / "labels.zarr", "--flow", env=environment)
    assert result.returncode == 1
    assert "one.mp4" in result.stdout
    assert "broken.mp4" in result.stdout
    for noise in ("Traceback", "INFO", "WARNING", "prefect"):
        assert noise not in result.stderr


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
