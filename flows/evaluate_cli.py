"""The command `spectrabox evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(rich_markup_mode="markdown", context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A run of `spectrabox train`, or one of its checkpoints.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for figures and page; default: `evaluation` in the run.")
    ] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="The dataset, if it is not where it was; or another one, which is then said.")
    ] = None,
    which: Annotated[
        Literal["best", "last"], typer.Option(help="The checkpoint: best by validation loss, or last.")
    ] = "best",
    training: Annotated[
        bool, typer.Option("--on-training-episodes", help="Judge on episodes that it was trained on; marked so.")
    ] = False,
    starts: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Places from which plans are tried out in the simulator; 0: none. Else 100 in n-ball, 50 elsewhere, "
            "which takes 4 minutes (Push-T, Two Room, Reacher) to 8 (Cube) on one core.",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Of planning, each with starts of its own, counted together; the paper has 5.")
    ] = 1,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where it is judged.")] = "auto",
    flow: Annotated[bool, typer.Option("--flow", help="Run as a Prefect flow run.")] = False,
) -> None:
    """Judge a world model: what its latents know, how far ahead it sees, whether it plans, and a verdict in one line.

    It is judged on held-out episodes. Writes `evaluation.json`, a Markdown table, pictures, and a page with them all.

    Example: `spectrabox evaluate runs/lab`
    """
    from flows.evaluate_console import judge

    judge(run, out, dataset, which, training, starts, seeds, device, flow)
