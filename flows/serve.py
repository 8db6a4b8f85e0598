"""How do teams run Spectrabox? By deployments: a Prefect server keeps them, and this process carries their runs out.

`spectrabox serve` brings a server with a page, unless one is configured, and serves every flow in `FLOWS` until it is
stopped. Runs are processes of their own, in the folder that it was started in.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from rich.markup import escape

from flows.console import errors, plain_errors, terminal
from flows.local import LOCALHOST, configured_server, in_reach, server
from flows.logs import CONSOLE
from labeling.run import RunError

if TYPE_CHECKING:
    from prefect.deployments.runner import RunnerDeployment

PORT = 4200
LIMIT = 4
# What can be run by name: a deployment is called as its flow. In prefect.yaml the same are listed for work pools.
FLOWS = (
    "flows.label_videos.label_videos",
    "flows.watch_folder.watch_folder",
    "flows.train_world_model.train_world_model",
    "flows.evaluate_world_model.evaluate_world_model",
    "flows.reproduce.reproduce_paper",
)


def serve(host: str = LOCALHOST, port: int = PORT, limit: int = LIMIT) -> None:
    """Carry out runs of all deployments until Ctrl-C, with a server of our own if none is configured.

    Args:
        host: Who may reach a server of our own.
        port: Where it is.
        limit: Runs side by side; the others wait.
    """
    for name, value in CONSOLE.items():  # before Prefect is imported: here, and in the processes of the runs
        os.environ.setdefault(name, value)
    with plain_errors():
        if not (configured := configured_server()):
            _check(host, port)
        with server(host, port, page=True) as url:
            from prefect.settings import PREFECT_API_URL, temporary_settings

            with temporary_settings(updates={PREFECT_API_URL: url}), in_reach(url):
                _carry_out(url, limit, ours=not configured)


def deployments() -> list[RunnerDeployment]:
    """A deployment of each flow, described by the first paragraph of what the flow says about itself."""
    from prefect import Flow
    from prefect.deployments.runner import RunnerDeployment
    from prefect.types.entrypoint import EntrypointType
    from prefect.utilities.importtools import import_object

    made = []
    for name in FLOWS:
        flow = import_object(name)
        assert isinstance(flow, Flow)
        about = (flow.description or "").partition("\n\n")[0]
        one = flow.to_deployment(flow.name, description=about, entrypoint_type=EntrypointType.MODULE_PATH)
        assert isinstance(one, RunnerDeployment)  # and no coroutine, which only asynchronous code gets
        made.append(one)
    return made


def _carry_out(url: str, limit: int, ours: bool) -> None:
    """Say what there is, and wait for runs until a signal ends this."""
    from prefect.runner import Runner

    class Stoppable(Runner):
        """Ends the same way by Ctrl-C and by SIGTERM: runs at work are cancelled, not left behind as running."""

        async def until_stopped(self) -> None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.end)
            with suppress(asyncio.CancelledError):
                await self.start()

        def handle_sigterm(self, *frame: object) -> None:
            signal.raise_signal(signal.SIGINT)

        def end(self) -> None:
            if self.started:
                self.ending = asyncio.ensure_future(self.astop())

    offered = deployments()
    runner = Stoppable(pause_on_shutdown=False, limit=limit)
    for one in offered:
        runner.add_deployment(one)
    known = [] if not ours else [f"export PREFECT_API_URL={url}"]
    example = f"prefect deployment run {offered[0].flow_name}/{offered[0].name} --param videos=FOLDER --watch"
    for line in (
        f"Serving {', '.join(one.name for one in offered)}. Stop with Ctrl-C.",
        f"Page: {url.removesuffix('/api')}", "Try in another terminal:", *(f"  {one}" for one in (*known, example)),
    ):  # fmt: skip
        terminal.print(escape(line), soft_wrap=True)
    asyncio.run(runner.until_stopped())
    terminal.print("Stopped.")


def _check(host: str, port: int) -> None:
    """Refuse a port that is taken, and warn of a server that others can reach."""
    if ":" in host:
        raise RunError(f"{host} is an address of IPv6, which is not served. Say --host 127.0.0.1, or a name.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise RunError(
                f"{host}:{port} cannot be used ({error.strerror}). If a Prefect server is there, say "
                f"PREFECT_API_URL=http://{host}:{port}/api; else choose another --port."
            ) from error
    if not host.startswith("127.") and host != "localhost":
        errors.print(
            f"[bold yellow]warning[/] Whoever can reach {escape(host)}:{port} can read and write files and run flows "
            "here as you can: the server asks for no password unless PREFECT_SERVER_API_AUTH_STRING is set.",
            soft_wrap=True,
        )
