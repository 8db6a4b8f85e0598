"""The flow `train-world-model`: a label store, manifest or dataset in, a trained world model out.

The same steps as `spectrabox prepare` and `spectrabox train`, as Prefect tasks: prepare, train, report.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from flows.artifacts import show_report, training_progress
from flows.listening import HeardBy
from flows.runners import gpu_turn
from flows.threads import sleeping_threads
from labeling.settings_files import ConfigError
from training.config import Device, TrainConfig
from training.dataset_format import DatasetError, NoDataset, open_dataset
from training.manifest import PrepareConfig, Split
from training.markdown import as_it_is
from training.settings import PresetName

if TYPE_CHECKING:
    from training.trainer import Listener

heard_by: HeardBy[Listener] = HeardBy()


@flow(name="train-world-model", flow_run_name="train {run}")
def train_world_model(
    source: Path,
    run: Path = Path("run"),
    dataset: Path | None = None,
    videos: Path | None = None,
    store: Path | None = None,
    prepare: PrepareConfig | None = None,
    split: Split | None = None,
    preset: PresetName | None = None,
    config: TrainConfig | None = None,
    resume: bool = False,
    device: Device = "auto",
    replace: bool = False,
) -> dict[str, Any]:
    """Prepare a dataset, train a world model on it, and report; the last values on the validation split.

    Args:
        source: A label store, manifest, HDF5 file or LeRobot folder; or a dataset that is ready.
        run: Folder for checkpoints, metrics, curves and report.
        dataset: Where the dataset goes; a manifest knows its own.
        videos: Where the videos are now, if not where they were.
        store: The label store of a LeRobot folder's videos.
        prepare: Size, categories and more of the dataset.
        split: Which episodes are held out.
        preset: Settings by name; not together with a config, which names its own.
        config: Settings; its preset fills in what is left out.
        resume: Go on from the run's last checkpoint.
        device: Where to train.
        replace: Replace a dataset that was made of something else.
    """
    if preset and config is not None:
        raise ConfigError("preset and config are both given: say the preset within config, or leave config out.")
    if preset:
        config = TrainConfig(preset=preset)
    ready = prepare_dataset(source, dataset, videos, store, prepare, split, replace)
    values = train_model(ready, run, config, resume, device, heard_by.listener)
    report(run)
    return values


@task(cache_policy=NO_CACHE, task_run_name="prepare {source}")
def prepare_dataset(
    source: Path, dataset: Path | None, videos: Path | None, store: Path | None, config: PrepareConfig | None,
    split: Split | None, replace: bool,
) -> Path:  # fmt: skip
    """Make the dataset, unless `source` is one; its path."""
    from training.prepare import prepare

    try:
        ready = open_dataset(source).path
    except NoDataset:
        return prepare(source, dataset, videos, config, split, store, replace=replace).path
    choices = {"dataset": dataset, "videos": videos, "store": store, "prepare": config, "split": split}
    given = [name for name, value in choices.items() if value is not None]
    if given:
        raise DatasetError(
            f"{source} is a dataset already, so {' and '.join(given)} cannot be used: leave them out, or name what it "
            "was made of as the source."
        )
    return ready


@task(cache_policy=NO_CACHE, task_run_name="train {run}")
def train_model(
    dataset: Path, run: Path, config: TrainConfig | None, resume: bool, device: Device, listener: Listener | None
) -> dict[str, Any]:
    """Train; the last values on the validation split."""
    sleeping_threads()
    from training.trainer import train

    with gpu_turn(device), training_progress(run, listener) as progress:
        return train(dataset, run, config, resume, device, progress).validation


@task(cache_policy=NO_CACHE, task_run_name="report {run}")
def report(run: Path) -> Path:
    """Write the report, and show it on the flow run's page."""
    from training.run_report import markdown, write_report

    page = write_report(run)
    create_markdown_artifact(markdown(run), key="train-world-model", description=f"World model: {as_it_is(str(run))}")
    show_report("train-world-model", page)
    return page
