"""The `spectrabox weights` commands: which checkpoints there are, getting, checking and removing them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from labeling.downloads import Progress

app = typer.Typer(
    help="Checkpoints of the foundation profile: which there are, their licences, where they are.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name of `spectrabox weights list`, or of the hub.")]
Folder = Annotated[Path | None, typer.Option("--folder", help="Where weights are kept, if not in the user's cache.")]


@app.command("list")
def list_weights(folder: Folder = None) -> None:
    """Print the known checkpoints with size, licence, and whether they are on this machine."""
    from rich.markup import escape
    from rich.table import Column, Table

    from flows.console import plain_errors, terminal
    from labeling.weights import cache_folder, listing

    with plain_errors():
        table = Table(Column("name", no_wrap=True), "size", Column("licence", overflow="fold"), "here")
        for line in listing(folder):
            one, here = line.checkpoint, "[green]yes[/]" if line.path else "no"
            table.add_row(escape(one.name), one.size.replace("about ", "~"), escape(one.licence), here)
        terminal.print(table)
        terminal.print(f"Folder: {escape(str(cache_folder(folder)))}", soft_wrap=True)


@app.command()
def fetch(name: Name, folder: Folder = None) -> None:
    """Download a checkpoint and check its hash; a broken download goes on where it stopped.

    Any repository of the Hugging Face hub with a `config.json` and safetensors may be named too.
    """
    from rich.markup import escape

    from flows.console import plain_errors, terminal
    from labeling import weights

    with plain_errors():
        with _bytes_bar() as progress:
            found = weights.fetch(name, folder, progress)
        known = weights.KNOWN.get(name)
        if known is not None:
            terminal.print(f"Licence: {escape(known.licence)}; see {escape(known.home)}", soft_wrap=True)
        terminal.print(f"{escape(str(found.path))}\nSHA-256 {found.sha256}", soft_wrap=True)


@app.command()
def add(
    name: Name,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A checkpoint file, or a folder with safetensors.")],
    folder: Folder = None,
    link: Annotated[bool, typer.Option("--link", help="Point to the files instead of copying them.")] = False,
) -> None:
    """Take a checkpoint from disk under this name, for machines without a network."""
    from rich.markup import escape

    from flows.console import plain_errors, terminal
    from labeling import weights

    with plain_errors():
        found = weights.add(name, path, folder, link)
        terminal.print(f"{escape(str(found.path))}\nSHA-256 {found.sha256}", soft_wrap=True)


@app.command()
def verify(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this one; else all.")] = None,
    folder: Folder = None,
) -> None:
    """Read every byte of the checkpoints on this machine and compare their hashes; exit code 1 if one is wrong."""
    from rich.markup import escape

    from flows.console import plain_errors, terminal
    from labeling import weights

    with plain_errors():
        findings = weights.verify(name, folder)
        for finding in findings:
            verdict = (
                f"[red]wrong[/] {escape(finding.problem)}" if finding.problem else f"[green]good[/]  {finding.name}"
            )
            terminal.print(verdict, soft_wrap=True)
        if not findings:
            terminal.print(f"No weights in {escape(str(weights.cache_folder(folder)))}", soft_wrap=True)
        raise typer.Exit(1 if any(finding.problem for finding in findings) else 0)


@app.command()
def remove(name: Name, folder: Folder = None) -> None:
    """Delete a checkpoint from this machine, also one whose download broke off; says how much room that makes."""
    from rich.filesize import decimal
    from rich.markup import escape

    from flows.console import plain_errors, terminal
    from labeling import weights

    with plain_errors():
        freed = weights.remove(name, folder)
        terminal.print(f"Removed {escape(name)}: {decimal(freed)} freed.", soft_wrap=True)


@contextmanager
def _bytes_bar() -> Iterator[Progress]:
    """A progress bar that is told what it is at, how many bytes are here, and how many there will be."""
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from flows.console import errors

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        job = bar.add_task("asking", total=None)
        yield lambda what, done, total: bar.update(job, description=escape(what), completed=done, total=total or None)
