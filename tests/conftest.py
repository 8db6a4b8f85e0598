"""Real videos from our simulators, the real command in a process of its own, and a real Prefect server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.layout import browser, opened  # noqa: F401  fixtures for every test
from training.envs import make
from training.envs.video import record, write_episode

# A shell has its background jobs ignore Ctrl-C, and what they start inherits that: the commands that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

Command = Callable[..., subprocess.CompletedProcess[str]]

# Why a test may be skipped although everything is installed: for what the machine is.
MACHINES = ("there is a CUDA device", "timm is installed", "only glibc", "a small disk cannot be mounted")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where everything is installed, a test that is skipped for want of something is a hole, and fails the run."""
    if not os.environ.get("SPECTRABOX_ALL_INSTALLED") or hasattr(session.config, "workerinput"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = {report.longrepr[2].removeprefix("Skipped: ") for report in reporter.stats.get("skipped", [])}
    holes = sorted(reason for reason in skipped if not reason.startswith(MACHINES))
    if holes:
        reporter.write_line("\nSkipped, although everything is installed: " + "; ".join(holes), red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one ball, three balls in a subfolder, and Two Room; 40 frames each. Not to be changed."""
    folder = tmp_path_factory.mktemp("videos")
    write_episode(folder / "one.mp4", record(make("nball", balls=1), 40, seed=1))
    write_episode(folder / "more" / "three.mp4", record(make("nball", balls=3), 40, seed=2))
    write_episode(folder / "room.mp4", record(make("two_room"), 40, seed=3))
    return folder


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prefect server with a database of its own, to which flows of this process report."""
    from prefect.events.worker import EventsWorker
    from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

    from flows.local import server

    patch = pytest.MonkeyPatch()
    patch.setenv("PREFECT_HOME", str(tmp_path_factory.mktemp("prefect")))
    # Logs on their way to the server would be waited for when it is gone.
    quiet = {PREFECT_LOGGING_TO_API_ENABLED: False}
    with server() as url, temporary_settings(updates={PREFECT_API_URL: url, **quiet}):
        yield url
        EventsWorker.drain_all(timeout=30)  # else it would go on telling this server what the next one should hear
    patch.undo()


@pytest.fixture
def spectrabox(tmp_path: Path) -> Command:
    """Run the command as a user would; returns the finished process with its output."""

    def run(
        *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "flows.cli", *(str(argument) for argument in arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=cwd, env=env)

    return run
