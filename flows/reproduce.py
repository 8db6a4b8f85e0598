"""The flow `reproduce-paper`: trains and judges the cells of one of the paper's tables, and writes its page.

The same as `spectrabox reproduce`, with a Prefect task for each dataset and each cell.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture, as_completed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field, WithJsonSchema

from flows.artifacts import show_report
from flows.listening import HeardBy
from flows.runners import gpu_turn
from training.config import Device
from training.reproduction.beyond import BEYOND
from training.reproduction.cells import Cell, Data
from training.reproduction.page import markdown
from training.reproduction.run import Listener, Reproduction, shared
from training.reproduction.scale import ScaleName
from training.reproduction.tables import TABLES, build

heard_by: HeardBy[Listener] = HeardBy()


class JobFailed(Exception):
    """A dataset or cell failed; the message says why. The others go on."""


@flow(name="reproduce-paper", flow_run_name="reproduce {table} at {scale} scale")
def reproduce_paper(
    table: Annotated[str, WithJsonSchema({"type": "string", "enum": [*TABLES, *BEYOND]})],
    scale: ScaleName = "cpu",
    out: Path = Path("reproduction"),
    workers: Annotated[int, Field(ge=1)] = 2,
    device: Device = "auto",
    videos: Path | None = None,
    only: str = "",
) -> dict[str, str]:
    """Train and judge what is left of one of the paper's tables; why cells failed, by their label.

    Args:
        table: Which table; `spectrabox reproduce --list` says what they are about.
        scale: cpu: at most three hours on two cores, with reductions; paper: its sizes, for a GPU.
        out: Folder for datasets, runs and pages; tables share what they can.
        workers: Cells side by side, each in a process of its own; before them, processes that make datasets.
        device: Where to train and judge.
        videos: For real-clips: videos with true boxes beside them, NAME.mp4 and NAME.json.
        only: Only cells with this text in their name, as `3-Balls` or `seed 0`.
    """
    this = Reproduction(build(table, scale, videos), out, device, heard_by.listener, only)
    if this.table.needs:
        raise JobFailed(this.table.needs)
    cells, data = this.cells, this.data
    this.listener.planned(len(cells) + len(data))
    failures: dict[str, str] = {}
    runner: ThreadPoolTaskRunner[None] = ThreadPoolTaskRunner(max_workers=workers)
    with runner:
        try:
            each = shared(workers, len(data))
            making = {one: runner.submit(make_dataset, {"this": this, "data": one, "workers": each}) for one in data}
            made = {one: _why(future) for one, future in making.items()}
            running: dict[PrefectFuture[None], Cell] = {
                runner.submit(run_cell, {"this": this, "cell": cell, "lacks": this.lacks(cell, made)}): cell
                for cell in cells
            }
            for future in as_completed(list(running)):
                if reason := _why(future):
                    failures[running[future].label] = reason
                this.write()
        except BaseException:
            this.stop()  # or the runner would wait for them
            raise
    publish(this)
    return failures


@task(cache_policy=NO_CACHE, task_run_name="make {data.name}")
def make_dataset(this: Reproduction, data: Data, workers: int) -> None:
    """Make a dataset."""
    if reason := this.make(data, workers):
        raise JobFailed(reason)


@task(cache_policy=NO_CACHE, task_run_name="{cell.label}")
def run_cell(this: Reproduction, cell: Cell, lacks: str = "") -> None:
    """Train and judge a cell, unless it `lacks` a dataset: then this says why."""
    with gpu_turn(this.device):
        reason = this.run(cell, lacks)
    if reason:
        raise JobFailed(reason)


def publish(this: Reproduction) -> None:
    """Write the page, and show the table on the flow run's."""
    page = this.write()
    create_markdown_artifact(markdown(this.table, this.folder), key="reproduce-paper")
    show_report("reproduce-paper", page)


def _why(future: PrefectFuture[None]) -> str:
    try:
        future.result()
    except JobFailed as error:
        return str(error)
    return ""
