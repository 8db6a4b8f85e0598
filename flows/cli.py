"""The `spectrabox` command: each subcommand parses, calls one function, and prints what came back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from flows import evaluate_cli, reproduce_cli, train_cli, weights_cli

app = typer.Typer(
    help="Drop a folder of videos in, get tracked boxes out, train a world model on them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(train_cli.app)
app.add_typer(evaluate_cli.app)
app.add_typer(reproduce_cli.app)
app.add_typer(weights_cli.app, name="weights")


@app.callback(invoke_without_command=True)
def spectrabox(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    """Drop a folder of videos in, get tracked boxes out, train a world model on them."""
    if version:
        from importlib.metadata import version as installed

        print(f"spectrabox {installed('spectrabox')}")
        raise typer.Exit


StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="A label store, for example labels.zarr.")]
VideosOption = Annotated[
    Path | None, typer.Option("--videos", help="Where the videos are now, if not where they were labeled.")
]


@app.command()
def label(
    videos: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder of videos (searched recursively), or one video.")
    ],
    out: Annotated[Path, typer.Option(help="The label store to write or to go on with.")] = Path("labels.zarr"),
    profile: Annotated[
        str | None,
        typer.Option(help="embedded (no weights, no GPU), foundation, or maskcut (both need weights; a GPU helps)."),
    ] = None,
    proposals: Annotated[str | None, typer.Option(help="In its place: motion, videocutler or maskcut.")] = None,
    embeddings: Annotated[str | None, typer.Option(help="In its place: appearance or dinov2.")] = None,
    tracker: Annotated[
        str | None, typer.Option(help="In its place: association, sam2, sam3, edgetam or sam2-native.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file of settings.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One setting, for example keep_static=true; may be repeated."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Videos labeled side by side; 0: one a core, with networks one.")
    ] = 0,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where models run; the embedded profile has none.")
    ] = "auto",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first video that fails.")] = False,
    refit: Annotated[bool, typer.Option("--refit", help="Find the categories anew.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove the labels of videos that are gone.")] = False,
    flow: Annotated[bool, typer.Option("--flow", help="Run as a Prefect flow run.")] = False,
) -> None:
    """Label a folder of videos with tracked, categorised boxes.

    A run that was stopped goes on where it was; videos that are labeled already are left alone. Exit code 1 means that
    some videos failed: the table says which and why.

    Example: `spectrabox label lab_camera --out flies.zarr --set keep_static=true` (all settings: `spectrabox settings`)
    """
    from flows import console

    choice = {"profile": profile, "proposals": proposals, "embeddings": embeddings, "tracker": tracker}
    console.label(videos, out, choice, config, set_ or [], workers, device, strict, refit, prune, flow)


@app.command()
def settings() -> None:
    """Print all settings with their defaults and what they do, as a file for `label --config`."""
    from labeling.config import as_yaml

    print(as_yaml())


@app.command()
def show(store: StorePath) -> None:
    """Print what a label store holds: videos, categories, failures."""
    from flows import console

    console.show(store)


@app.command()
def validate(store: StorePath) -> None:
    """Check a label store and name everything that is wrong with it; exit code 1 if anything is."""
    from flows import console

    console.validate(store)


@app.command()
def overlay(
    store: StorePath,
    out: Annotated[Path, typer.Option(help="Folder for the pictures in motion.")] = Path("overlays"),
    videos: VideosOption = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this video; may be repeated.")] = None,
) -> None:
    """Write each video as mp4 with boxes, ids, category colours and trails."""
    from flows import console

    console.overlay(store, out, videos, only or [])


@app.command()
def report(
    store: StorePath,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("report"),
    videos: VideosOption = None,
) -> None:
    """Write a self-contained HTML report: frames, categories, timelines, drops with reasons."""
    from flows import console

    console.report(store, out, videos)


@app.command()
def export(
    store: StorePath,
    out: Annotated[Path, typer.Option(help="The file to write.")],
    format: Annotated[str, typer.Option(help="youtube-vis: one JSON with boxes and masks per frame.")] = "youtube-vis",
) -> None:
    """Write the labels in a format that other tools read."""
    from flows import console

    console.export(store, format, out)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where the demo puts all that it makes.")] = Path("demo"),
) -> None:
    """Make a few videos, label them through the Prefect flow, write a report, and train a small world model."""
    from flows.demo import run_demo

    run_demo(folder)


def main() -> None:
    """The command; stops without a traceback when it is interrupted, be it while packages are still loading."""
    try:
        app()
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
