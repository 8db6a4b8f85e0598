"""Run a flow on this machine, with a Prefect server of its own if none is configured.

Prefect's built-in temporary server gives up after 20 seconds and prints its shutdown into the terminal; this one is
waited for while it lives, is bound to localhost, and writes to a log file.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from labeling.profiles import check_backends

if TYPE_CHECKING:
    from flows.runners import RunnerName
    from labeling.config import LabelConfig
    from labeling.profiles import Device
    from labeling.run import Summary

QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",  # the command says itself what went wrong
    "PREFECT_SERVER_UI_ENABLED": "false",
}
# What a server that ends with its run need not do: nobody plans other runs on it, or has it react to events.
IDLE = ("SCHEDULER", "LATE_RUNS", "FOREMAN", "PAUSE_EXPIRATIONS", "CANCELLATION_CLEANUP", "TRIGGERS")
SPARING = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in IDLE}
# The server ends when its standard input does: in the end, and also when the process that started it is killed. When it
# ends by itself, so does the shell, and why is in the log.
LEASH = (
    'exec 3<&0; "$@" 3<&- & server=$!; (cat <&3 > /dev/null; kill $server) & leash=$!; exec 3<&-; wait $server; '
    "kill $leash"
)
LOCALHOST, EVERYWHERE = "127.0.0.1", "0.0.0.0"
PATIENCE = 180.0  # seconds for the server to start; the first start on a machine creates its database
GRACE = 10.0  # seconds for the server to stop by itself


def run_flow(
    videos: Path, out: Path, config: LabelConfig, workers: int = 0, device: Device = "auto", strict: bool = False,
    refit: bool = False, prune: bool = False, runner: RunnerName = "threads", address: str | None = None,
    patience: float = 0.0,
) -> Summary:  # fmt: skip
    """Run the flow `label-videos` in this process and show its progress."""
    check_backends(config, device)
    with prefect_here():
        from flows.console import FrameBar
        from flows.label_videos import heard_by, label_videos

        with FrameBar() as bar, heard_by(bar):
            return label_videos(
                videos, out, None, config, workers, device, strict, refit, prune,
                runner=runner, address=address, patience=patience,
            )  # fmt: skip


@contextmanager
def prefect_here() -> Iterator[None]:
    """Let flows of this process report to the configured server or to one of their own, and keep Prefect quiet."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    with server() as url:
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings(updates={PREFECT_API_URL: url}), in_reach(url):
            yield


@contextmanager
def in_reach(url: str) -> Iterator[None]:
    """RunError where the server cannot be reached, or refuses; Prefect tries for a while before it says so."""
    import httpx

    from labeling.problems import RunError

    try:
        yield
    except httpx.HTTPStatusError as error:
        answer = f"{error.response.status_code} {error.response.reason_phrase}"
        remedy = "What is done is kept: look at its log, and run the same command again to go on."
        if error.response.status_code == httpx.codes.UNAUTHORIZED:
            remedy = "It asks for a password: set PREFECT_API_AUTH_STRING=name:password."
        raise RunError(f"the Prefect server at {url} refuses ({answer}). {remedy}") from error
    except (httpx.TransportError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not str(error).startswith("Failed to reach API"):
            raise
        raise RunError(
            f"the Prefect server at {url} cannot be reached. Start it (prefect server start), or unset PREFECT_API_URL "
            "to have one for the run alone. What is done is kept: run the same command again to go on."
        ) from error


@contextmanager
def server(host: str = LOCALHOST, port: int = 0, page: bool = False) -> Iterator[str]:
    """The address of the configured Prefect server, or of one that lives as long as the context.

    Args:
        host: Who may reach a server of our own.
        port: Where; 0: any that is free.
        page: Whether it shows its page.
    """
    from labeling.run import RunError

    if configured := configured_server():
        yield configured
        return
    port = port or _free_port()
    url = f"http://{LOCALHOST if host == EVERYWHERE else host}:{port}/api"
    with tempfile.NamedTemporaryFile("w+", prefix="prefect-server-", suffix=".log") as log:
        start = [
            sys.executable,
            "-m",
            "prefect",
            "server",
            "start",
            "--host",
            host,
            "--port",
            str(port),
            "--ui" if page else "--no-ui",
        ]
        process = subprocess.Popen(
            ["sh", "-c", LEASH, "sh", *start],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**_to_itself(url), **os.environ, **QUIET, **(_page_settings() if page else SPARING)},
            start_new_session=True,  # Ctrl-C reaches the run alone, which then ends the server
        )
        try:
            if not _healthy(url, process):
                log.seek(0)
                words = log.read().strip().splitlines()[-1:] or ["no message"]
                waited = f"it does not answer after {PATIENCE:.0f} seconds" if process.poll() is None else words[0]
                raise RunError(f"the Prefect server did not start: {waited}")
            yield url
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _to_itself(url: str) -> dict[str, str]:
    """Only its own page talks to a server: Prefect lets every site that is open in the user's browser start runs."""
    return {"PREFECT_SERVER_CORS_ALLOWED_ORIGINS": url.removesuffix("/api")}


def _page_settings() -> dict[str, str]:
    """A page at the server's own address, made in the user's Prefect folder and not in the installed package."""
    from prefect.settings import PREFECT_HOME

    return {
        "PREFECT_SERVER_UI_ENABLED": "true", "PREFECT_SERVER_UI_API_URL": "/api",
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(PREFECT_HOME.value() / "page"),
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    }  # fmt: skip


def configured_server() -> str | None:
    """The address of the Prefect server that the user has chosen, if any."""
    from prefect.settings import PREFECT_API_URL

    return str(address) if (address := PREFECT_API_URL.value()) else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _healthy(url: str, process: subprocess.Popen[bytes]) -> bool:
    import httpx

    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up and process.poll() is None:
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return True
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    return False
