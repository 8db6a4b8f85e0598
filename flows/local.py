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
    from labeling.config import LabelConfig
    from labeling.profiles import Device
    from labeling.run import Summary

QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",  # the command says itself what went wrong
    "PREFECT_SERVER_UI_ENABLED": "false",
}
# The server ends when its standard input does: in the end, and also when the process that started it is killed.
LEASH = '"$@" & server=$!; cat > /dev/null; kill $server; wait $server'
PATIENCE = 180.0  # seconds for the server to start; the first start on a machine creates its database
GRACE = 10.0  # seconds for the server to stop by itself


def run_flow(
    videos: Path, out: Path, config: LabelConfig, workers: int = 0, device: Device = "auto", strict: bool = False,
    refit: bool = False, prune: bool = False,
) -> Summary:  # fmt: skip
    """Run the flow `label-videos` in this process and show its progress."""
    check_backends(config, device)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    with server() as url:
        from prefect.settings import PREFECT_API_URL, temporary_settings

        from flows.console import FrameBar
        from flows.label_videos import heard_by, label_videos

        with temporary_settings(updates={PREFECT_API_URL: url}), FrameBar() as bar, heard_by(bar):
            return label_videos(videos, out, None, config, workers, device, strict, refit, prune)


@contextmanager
def server() -> Iterator[str]:
    """The address of the configured Prefect server, or of one that lives as long as the context."""
    from labeling.run import RunError

    if configured := _configured():
        yield configured
        return
    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    with tempfile.NamedTemporaryFile("w+", prefix="prefect-server-", suffix=".log") as log:
        start = [
            sys.executable,
            "-m",
            "prefect",
            "server",
            "start",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--no-ui",
        ]
        process = subprocess.Popen(
            ["sh", "-c", LEASH, "sh", *start],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, **QUIET},
            start_new_session=True,  # Ctrl-C reaches the run alone, which then ends the server
        )
        try:
            if not _healthy(url, process):
                log.seek(0)
                words = log.read().strip().splitlines()[-1:] or ["no message"]
                raise RunError(f"the Prefect server did not start: {words[0]}. Try again without --flow.")
            yield url
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _configured() -> str | None:
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
