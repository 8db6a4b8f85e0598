"""The command `review`: it parses, calls one function, and prints what came back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def review(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A label store, for example labels.zarr.")],
    videos: Annotated[Path | None, typer.Option(help="Where the videos are now, if not where they were.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is; 0: at any that is free.")] = 4300,
    host: Annotated[
        str, typer.Option(help="Who may reach the page; 0.0.0.0: everybody, with a warning.")
    ] = "127.0.0.1",
    author: Annotated[str, typer.Option(help="Your name, for those who look at the edits later.")] = "",
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Look at the labels in the browser and set right what is wrong, by mouse or by keyboard.

    Every edit is saved to the store at once and can be undone; the automatic labels stay as they are. All other
    commands use the reviewed labels.

    Example: `spectrabox review labels.zarr --author Ada`
    """
    from flows import review_console

    review_console.review(store, videos, host, port, author, open_)
