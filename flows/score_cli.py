"""The command `spectrabox score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def score(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A label store, for example labels.zarr.")],
    truth: Annotated[
        Path,
        typer.Option(help="A label store, a folder of clips with JSON beside them, MOTChallenge or COCO video."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for figures and page.")] = Path("score"),
    videos: Annotated[Path | None, typer.Option(help="Where the videos are now, if not where they were.")] = None,
) -> None:
    """Judge labels by true boxes: HOTA, IDF1, AP, recall, changed identities, edge errors, categories.

    Writes `score.json`, and a page that shows the worst frames with both boxes. Clips that the store does not have
    count as missed. Exit code 1 means that some clips could not be judged: the list says which and why.

    Example: `spectrabox score labels.zarr --truth clips`
    """
    from flows import score_console

    score_console.score(store, truth, out, videos)
