"""The flow `train-world-model`: a label store, manifest or dataset in, a trained world model out.

The same steps as `spectrabox prepare` and `spectrabox train`, as Prefect tasks: prepare, train, report.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from pydantic import Field

from flows.listening import HeardBy
from flows.threads import sleeping_threads
from training.config import Device, TrainConfig
from training.dataset_format import DatasetError, open_dataset
from training.manifest import PrepareConfig, Split
from training.settings import PresetName

if TYPE_CHECKING:
    from training.trainer import Listener

heard_by: HeardBy[Listener] = HeardBy()


@flow(name="train-world-model", flow_run_name="train {run}")
def train_world_model(
    source: Annotated[
        Path, Field(description="A label store, manifest, HDF5 file or LeRobot folder; or a dataset that is ready.")
    ],
    run: Annotated[Path, Field(description="Folder for checkpoints, metrics, curves and report.")] = Path("run"),
    dataset: Annotated[Path | None, Field(description="Where the dataset goes; a manifest knows its own.")] = None,
    videos: Annotated[Path | None, Field(description="Where the videos are now, if not where they were.")] = None,
    store: Annotated[Path | None, Field(description="The label store of a LeRobot folder's videos.")] = None,
    prepare: Annotated[PrepareConfig | None, Field(description="Size, categories and more of the dataset.")] = None,
    split: Annotated[Split | None, Field(description="Which episodes are held out.")] = None,
    preset: Annotated[PresetName | None, Field(description="Settings by name, where there is no config.")] = None,
    config: Annotated[TrainConfig | None, Field(description="Settings; a preset fills in what is left out.")] = None,
    resume: Annotated[bool, Field(description="Go on from the run's last checkpoint.")] = False,
    device: Annotated[Device, Field(description="Where to train.")] = "auto",
) -> dict[str, Any]:  # fmt: skip
    """Prepare a dataset, train a world model on it, and report; the last values on the validation split."""
    if preset and config is None:
        config = TrainConfig(preset=preset)
    ready = prepare_dataset(source, dataset, videos, store, prepare, split)
    values = train_model(ready, run, config, resume, device, heard_by.listener)
    report(run)
    return values


@task(cache_policy=NO_CACHE, task_run_name="prepare {source}")
def prepare_dataset(
    source: Path, dataset: Path | None, videos: Path | None, store: Path | None, config: PrepareConfig | None,
    split: Split | None,
) -> Path:  # fmt: skip
    """Make the dataset, unless `source` is one; its path."""
    from training.prepare import prepare

    try:
        return open_dataset(source).path
    except DatasetError:
        return prepare(source, dataset, videos, config, split, store).path


@task(cache_policy=NO_CACHE, task_run_name="train {run}")
def train_model(
    dataset: Path, run: Path, config: TrainConfig | None, resume: bool, device: Device, listener: Listener | None
) -> dict[str, Any]:
    """Train; the last values on the validation split."""
    sleeping_threads()
    from training.trainer import train

    return train(dataset, run, config, resume, device, listener).validation


@task(cache_policy=NO_CACHE, task_run_name="report {run}")
def report(run: Path) -> Path:
    """Write the report, and show it on the flow run's page."""
    from training.run_report import markdown, write_report

    create_markdown_artifact(markdown(run), key="train-world-model", description=f"World model: {run}")
    return write_report(run)
