"""The `spectrabox` command: each subcommand parses, calls one function, and prints what came back."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from flows import evaluate_cli, formats_cli, reproduce_cli, review_cli, score_cli, train_cli, watch_cli, weights_cli

app = typer.Typer(
    help="Drop a folder of videos in, get tracked boxes out, train a world model on them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(formats_cli.app)
app.add_typer(score_cli.app)
app.add_typer(review_cli.app)
app.add_typer(watch_cli.app)
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
    refit: Annotated[
        bool, typer.Option("--refit", help="Find the categories anew; those that persist keep their ids.")
    ] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove the labels of videos that are gone.")] = False,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds without progress after which a video is given up; 0: as it needs.")
    ] = 0,
    flow: Annotated[bool, typer.Option("--flow", help="Run as a Prefect flow run.")] = False,
    runner: Annotated[
        Literal["threads", "processes", "dask"], typer.Option(help="Where a flow run works on its videos.")
    ] = "threads",
    address: Annotated[
        str | None, typer.Option(help="A Dask scheduler, like tcp://10.0.0.1:8786; none: a cluster on this machine.")
    ] = None,
) -> None:
    """Label a folder of videos with tracked, categorised boxes.

    A run that was stopped goes on where it was; videos that are labeled already are left alone. Exit code 1 means that
    some videos failed: the table says which and why.

    Example: `spectrabox label lab_camera --out flies.zarr --set keep_static=true` (all settings: `spectrabox settings`)
    """
    from flows import console

    choice = {"profile": profile, "proposals": proposals, "embeddings": embeddings, "tracker": tracker}
    console.label(
        videos, out, choice, config, set_ or [], workers, device, strict, refit, prune, flow, runner, address, patience
    )


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
def migrate(store: StorePath) -> None:
    """Bring a label store of an older version up to date; labels stay as they are, and a kill does no harm."""
    from flows import console

    console.migrate(store)


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
def serve(
    host: Annotated[
        str, typer.Option(help="Who may reach the server; 0.0.0.0: everybody, with a warning.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where the server and its page are.")] = 4200,
    limit: Annotated[int, typer.Option(min=1, help="Runs side by side; the others wait.")] = 4,
) -> None:
    """Start a Prefect server with a page, and carry out what is run there: label-videos, train-world-model and more.

    With PREFECT_API_URL set, that server is used. Relative paths are taken from the folder that this is started in.

    Example: `prefect deployment run label-videos/label-videos --param videos=lab_camera --watch` in another terminal
    """
    from flows import serve

    serve.serve(host, port, limit)


@app.command()
def doctor(
    folder: Annotated[Path, typer.Argument(help="Where labels, datasets and runs will go.")] = Path(),
    weights: Annotated[
        Path | None, typer.Option("--weights", metavar="FOLDER", help="Where weights are kept, if not in the cache.")
    ] = None,
) -> None:
    """Look whether this machine has all that is needed, and say what to do where it has not; exit code 1 then.

    Decodes a small clip in each container, computes with torch, draws with OpenGL, reads the weights that are here,
    asks the Prefect server that is chosen, and writes to the disk. Nothing is fetched, and what is written is removed.
    """
    from flows import doctor

    raise typer.Exit(0 if doctor.report(folder, weights) else 1)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where the demo puts all that it makes.")] = Path("demo"),
) -> None:
    """Make a few videos, label them through the Prefect flow, write a report, and train a small world model."""
    from flows.demo import run_demo

    run_demo(folder)


def main() -> None:
    """The command; stops without a traceback when it is interrupted, be it while packages are still loading."""
    # Processes that are started would else import Python files from the folder that the user stands in.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        app()
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
