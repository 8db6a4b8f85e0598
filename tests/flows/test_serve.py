"""`spectrabox serve` as a team uses it: a real server, real runs, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest

from flows.serve import FLOWS
from labeling import open_store
from labeling.run import label_folder
from labeling.validate import validate
from tests.conftest import Command
from tests.faults.trouble import wait_for
from tests.labeling.odd_videos import video
from tests.training.tiny_run import tiny_config, tiny_dataset

pytestmark = pytest.mark.slow
README = Path(__file__).parents[2] / "README.md"
NAMES = {"label-videos", "watch-folder", "train-world-model", "evaluate-world-model", "reproduce-paper"}


@dataclass
class Serving:
    """`spectrabox serve` at work."""

    process: subprocess.Popen[str]
    folder: Path  # in which it was started
    log: Path  # what it prints
    api: str
    environment: dict[str, str]  # of a user who did as it says

    def said(self) -> list[str]:
        """Its lines."""
        return self.log.read_text().splitlines()

    def prefect(self, *words: str) -> str:
        """Prefect's command as a user types it elsewhere; what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *words], capture_output=True, text=True, check=False, timeout=300,
            env=self.environment, cwd=self.folder.parent,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, what: str, **filters: Any) -> list[dict[str, Any]]:
        """Everything of one kind that the server knows."""
        return httpx.post(f"{self.api}/{what}/filter", json=filters).json()

    def artifacts(self, key: str) -> list[dict[str, Any]]:
        """What flow runs have shown under a name."""
        return self.ask("artifacts", artifacts={"key": {"any_": [key]}})


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, videos: Path) -> Iterator[Serving]:
    """In a folder with `videos`: a good one, one with a wicked name, and one that is none."""
    folder, home = tmp_path_factory.mktemp("serve"), tmp_path_factory.mktemp("prefect")
    (folder / "videos").mkdir()
    shutil.copy(videos / "one.mp4", folder / "videos")
    shutil.copy(videos / "room.mp4", folder / "videos" / "a|b<script>.mp4")
    (folder / "videos" / "broken.mp4").write_text("not a video")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    environment |= {"PREFECT_HOME": str(home), "COLUMNS": "200"}
    log = folder / "serve.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "serve", "--port", str(port)], stdout=output, stderr=output, text=True,
            env=environment, cwd=folder, start_new_session=True,
        )  # fmt: skip
    while process.poll() is None and "--watch" not in log.read_text():
        time.sleep(0.2)
    assert process.poll() is None, log.read_text()
    api = f"http://127.0.0.1:{port}/api"
    yield Serving(process, folder, log, api, environment | {"PREFECT_API_URL": api})
    if process.poll() is None:
        process.terminate()
        process.wait(60)


def test_it_says_where_its_page_is_and_what_to_try(serving: Serving) -> None:
    assert f"Page: {serving.api.removesuffix('/api')}" in serving.said()
    assert f"  export PREFECT_API_URL={serving.api}" in serving.said()
    page = httpx.get(serving.api.removesuffix("/api"), follow_redirects=True, headers={"accept": "text/html"})
    assert page.status_code == 200
    assert "<html" in page.text
    (listening,) = {  # nobody else can reach it
        found.laddr.ip
        for child in psutil.Process(serving.process.pid).children(recursive=True)
        for found in child.net_connections("tcp")
        if found.status == psutil.CONN_LISTEN
    }
    assert listening == "127.0.0.1"


def test_every_deployment_has_a_form_with_types_descriptions_and_choices(serving: Serving) -> None:
    found = {one["name"]: one["parameter_openapi_schema"] for one in serving.ask("deployments")}
    assert set(found) >= NAMES
    assert len(found) == len(FLOWS)
    for name, schema in found.items():
        for parameter, field in schema["properties"].items():
            assert field.get("description"), f"{name}: {parameter} is not described"
            assert {"type", "anyOf", "allOf", "$ref", "enum"} & set(field), f"{name}: {parameter} has no type"
        for model in schema.get("definitions", {}).values():
            undescribed = [one for one, field in model.get("properties", {}).items() if not field.get("description")]
            assert not undescribed, (name, model["title"], undescribed)
    label, evaluate = (found[name]["properties"] for name in ("label-videos", "evaluate-world-model"))
    assert label["device"]["enum"] == ["auto", "cpu", "cuda", "mps"]
    assert label["profile"]["anyOf"][0]["enum"] == ["embedded", "foundation", "maskcut"]
    assert label["workers"]["minimum"] == 0
    assert found["watch-folder"]["properties"]["share"]["maximum"] == 1
    assert evaluate["which"]["enum"] == ["best", "last"]
    assert "nball-success" in found["reproduce-paper"]["properties"]["table"]["enum"]


def test_another_site_in_the_browser_may_neither_read_nor_start_anything(serving: Serving) -> None:
    there = {"origin": "https://another.example"}
    asks = {**there, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    refused = httpx.options(f"{serving.api}/deployments/filter", headers=asks)
    answered = httpx.post(f"{serving.api}/deployments/filter", headers=there, json={})
    assert refused.status_code == 400
    for answer in (refused, answered):
        assert "access-control-allow-origin" not in answer.headers
    disguised = {**there, "content-type": "text/plain"}  # of a form, for which no browser asks first
    made = httpx.post(f"{serving.api}/flows/", headers=disguised, content=b'{"name": "theirs"}')
    assert made.status_code == 422, made.text


@pytest.mark.parametrize("wrong", [{"device": "gpu"}, {"workers": -1}, {"config": {"filters": {"overlap": 7}}}])
def test_a_wrong_parameter_is_refused_by_the_server(serving: Serving, wrong: dict[str, Any]) -> None:
    (deployment,) = [one for one in serving.ask("deployments") if one["name"] == "label-videos"]
    asked = {"parameters": {"videos": "videos", **wrong}}
    answer = httpx.post(f"{serving.api}/deployments/{deployment['id']}/create_flow_run", json=asked)
    assert answer.status_code in (409, 422), answer.text


def test_the_command_of_the_readme_labels_a_folder(serving: Serving) -> None:
    (line,) = re.findall(r"^prefect deployment run label-videos/label-videos .*$", README.read_text(), re.M)
    words = shlex.split(line)
    assert "--watch" in words
    before = len(serving.said())
    assert "Flow run finished successfully in 'Completed'." in serving.prefect(*words[1:])
    store = serving.folder / "labels.zarr"
    assert validate(store) == []
    assert {open_store(store)[id].source for id in open_store(store)} == {"a|b<script>.mp4", "one.mp4"}
    (artifact,) = serving.artifacts("label-videos")
    table = artifact["data"]
    reason = "broken.mp4 is not a video that can be read"
    assert re.search(rf"^\| broken\.mp4 \| +\| +\| +\| +\| .*{reason}.* \|$", table, re.M), table
    assert re.search(r"^\| a\\\|b\\<script\\>\.mp4 \| 40 \| \d+ \| \d+ \| \d+ \|  \|$", table, re.M), table
    (progress,) = serving.artifacts("label-videos-progress")
    assert progress["data"] == 100
    said = serving.said()[before:]
    assert len(said) == 3, said
    for words_of, part in zip(("Beginning flow run", reason, "Finished in state Completed()"), said, strict=True):
        assert words_of in part
        assert re.match(r'time=\S+ level=\w+ flow=label-videos run="label videos" message=".*"$', part), part


def test_a_model_is_trained_and_judged_by_deployments(serving: Serving) -> None:
    data = tiny_dataset(serving.folder / "tiny.zarr").path.name
    config = tiny_config(steps=6, validate_every=3).model_dump(mode="json")
    asked = json.dumps({"source": data, "run": "run_1", "config": config, "device": "cpu"})
    serving.prefect("deployment", "run", "train-world-model/train-world-model", "--params", asked, "--watch")
    assert [one["data"] for one in serving.artifacts("train-world-model-progress")] == [100]
    (link,) = serving.artifacts("train-world-model-report")
    assert (serving.folder / "run_1" / "report.md").as_uri() in link["data"]
    assert r"run\_1/report.md" in link["description"]
    judged = ("--param", "run=run_1", "--param", "device=cpu", "--watch")
    serving.prefect("deployment", "run", "evaluate-world-model/evaluate-world-model", *judged)
    found = json.loads((serving.folder / "run_1" / "evaluation" / "evaluation.json").read_text())
    (shown,) = serving.artifacts("evaluate-world-model")
    assert "# run\\_1" in shown["data"]
    assert found["verdict"].split()[0] in shown["data"]
    assert "| red, position | " in shown["data"]
    (link,) = serving.artifacts("evaluate-world-model-report")
    assert link["data"].endswith("/run_1/evaluation/index.html)")


def test_a_folder_is_watched_until_the_run_is_cancelled(serving: Serving) -> None:
    inbox, store, before = serving.folder / "inbox", serving.folder / "inbox.zarr", len(serving.said())
    inbox.mkdir()
    asked = json.dumps({"videos": "inbox", "out": "inbox.zarr", "every": 0.5, "settle": 1})
    serving.prefect("deployment", "run", "watch-folder/watch-folder", "--params", asked)
    for name in ("one.mp4", "broken.mp4"):
        wait_for(lambda: any("Beginning flow run" in line for line in serving.said()[before:]), 60)
        shutil.copy(serving.folder / "videos" / name, inbox)
        wait_for(lambda name=name: any(name in one["data"] for one in serving.artifacts("watch-folder")), 60)
    assert [labels.source for labels in open_store(store).values()] == ["one.mp4"]
    assert list(open_store(store).failures) == ["broken.mp4"]
    (run,) = serving.ask("flow_runs", flow_runs={"name": {"any_": ["watch inbox"]}})
    assert run["state_type"] == "RUNNING"
    assert label_folder(inbox, store).failed, "the store is free while the run waits"
    serving.prefect("flow-run", "cancel", run["id"])
    wait_for(lambda: serving.ask("flow_runs", flow_runs={"id": {"any_": [run["id"]]}})[0]["state_type"] == "CANCELLED")
    assert validate(store) == []
    wait_for(lambda: any("cancelled" in line for line in serving.said()[before:]), 60)
    began, failed, *ended = serving.said()[before:]
    assert "Beginning flow run" in began
    assert 'level=warning flow=watch-folder run="watch inbox" message="failed broken.mp4: ' in failed
    assert ["cancelled" in line for line in ended] == [True], ended


def test_a_run_that_fails_says_why_in_one_line(serving: Serving) -> None:
    before = len(serving.said())
    asked = ("deployment", "run", "label-videos/label-videos", "--param", "videos=nowhere", "--watch")
    done = subprocess.run(
        [sys.executable, "-m", "prefect", *asked], capture_output=True, text=True, env=serving.environment, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    began, ended = serving.said()[before:]
    assert "Beginning flow run" in began
    assert "Finished in state Failed" in ended
    assert "nowhere does not exist" in ended


def test_a_port_that_is_taken_is_said(serving: Serving, spectrabox: Command) -> None:
    environment = {name: value for name, value in serving.environment.items() if name != "PREFECT_API_URL"}
    port = serving.api.split(":")[2].removesuffix("/api")
    refused = spectrabox("serve", "--port", port, env=environment)
    assert refused.returncode == 2
    assert f"say PREFECT_API_URL={serving.api}; else choose another --port." in refused.stderr
    assert "Traceback" not in refused.stderr


def test_ctrl_c_cancels_what_is_at_work_and_ends_everything(serving: Serving) -> None:
    """The last test of the file: it ends what the others share."""
    frames = np.random.default_rng(0).integers(0, 255, (600, 120, 160, 3), np.uint8)
    (serving.folder / "long").mkdir()
    video(serving.folder / "long" / "noise.mp4", frames)
    serving.prefect(
        "deployment", "run", "label-videos/label-videos", "--param", "videos=long", "--param", "out=long.zarr"
    )
    while not list(serving.folder.glob("long.zarr/stages/*")):
        assert serving.process.poll() is None
        time.sleep(0.1)
    started = psutil.Process(serving.process.pid).children(recursive=True)
    os.killpg(serving.process.pid, signal.SIGINT)  # as a terminal does: the whole group gets it
    assert serving.process.wait(60) == 0
    _, left = psutil.wait_procs(started, timeout=20)
    assert not left
    assert serving.said()[-1] == "Stopped."
    with sqlite3.connect(Path(serving.environment["PREFECT_HOME"]) / "prefect.db") as database:
        states = database.execute("select name, state_type from flow_run order by created").fetchall()
    assert states[-1] == ("label long", "CANCELLED")
    for noise in ("Traceback", "RuntimeWarning", "site-packages"):
        assert noise not in serving.log.read_text()


def test_a_server_for_everybody_comes_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    from flows.serve import _check

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _check("127.0.0.1", port)
    assert capsys.readouterr().err == ""
    _check("0.0.0.0", port)
    assert "can read and write files and run flows here" in " ".join(capsys.readouterr().err.split())
