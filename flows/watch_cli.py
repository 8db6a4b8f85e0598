"""The command `spectrabox watch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(rich_markup_mode="markdown", context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def watch(
    videos: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder that videos are dropped into; searched recursively.")
    ],
    out: Annotated[Path, typer.Option(help="The label store to write or to go on with.")] = Path("labels.zarr"),
    profile: Annotated[str | None, typer.Option(help="embedded, foundation or maskcut, as for `label`.")] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file of settings.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One setting, for example keep_static=true; may be repeated."),
    ] = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks at the folder.")] = 5,
    settle: Annotated[
        float, typer.Option(min=0, help="Seconds for which a video must not have changed: it may still be copied.")
    ] = 10,
    once: Annotated[bool, typer.Option("--once", help="End when everything that is there is labeled.")] = False,
    refit: Annotated[
        bool, typer.Option("--refit", help="Find categories anew when many tracks fit none; known ones keep their ids.")
    ] = False,
    pile: Annotated[int, typer.Option(min=1, help="So many tracks without a category are many,")] = 10,
    share: Annotated[float, typer.Option(min=0, max=1, help="if they are at least this share of all tracks.")] = 0.2,
    workers: Annotated[
        int, typer.Option(min=0, help="Videos labeled side by side; 0: one a core, with networks one.")
    ] = 0,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where models run; the embedded profile has none.")
    ] = "auto",
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds without progress after which a video is given up; 0: as it needs.")
    ] = 0,
) -> None:
    """Label videos as they are dropped into a folder, until Ctrl-C.

    Half-copied files are left until they are complete, changed ones are labeled anew, and the labels of videos that are
    gone are marked in the store, and kept. Between two batches the store is free for other commands.

    Example: `spectrabox watch inbox --out labels.zarr --refit`
    """
    from flows import watch_console

    habits = {"every": every, "settle": settle, "once": once, "refit": refit, "pile": pile, "share": share}
    watch_console.watch(videos, out, profile, config, set_ or [], habits, workers, device, patience)
