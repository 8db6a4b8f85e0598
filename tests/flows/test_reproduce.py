"""The command `spectrabox reproduce` and its flow, at a tiny scale."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import typer
from typer.testing import CliRunner, Result

from flows import reproduce_cli
from tests.training.reproduction.test_run import BROKEN, small_table
from tests.training.reproduction.tiny_scale import TINY
from training.reproduction import tables
from training.reproduction.cells import Figure, Folder, Times
from training.reproduction.scales import SCALES


def spectrabox(*arguments: object) -> Result:
    """The command as it is mounted at the top of `spectrabox`."""
    app = typer.Typer()
    app.callback()(lambda: None)
    app.add_typer(reproduce_cli.app)
    return CliRunner().invoke(app, ["reproduce", *(str(argument) for argument in arguments)])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table `small` at a scale of seconds; its second cell cannot be trained."""
    monkeypatch.setitem(tables.TABLES, "small", lambda scale: small_table(scale, BROKEN))
    monkeypatch.setitem(SCALES, "cpu", replace(TINY, reductions=(("Far too few steps.", ("small",)),)))


def test_tables_are_named_with_their_minutes() -> None:
    listed = spectrabox("--list")
    assert listed.exit_code == 0
    for name in tables.TABLES:
        assert name in listed.output
    assert "not known" in spectrabox("--scale", "paper").output


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path: Path) -> None:
    said = spectrabox("nball-success", "--dry-run", "--out", tmp_path / "out")
    assert said.exit_code == 0, said.output
    words = " ".join(said.output.split())
    assert "n = 3, with the head, seed 2" in words
    assert "Plans are judged with one seed in place of five." in words
    assert "12 of 12 cells and 3 datasets are left" in words
    assert not (tmp_path / "out").exists()


def test_a_dry_run_of_some_cells_lists_no_others(tmp_path: Path) -> None:
    said = spectrabox("noise", "--dry-run", "--only", "3-Balls", "--out", tmp_path / "out")
    assert said.exit_code == 0, said.output
    assert "3-Balls" in said.output
    assert "Push-T, boxes" not in said.output
    assert "9 of 9 cells and 1 datasets are left" in " ".join(said.output.split())


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_videos_are_refused_by_tables_that_look_at_none(tmp_path: Path, more: tuple[str, ...]) -> None:
    said = spectrabox("noise", "--videos", tmp_path, "--out", tmp_path / "out", *more)
    assert said.exit_code == 2
    assert "noise takes no videos: leave --videos out." in " ".join(said.output.split())


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_an_unknown_table_is_answered_with_those_there_are(more: tuple[str, ...]) -> None:
    said = spectrabox("chess", *more)
    assert said.exit_code == 2
    assert "There is no table 'chess'" in said.output
    assert "nball-success" in said.output
    assert "Traceback" not in said.output


def test_the_command_runs_what_is_left_and_says_what_failed(tmp_path: Path, small: None) -> None:
    whole, _ = small_table().cells
    Folder(tmp_path).write(whole.training, whole.measures[0], {"plans": Figure(0.25, 4)}, Times(60.0, 1.0))
    Folder(tmp_path).make(whole.training.data)
    done = spectrabox("small", "--out", tmp_path, "--device", "cpu")
    assert done.exit_code == 1, done.output
    words = " ".join(done.output.split())
    assert "failed LeWM, seed 0: The target bb+depth50 needs the column depth" in words
    assert "1 of 2 cells are done, 1 failed." in words
    assert "25.0 %" in words
    assert "Far too few steps." in (tmp_path / "small-cpu.html").read_text()
    left = spectrabox("small", "--out", tmp_path, "--dry-run").output
    assert "1 of 2 cells and 0 datasets are left" in " ".join(left.split())


FLOW = """
import sys
from dataclasses import replace
from pathlib import Path
from flows.reproduce import reproduce_paper
from tests.training.reproduction.test_run import BROKEN, small_table
from tests.training.reproduction.tiny_scale import TINY
from training.reproduction import tables
from training.reproduction.scales import SCALES

if __name__ == "__main__":
    tables.TABLES["small"] = lambda scale: small_table(scale, BROKEN)
    SCALES["cpu"] = TINY
    assert list(reproduce_paper("small", "cpu", Path(sys.argv[1]), 1, "cpu")) == ["LeWM, seed 0"]
"""


@pytest.mark.slow
def test_the_flow_has_a_task_for_each_cell_and_shows_the_table(api: str, tmp_path: Path) -> None:
    """In a process of its own: tasks report through a connection that another server may hold in this one."""
    script = tmp_path / "flow.py"
    script.write_text(FLOW)
    environment = {**os.environ, "PREFECT_API_URL": api, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, script, tmp_path / "out"], env=environment, check=True)
    wanted = {"make nball-balls1": "COMPLETED", "head, seed 0": "COMPLETED", "LeWM, seed 0": "FAILED"}
    for _ in range(60):  # the server writes states of tasks down a little later
        tasks = httpx.post(f"{api}/task_runs/filter", json={}).json()
        states = {task["name"]: task["state_type"] for task in tasks}
        if states == wanted:
            break
        time.sleep(0.5)
    assert states == wanted
    (run,) = httpx.post(f"{api}/flow_runs/filter", json={}).json()
    assert (run["name"], run["state_type"]) == ("reproduce small at cpu scale", "COMPLETED")
    shown = {artifact["key"]: artifact["data"] for artifact in httpx.post(f"{api}/artifacts/filter", json={}).json()}
    assert shown.keys() == {"reproduce-paper", "reproduce-paper-report"}
    assert "1 of 2 cells are done, 1 failed." in shown["reproduce-paper"]
    assert "small-cpu.html" in shown["reproduce-paper-report"]


def test_a_dry_run_of_what_is_done_speaks_of_no_time() -> None:
    said = spectrabox("grounding", "--dry-run", "--out", Path(__file__).parents[2] / "docs" / "results")
    assert "0 of 4 cells and 0 datasets are left." in " ".join(said.output.split())
