"""The commands `export` and `import`: each parses, calls one function, and prints what came back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def export(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A label store, for example labels.zarr.")],
    out: Annotated[Path, typer.Option(help="The file or folder to write.")],
    format: Annotated[
        str,
        typer.Option(help="coco, youtube-vis, mot, yolo, swm-hdf5, lerobot, csv or parquet; see docs/formats.md."),
    ] = "youtube-vis",
    videos: Annotated[Path | None, typer.Option(help="Where the videos are now, if not where they were.")] = None,
    pictures: Annotated[
        bool | None, typer.Option("--pictures/--no-pictures", help="Write the frames as jpg (coco, mot, yolo).")
    ] = None,
    validation: Annotated[float, typer.Option(min=0, max=0.99, help="Share of the videos that is held out.")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Decides which.")] = 0,
    dropped: Annotated[
        bool, typer.Option("--dropped", help="Also what was dropped, marked (coco, mot, csv, parquet).")
    ] = False,
    licence: Annotated[str, typer.Option(help="Of the videos, for example CC-BY-4.0; it goes along.")] = "",
    size: Annotated[int | None, typer.Option(min=8, max=4096, help="Stretch frames to a square (swm-hdf5).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an export that is there.")] = False,
) -> None:
    """Write the labels in a format that other tools read.

    Videos that cannot be exported are named and the rest goes on (exit code 1).

    Example: `spectrabox export labels.zarr --format yolo --out yolo --licence CC-BY-4.0`
    """
    from flows import formats_console

    choice = {
        "pictures": pictures, "validation": validation, "seed": seed, "dropped": dropped, "licence": licence,
        "size": size,
    }  # fmt: skip
    formats_console.export(store, format, out, choice, videos, force)


@app.command("import")
def import_(
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="A folder or gt.txt of MOTChallenge, or a JSON of COCO video.")
    ],
    videos: Annotated[Path, typer.Option(help="The folder of the videos that they are of.")],
    out: Annotated[Path, typer.Option(help="The label store to write.")] = Path("labels.zarr"),
    force: Annotated[bool, typer.Option("--force", help="Replace a store that was imported before.")] = False,
) -> None:
    """Make a label store of ground truth or of other tools' labels, to train on or to score against.

    Example: `spectrabox import MOT17/train --videos MOT17/train --out mot17.zarr`
    """
    from flows import formats_console

    formats_console.import_labels(labels, videos, out, force)
