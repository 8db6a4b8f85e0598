"""The command `spectrabox reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(rich_markup_mode="markdown", context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def reproduce(
    table: Annotated[str | None, typer.Argument(help="One of the tables that --list names.")] = None,
    scale: Annotated[
        Literal["cpu", "paper"],
        typer.Option(help="cpu: at most three hours on two cores, with reductions; paper: its sizes, for a GPU."),
    ] = "cpu",
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for datasets, runs and pages; tables share what they can.")
    ] = Path("reproduction"),
    workers: Annotated[
        int,
        typer.Option(
            min=1, help="Cells side by side, each in a process of its own; before them, processes that make datasets."
        ),
    ] = 2,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to train and judge.")] = "auto",
    videos: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="For real-clips: videos with true boxes beside them, NAME.mp4 and NAME.json."),
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="TEXT", help="Only cells with this text in their name, as `3-Balls` or `seed 0`.")
    ] = "",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say what would be trained, how it is reduced, and how long it takes."),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Name the tables, with their minutes, and exit.")] = False,
    flow: Annotated[bool, typer.Option("--flow", help="Run as a Prefect flow run.")] = False,
) -> None:
    """Train and judge what one of the paper's tables needs, and put our numbers beside the paper's.

    A run that was stopped goes on where it was. A cell that fails does not stop the others: the page says why, the exit
    code is 1, and the next run tries it again. The page, `DIR/TABLE-SCALE.html`, is written anew after each cell.

    Example: `spectrabox reproduce nball-success --dry-run`, then the same without `--dry-run`.
    """
    from flows import reproduce_console

    if list_ or table is None:
        reproduce_console.name_tables(scale, workers)
    elif dry_run:
        reproduce_console.preview(table, scale, out, workers, videos, only)
    else:
        reproduce_console.reproduce(table, scale, out, workers, device, flow, videos, only)
