"""Does a flow run over thousands of videos stay as light as its first hundred? Prints figures against their limits.

    python benchmarks/load.py [--videos 2000] [--keep FOLDER]

The same short clips are labeled by `spectrabox label --flow`, with a Prefect server of its own, and by plain Python
(`spectrabox label`), one worker each and at the same time, so that other programs hit both alike. Both are watched from
outside. Seconds are the processors', of all processes of a run; those before its first video are left out, as they are
the same for one video and for a million. Exit code 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
from made_clips import write_clip

KINDS = 10  # clips that are really different; the others are copies of them with another number at the end of the file
FRAMES, SIDE, FPS = 16, 64, 8
EVERY = 0.5  # seconds between two looks at the runs
PART = 100  # videos at each end that are compared
ALIKE = 1.2  # time a video: of the last hundred over the first hundred
OVERHEAD = 0.15  # of a flow run, over plain Python
MEMORY = {
    "flow": 64.0,
    "server": 96.0,
    "worker": 48.0,
}  # MiB that a process may grow by
OPEN_FILES = {"flow": 100, "server": 150, "worker": 40}  # at most; a system allows 1,024
DATABASE = 16.0  # KiB that Prefect's database may grow by per video


@dataclass(frozen=True)
class Look:
    """What was to be seen at one moment; seconds, MiB and open files by the role of the process."""

    wall: float
    seconds: dict[str, float]
    memory: dict[str, float]
    files: dict[str, int]
    tracked: int  # videos that are tracked, or begun
    labeled: int
    database: float  # KiB


@dataclass
class Watched:
    """A run of the command, and what was seen of it until it ended."""

    process: psutil.Popen
    out: Path
    home: Path  # of Prefect
    looks: list[Look] = field(default_factory=list)
    ended: dict[int, tuple[str, float]] = field(default_factory=dict)  # role and seconds of every process so far

    def look(self) -> None:
        memory, files = dict[str, float](), dict[str, int]()
        with suppress(psutil.Error):  # it has just ended
            for process in [self.process, *self.process.children(recursive=True)]:
                with suppress(psutil.Error), process.oneshot():
                    role = _role(process, self.process.pid)
                    spent = process.cpu_times()
                    self.ended[process.pid] = role, spent.user + spent.system
                    memory[role] = memory.get(role, 0.0) + process.memory_info().rss / 2**20
                    files[role] = max(files.get(role, 0), process.num_fds())
        seconds = dict[str, float]()
        for role, spent in self.ended.values():
            seconds[role] = seconds.get(role, 0.0) + spent
        kept = sum(file.stat().st_size for file in self.home.glob("prefect.db*")) / 1024
        counts = _entries(self.out / "stages"), _entries(self.out / "videos")
        self.looks.append(Look(time.monotonic(), seconds, memory, files, *counts, kept))

    @property
    def working(self) -> list[Look]:
        """The looks from the first video on."""
        return [look for look in self.looks if look.tracked]

    @property
    def seconds(self) -> float:
        """Of all processors, from the first video on."""
        return _total(self.working[-1]) - _total(self.working[0])

    def during(self, counted: str) -> list[Look]:
        """The looks while some videos were tracked, or labeled, and others not yet; `counted` says which.

        The look that sees the last video begun may come half a second later, when the run is already at what follows.
        """
        return [look for look in self.looks if 0 < getattr(look, counted) < getattr(self.looks[-1], counted)]

    def pace(self, counted: str, clock: Callable[[Look], float]) -> float:
        """Time a video of the last hundred over that of the first hundred; `counted`: tracked or labeled."""
        seen = self.during(counted)
        done = np.array([getattr(look, counted) for look in seen])
        news = np.flatnonzero(np.diff(done, prepend=0))
        done, spent = done[news], np.array([clock(seen[at]) for at in news])
        part = min(PART, (done[-1] - done[0]) // 2)
        first = np.interp(done[0] + part, done, spent) - spent[0]
        return float((spent[-1] - np.interp(done[-1] - part, done, spent)) / first)

    def parts(self) -> dict[str, float]:
        """Where the seconds went, from the first video on: all of them, each once."""
        tracking, labeling = self.during("tracked"), self.during("labeled")
        ends = [tracking[0], tracking[-1], labeling[0], labeling[-1], self.looks[-1]]
        spent = np.diff([_total(look) for look in ends])
        return dict(zip(("tracking", "grouping", "labeling", "tables and summary"), map(float, spent), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=2000)
    parser.add_argument("--keep", type=Path, help="where to leave clips, stores and database")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        clips = make_clips(folder / "clips", arguments.videos)
        flow, plain = start(clips, folder / "flow", "--flow"), start(clips, folder / "plain")
        watch(flow, plain)
        missed = [line for line in figures(flow, plain, arguments.videos) if line.startswith("MISSED")]
    sys.exit(1 if missed else 0)


def make_clips(folder: Path, count: int) -> Path:
    """A folder of so many clips; each has bytes of its own, which players pass over."""
    kinds = [
        write_clip(folder.parent / "kinds" / f"{number}.mp4", FRAMES + number, SIDE, SIDE, FPS, 0, 1 + number % 2)
        for number in range(KINDS)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        box = (16).to_bytes(4) + b"free" + number.to_bytes(8)
        (folder / f"{number:06d}.mp4").write_bytes(kinds[number % KINDS].read_bytes() + box)
    return folder


def start(clips: Path, folder: Path, *options: str) -> Watched:
    """Begin to label with one worker."""
    folder.mkdir(parents=True, exist_ok=True)
    out, home = folder / "labels.zarr", folder / "prefect"
    command = [sys.executable, "-m", "flows.cli", "label", str(clips), "--out", str(out), "--workers", "1", *options]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    with (folder / "output.txt").open("w") as printed:
        process = psutil.Popen(
            command, stdout=printed, stderr=subprocess.STDOUT, env={**settings, "PREFECT_HOME": str(home)}
        )
    return Watched(process, out, home)


def watch(*runs: Watched) -> None:
    """Look at runs until all have ended."""
    while going := [run for run in runs if run.process.poll() is None]:
        for run in going:
            run.look()
        time.sleep(EVERY)


def figures(flow: Watched, plain: Watched, videos: int) -> list[str]:
    """Print what was measured, a line a figure; returns the lines."""
    lines = []

    def line(what: str, value: float, unit: str = "", limit: float | None = None) -> None:
        state = "" if limit is None else f"  (limit {limit:g})"
        verdict = "MISSED " if limit is not None and not value <= limit else ""
        lines.append(f"{verdict}{what}: {value:.4g}{unit}{state}")
        print(lines[-1], flush=True)

    for name, run in (("flow run", flow), ("plain Python", plain)):
        line(f"{name}, exit code", abs(run.process.wait()), limit=0)
        line(f"{name}, seconds of processors a video", run.seconds / videos, " s")
        span = run.working[-1].wall - run.working[0].wall
        line(f"{name}, videos an hour by the clock, one worker, beside the other run", 3600 * videos / span)
    for role in ("flow", "server", "worker"):
        spent = (flow.working[-1].seconds[role] - flow.working[0].seconds.get(role, 0.0)) / videos
        line(f"flow run, of it {role}", 1000 * spent, " ms a video")
    for name, spent in flow.parts().items():
        line(f"flow run, of it {name}", 1000 * spent / videos, " ms a video")
    line("overhead of the flow run over plain Python", flow.seconds / plain.seconds - 1, limit=OVERHEAD)
    for stage in ("tracked", "labeled"):
        line(f"time a video {stage}, last hundred over first hundred", flow.pace(stage, _total), limit=ALIKE)
        line("the same by the clock", flow.pace(stage, lambda look: look.wall))
        line("the same in plain Python, on which other programs have the same effect", plain.pace(stage, _total))
    for role, limit in MEMORY.items():
        line(f"memory of the {role}, most", most_memory(flow, role), " MiB")
        line(f"memory of the {role}, growth while videos are worked on", growth(flow, role), " MiB", limit)
    for role, limit in OPEN_FILES.items():
        line(f"open files of the {role}, most", max(look.files.get(role, 0) for look in flow.looks), limit=limit)
    line("Prefect's database", flow.looks[-1].database / 1024, " MiB")
    line("Prefect's database, growth per video", database_growth(flow) / videos, " KiB", DATABASE)
    files = [file for file in flow.out.rglob("*") if file.is_file()]
    line("store, files a video", len(files) / videos)
    line("store, KiB on the disk a video", sum(file.stat().st_blocks / 2 for file in flow.out.rglob("*")) / videos)
    return lines


def most_memory(run: Watched, role: str) -> float:
    return max(look.memory.get(role, 0.0) for look in run.looks)


def growth(run: Watched, role: str) -> float:
    """MiB that were added while videos were tracked, and while they were labeled.

    The first tenth of each does not count, as much is loaded then, and neither does the grouping in between.
    """
    tracking = [look for look in run.working if look.tracked < run.looks[-1].tracked]
    labeling = [look for look in run.looks if look.labeled]
    added = 0.0
    for stage in (tracking, labeling):
        seen = [look.memory[role] for look in stage if role in look.memory]
        early = max(seen[: 1 + len(seen) // 10])
        added += max(seen) - early
    return added


def database_growth(run: Watched) -> float:
    """KiB that Prefect's database has more than before the first video."""
    return run.looks[-1].database - run.working[0].database


def _role(process: psutil.Process, top: int) -> str:
    if process.pid == top:
        return "flow"
    return "worker" if "labeling.worker" in process.cmdline() else "server"


def _entries(folder: Path) -> int:
    with suppress(FileNotFoundError), os.scandir(folder) as found:
        return sum(entry.is_dir() for entry in found)
    return 0


def _total(look: Look) -> float:
    return sum(look.seconds.values())


if __name__ == "__main__":
    main()
