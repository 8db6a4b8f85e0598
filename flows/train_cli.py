"""The commands `spectrabox prepare`, `simulate`, `train` and `train-settings`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(rich_markup_mode="markdown", context_settings={"help_option_names": ["-h", "--help"]})

Out = Annotated[Path | None, typer.Option(metavar="DATASET", help="The dataset to write; a manifest knows its own.")]
Size = Annotated[
    int | None,
    typer.Option(
        min=8,
        max=2048,
        help="Height and width of the frames in pixels; else 64, simulated ones as drawn: 64 in nball, 224 elsewhere.",
    ),
]
Validation = Annotated[
    float | None, typer.Option(min=0, max=0.99, help="Share of the episodes that is held out; else 0.1.")
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace a dataset that was made of something else.")]
Workers = Annotated[
    int, typer.Option(min=0, help="Processes that play push_t, reacher or cube for a dataset; 0: one a core.")
]
Preset = Annotated[
    str | None,
    typer.Option(help="nball (default; days on a CPU), nball-cpu (10 to 15 minutes on a core), or lewm (224 pixels)."),
]


@app.command()
def prepare(
    source: Annotated[
        Path, typer.Argument(help="A label store, a manifest (.yaml), an HDF5 file, or a LeRobot v3 folder.")
    ],
    out: Out = None,
    videos: Annotated[Path | None, typer.Option(help="Where the videos are now, if not where they were.")] = None,
    store: Annotated[Path | None, typer.Option(help="The label store of a LeRobot folder's videos.")] = None,
    size: Size = None,
    letterbox: Annotated[
        bool | None, typer.Option("--letterbox/--stretch", help="Keep the aspect with black bars, or stretch.")
    ] = None,
    categories: Annotated[
        list[str] | None, typer.Option(help="Only this kind of objects; may be repeated. `other`: the rest.")
    ] = None,
    max_categories: Annotated[
        int | None, typer.Option(min=1, help="More kinds than this share a group; else 8.")
    ] = None,
    max_objects: Annotated[
        int | None, typer.Option(min=1, help="Objects of an episode that are kept; else 32.")
    ] = None,
    episode_frames: Annotated[int | None, typer.Option(min=0, help="Cut longer takes into episodes.")] = None,
    camera: Annotated[str | None, typer.Option(help="LeRobot: which camera; HDF5: which column.")] = None,
    validation: Validation = None,
    replace: Replace = False,
    workers: Workers = 0,
) -> None:
    """Join frames, boxes and actions into a dataset to train on.

    Actions are taken from beside each video (`clip.actions.npy`, `.csv` or `.parquet`); without any, an action-free
    model is trained. What cannot be used is left out and named. Stopped or killed, the same command goes on.

    Example: `spectrabox prepare labels.zarr --videos lab_camera --out lab.zarr --size 64`
    """
    from flows import train_console

    choice = {
        "size": size, "letterbox": letterbox, "categories": tuple(categories) if categories else None,
        "max_categories": max_categories, "max_objects": max_objects, "episode_frames": episode_frames,
        "camera": camera,
    }  # fmt: skip
    train_console.prepare(source, out, videos, store, choice, validation, replace, workers)


@app.command()
def simulate(
    environment: Annotated[
        str, typer.Argument(help="nball, two_room, push_t, reacher or cube; or a manifest (.yaml) that names one.")
    ],
    out: Out = None,
    videos: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write videos, actions and true boxes instead of a dataset.")
    ] = None,
    balls: Annotated[int | None, typer.Option(min=0, help="nball: white balls beside the red one; else 1.")] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="How many; else 20000, or 10 videos.")] = None,
    frames: Annotated[int | None, typer.Option(min=2, help="Frames in an episode; else 32, or 100 of a video.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Decides everything; else 0.")] = None,
    size: Size = None,
    validation: Validation = None,
    replace: Replace = False,
    workers: Workers = 0,
) -> None:
    """Play episodes of a simulator and write them as a dataset with exact boxes, states and actions.

    With `--videos` the labeling can be tried on them: `spectrabox label FOLDER`.

    Example: `spectrabox simulate nball --balls 1 --episodes 20000 --out nball-1.zarr`
    """
    from flows import train_console

    options = {"balls": balls, "episodes": episodes, "frames": frames, "seed": seed}
    train_console.simulate(environment, out, videos, size, validation, options, replace, workers)


@app.command()
def train(
    dataset: Annotated[Path, typer.Argument(help="What `spectrabox prepare` or `spectrabox simulate` wrote.")],
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder for checkpoints, metrics and curves.")] = Path("run"),
    preset: Preset = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file of settings, which count over the preset's.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="One setting, for example batch=64; may be repeated. The last word counts, also of epochs and steps.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the run's last checkpoint.")] = False,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to train.")] = "auto",
) -> None:
    """Train a world model with the Fourier auxiliary head.

    A run that was stopped goes on with `--resume`, to the same numbers. Several GPUs:
    `torchrun --nproc-per-node 2 -m flows.cli train DATASET`.

    Example: `spectrabox train nball-1.zarr --out runs/first --preset nball-cpu` (all: `spectrabox train-settings`)
    """
    from flows import train_console

    train_console.train(dataset, out, preset, config, set_ or [], resume, device)


@app.command("train-settings")
def train_settings(preset: Preset = None) -> None:
    """Print all settings of training with their values and what they do, as a file for `train --config`."""
    from flows.train_console import training_errors
    from training.config import as_yaml, load_config

    with training_errors():
        print(as_yaml(load_config(preset=preset)))
