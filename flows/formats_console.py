"""What a person sees of exports and imports at the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.markup import escape

from flows.console import plain_errors, progress_steps, terminal
from labeling.store import open_store


def export(
    store: Path, format: str, out: Path, choice: dict[str, Any], videos: Path | None, force: bool
) -> None:  # fmt: skip
    """Write the labels for another tool; exit code 1 if a video had to be left out."""
    with plain_errors():
        from labeling.export import ExportConfig
        from labeling.export import export as write

        with progress_steps("export") as step:
            made = write(open_store(store), format, out, ExportConfig(**choice), videos, force, step)
        _tell(made.notes, made.problems)
        terminal.print(f"{_videos(made.videos)} as {format}: {escape(str(made.path))}", soft_wrap=True)
        sys.exit(1 if made.problems else 0)


def import_labels(labels: Path, videos: Path, out: Path, force: bool) -> None:
    """Make a label store of other tools' labels; exit code 1 if a video had to be left out."""
    with plain_errors():
        from labeling.importing import import_labels as read

        with progress_steps("import") as step:
            made = read(labels, videos, out, force, step)
        _tell(made.notes, made.problems)
        terminal.print(
            f"{made.tracks} track{'' if made.tracks == 1 else 's'} of {_videos(made.videos)}: {escape(str(made.path))}",
            soft_wrap=True,
        )
        sys.exit(1 if made.problems else 0)


def _videos(count: int) -> str:
    return f"{count} video{'' if count == 1 else 's'}"


def _tell(notes: list[str], problems: dict[str, str]) -> None:
    for note in notes:
        terminal.print(escape(note), soft_wrap=True)
    for video, reason in problems.items():
        terminal.print(f"[red]left out[/] {escape(video)}: {escape(reason.removeprefix(f'{video} '))}", soft_wrap=True)
