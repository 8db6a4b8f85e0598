"""The flow `evaluate-world-model`: a run in, figures, a verdict and a page out.

The same as `spectrabox evaluate`, as a Prefect task; the verdict and the tables are shown on the flow run's page.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from pydantic import Field

from flows.artifacts import show_report
from flows.listening import HeardBy
from flows.runners import gpu_turn
from flows.threads import sleeping_threads
from training.config import CheckpointName, Device

if TYPE_CHECKING:
    from training.evaluation.evaluate import Evaluation
    from training.evaluation.latents import Say

heard_by: HeardBy[Say] = HeardBy()


@flow(name="evaluate-world-model", flow_run_name="evaluate {run}")
def evaluate_world_model(
    run: Path,
    out: Path | None = None,
    dataset: Path | None = None,
    which: CheckpointName = "best",
    on_training_episodes: bool = False,
    starts: Annotated[int, Field(ge=0)] | None = None,
    device: Device = "auto",
    seeds: Annotated[int, Field(ge=1)] = 1,
) -> tuple[Any, Path]:  # an Evaluation, whose module would load torch with this one
    """Judge a world model: what its latents know, how far ahead it sees, whether it plans; the figures and their page.

    Args:
        run: A run of train-world-model, or one of its checkpoints.
        out: Folder for figures and page; none: `evaluation` in the run.
        dataset: The dataset, if it is not where it was; or another one, which is then said.
        which: The checkpoint: best by validation loss, or last.
        on_training_episodes: Judge on episodes that it was trained on; marked so.
        starts: Places from which plans are tried out in the simulator; 0: none. Else 100 in n-ball, 50 elsewhere.
        device: Where it is judged.
        seeds: Of planning, each with starts of its own; the paper has 5.
    """
    found, page = judge(run, out, dataset, which, on_training_episodes, starts, device, seeds, heard_by.listener)
    show(found, page)
    return found, page


@task(cache_policy=NO_CACHE, task_run_name="judge {run}")
def judge(
    run: Path, out: Path | None, dataset: Path | None, which: CheckpointName, training: bool, starts: int | None,
    device: Device, seeds: int, say: Say | None,
) -> tuple[Evaluation, Path]:  # fmt: skip
    """Probes, distances, imagined steps and plans; the figures and the path of their page."""
    sleeping_threads()
    from training.evaluation.run import evaluate_run

    with gpu_turn(device):
        return evaluate_run(run, out, dataset, which, training, starts, device, say, seeds)


def show(found: Evaluation, page: Path) -> None:
    """The verdict and the tables, and where the page is."""
    from training.evaluation.page import markdown

    create_markdown_artifact(markdown(found), key="evaluate-world-model")
    show_report("evaluate-world-model", page)
