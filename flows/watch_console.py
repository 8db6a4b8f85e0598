"""What a person sees while a folder is watched: a line for everything that happens, and an account in the end."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.markup import escape

from flows.console import FrameBar, errors, plain_errors, terminal
from labeling.config import load_config
from labeling.profiles import Device
from labeling.run import LabelRun, Summary, carry_out
from labeling.watching import Habits, Watcher


def watch(
    videos: Path, out: Path, profile: str | None, file: Path | None, settings: list[str], habits: dict[str, Any],
    workers: int, device: Device, patience: float,
) -> None:  # fmt: skip
    """Watch a folder until Ctrl-C, or until all is labeled; exit code 1 if videos that are there could not be."""

    def do(run: LabelRun) -> Summary:
        if not errors.is_terminal:
            return carry_out(run, workers)
        with FrameBar() as bar:
            return carry_out(run, workers, bar)

    with plain_errors(goes_on=True):
        config = load_config(file, settings, profile=profile)
        watcher = Watcher(videos, out, config, Habits(**habits), device, patience, do, say)
        terminal.print(f"Watching {escape(str(videos))}. Stop with Ctrl-C.", soft_wrap=True)
        try:
            watcher.run()
        except KeyboardInterrupt:
            terminal.print("\nStopped.")
        terminal.print(f"{watcher.account}. Labels: {escape(str(watcher.out))}", soft_wrap=True)
        sys.exit(1 if habits["once"] and watcher.failures else 0)


def say(text: str, problem: bool) -> None:
    """Print what happened, and when."""
    style = "yellow" if problem else "default"
    terminal.print(f"[dim]{datetime.now():%H:%M:%S}[/] [{style}]{escape(text)}[/]", soft_wrap=True, highlight=False)
