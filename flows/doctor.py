"""Is this machine fit for Spectrabox, and what is to be done where it is not? The command `spectrabox doctor`.

Each check runs in a process of its own, several side by side: a package that crashes, hangs or does not load is a
finding like any other. The checks of labeling are in `labeling.doctor`; here are those of Prefect and simulators.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from labeling import doctor
from labeling.doctor import AGAIN, Finding, State

PATIENCE = 120.0  # seconds for one check: seconds where the machine is free, a minute where it trains
ANSWER = 4.0  # seconds for a Prefect server to answer
COLOURS = {"good": "green", "note": "yellow", "broken": "red"}
OPTIONAL = {"simulators"}  # what works without is not broken


def checks(folder: Path, weights: Path | None) -> dict[str, Callable[[], list[Finding]]]:
    """All checks by name, the slow ones first."""
    return {
        "simulators": simulators, "prefect": prefect, "torch": doctor.networks, "decoders": doctor.decoders,
        "packages": doctor.packages, "weights": partial(doctor.weights, weights), "python": doctor.machine,
        "disk": partial(doctor.folders, folder),
    }  # fmt: skip


def prefect() -> list[Finding]:
    """Whether Prefect and its server load, and whether the server that was chosen answers."""
    from importlib.metadata import version

    import prefect.server  # noqa: F401

    from flows.local import configured_server

    url, loads = configured_server(), f"{version('prefect')} loads"
    if url is None:
        return [Finding("prefect", "good", f"{loads}; no server is chosen, so each flow run brings one of its own")]
    from prefect.client.orchestration import get_client

    with get_client({"timeout": ANSWER}, sync_client=True) as client:
        trouble = client.api_healthcheck()
    if trouble is None:
        return [Finding("prefect", "good", f"{loads}; the server at {url} answers")]
    remedy = (
        "Start it (`spectrabox serve` or `prefect server start`), or unset PREFECT_API_URL (`prefect config view`)."
    )
    words = f"{loads}, but the server at {url} does not answer ({trouble or type(trouble).__name__})"
    return [Finding("prefect", "broken", words, remedy)]


def simulators() -> list[Finding]:
    """Whether worlds can be drawn: Push-T without a screen, the others with OpenGL."""
    from training.dataset_format import DatasetError
    from training.envs import make

    if find_spec("mujoco") is None:
        return [Finding("simulators", "good", "nball and two_room; the others come with the extra sim")]
    findings, drawn = [], ["nball", "two_room"]
    for name in ("push_t", "reacher"):
        try:
            world = make(name)
            world.reset(0)
            if world.render().std() == 0:
                raise DatasetError(f"{name} draws an empty picture. Update the drivers of OpenGL.")
        except DatasetError as error:
            findings.append(Finding("simulators", "note", str(error)))
        else:
            drawn.append("reacher and cube, by OpenGL" if name == "reacher" else name)
    return [Finding("simulators", "good", f"drawn: {', '.join(drawn)}"), *findings]


def examine(folder: Path, weights: Path | None = None) -> list[Finding]:
    """Make all checks; what is broken comes last, where it is read."""
    with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
        made = pool.map(lambda name: _in_a_process(name, folder, weights), checks(folder, weights))
        found = [finding for findings in made for finding in findings]
    return sorted(found, key=lambda finding: list(COLOURS).index(finding.state))


def report(folder: Path, weights: Path | None) -> bool:
    """Print what was found; returns whether all that is needed works."""
    from rich.console import Console
    from rich.markup import escape

    terminal = Console()
    with Console(stderr=True).status("Looking at this machine"):
        found = examine(folder, weights)
    for one in found:
        head = f"[{COLOURS[one.state]}]{one.state:6}[/]  [bold]{one.what:10}[/]"
        terminal.print(f"{head}  {escape(one.words)}", soft_wrap=True)
        if one.remedy:
            terminal.print(f"{'':20}[bold]→[/] {escape(one.remedy)}", soft_wrap=True)
    broken = Counter(one.what for one in found if one.state == "broken")
    verdict = f"[red]Broken:[/] {', '.join(broken)}. What to do stands below each."
    terminal.print(verdict if broken else "All that is needed works.", soft_wrap=True)
    return not broken


def _in_a_process(name: str, folder: Path, weights: Path | None) -> list[Finding]:
    """The findings of one check; what ends it is a finding, too."""
    command = [sys.executable, "-m", "flows.doctor", name, str(folder.absolute()), *([str(weights)] if weights else [])]
    state: State = "note" if name in OPTIONAL else "broken"
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        words = f"the check did not end within {PATIENCE:.0f} seconds"
        return [Finding(name, state, words, "Look again when the machine has less to do; else install anew.")]
    if ended.returncode == 0:
        return [Finding(**finding) for finding in json.loads(ended.stdout.splitlines()[-1])]
    words = (ended.stderr.strip().splitlines() or ["no message"])[-1]
    if ended.returncode < 0:
        words = f"crashed ({signal.Signals(-ended.returncode).name})"
    return [Finding(name, state, words, f"Install anew: {AGAIN} .")]


if __name__ == "__main__":
    which, where, *kept = sys.argv[1:]
    print(json.dumps([asdict(one) for one in checks(Path(where), Path(kept[0]) if kept else None)[which]()]))
