"""A Prefect server that is killed in the middle of a flow run, and started again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from flows.local import server
from labeling.run import label_folder
from tests.faults.trouble import files_in, start_label, wait_for, write_clips
from tests.labeling.test_run import contents

pytestmark = pytest.mark.slow


def test_a_run_gets_over_a_server_that_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))  # both have the same database
    clips, out = write_clips(tmp_path / "clips", count=4), tmp_path / "labels.zarr"
    label_folder(clips, tmp_path / "undisturbed.zarr")
    expected = contents(tmp_path / "undisturbed.zarr")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    known = psutil.Process().children()
    with server(port=port) as url:
        (leash,) = [child for child in psutil.Process().children() if child not in known]
        run = start_label(clips, out, "--flow", "--workers", "1", PREFECT_API_URL=url)
        wait_for(lambda: run.poll() is not None or files_in(out) > len(expected) // 5, 300)
        assert run.poll() is None, "the run ended before the server was killed: nothing was tested"
        for process in leash.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it ended with the one before
                process.kill()
    with server(port=port):
        printed, said = run.communicate(timeout=300)
        assert run.returncode == 0, (printed, said)
    assert "Labels:" in printed
    assert "Traceback" not in said
    assert contents(out) == expected


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    run = start_label(
        write_clips(tmp_path / "clips", count=1), tmp_path / "labels.zarr", "--flow",
        PREFECT_API_URL="http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES="0",
    )  # fmt: skip
    printed, said = run.communicate(timeout=300)
    assert run.returncode == 2
    assert printed == ""
    (line,) = said.strip().splitlines()
    assert line.startswith("error the Prefect server at http://127.0.0.1:9/api cannot be reached. Start it")
    assert not (tmp_path / "labels.zarr").exists()


@pytest.mark.parametrize("command", ["label", "serve"])
def test_a_server_that_asks_for_a_password_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    clips = write_clips(tmp_path / "clips", count=1)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_SERVER_API_AUTH_STRING", "name:password")
        with server() as url:
            patch.undo()
            options = [str(clips), "--out", str(tmp_path / "labels.zarr"), "--flow"] if command == "label" else []
            run = subprocess.run(
                [sys.executable, "-m", "flows.cli", command, *options], capture_output=True, text=True, timeout=120,
                check=False, env={**os.environ, "COLUMNS": "400", "PREFECT_API_URL": url},
            )  # fmt: skip
    assert run.returncode == 2, run.stderr
    said = run.stderr.strip().splitlines()
    assert said == [
        f"error the Prefect server at {url} refuses (401 Unauthorized). It asks for a password: set "
        "PREFECT_API_AUTH_STRING=name:password."
    ]
