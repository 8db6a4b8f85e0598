"""Deployments by work pool, as on several machines: prefect.yaml, a pool, and a worker in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from flows.serve import FLOWS, deployments
from labeling.validate import validate

PROJECT = Path(__file__).parents[2] / "prefect.yaml"


def test_the_project_file_has_what_is_served_and_no_path_of_a_machine() -> None:
    text = PROJECT.read_text()
    listed = {one["name"]: one["entrypoint"] for one in yaml.safe_load(text)["deployments"]}
    assert listed == {one.name: one.entrypoint for one in deployments()}
    assert set(listed.values()) == set(FLOWS)
    assert not re.search(r"(?:^|[\s\"'])[/~]\w", text, re.M)


@pytest.mark.slow
def test_a_worker_of_a_pool_labels_a_folder(api: str, videos: Path, tmp_path: Path) -> None:
    """The project file alone is enough: workers have Spectrabox installed."""
    shutil.copy(PROJECT, tmp_path)
    place = tmp_path / "worker"
    (place / "videos").mkdir(parents=True)
    shutil.copy(videos / "one.mp4", place / "videos")

    def prefect(*words: str, cwd: Path = tmp_path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *words], capture_output=True, text=True, check=False, timeout=300,
            env={**os.environ, "PREFECT_API_URL": api}, cwd=cwd,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    prefect("work-pool", "create", "spectrabox", "--type", "process")
    prefect("--no-prompt", "deploy", "--all")
    found = httpx.post(f"{api}/deployments/filter", json={}).json()
    assert {one["name"] for one in found} == {one["name"] for one in yaml.safe_load(PROJECT.read_text())["deployments"]}
    assert all(
        field["description"] for one in found for field in one["parameter_openapi_schema"]["properties"].values()
    )
    prefect("deployment", "run", "label-videos/label-videos", "--param", "videos=videos")
    prefect("worker", "start", "--pool", "spectrabox", "--run-once", cwd=place)
    (run,) = httpx.post(f"{api}/flow_runs/filter", json={}).json()
    assert run["state_type"] == "COMPLETED", run["state"]
    assert (
        validate(place / "labels.zarr") == []
    )  # in the folder of the worker, and not in one that is gone with the run
