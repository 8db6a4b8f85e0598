"""The flow `reproduce-table`: trains and judges the cells of one of the paper's tables, and writes its page.

The same as `spectrabox reproduce`, with a Prefect task for each dataset and each cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture, as_completed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from training.config import Device
from training.reproduction.cells import Cell, Data
from training.reproduction.jobs import stop_all
from training.reproduction.page import markdown
from training.reproduction.run import Listener, Reproduction
from training.reproduction.scale import ScaleName
from training.reproduction.tables import build

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


class JobFailed(Exception):
    """A dataset or cell failed; the message says why. The others go on."""


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Let `listener` hear of the progress of flow runs in this process."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@flow(name="reproduce-table", flow_run_name="reproduce {table} at {scale} scale")
def reproduce_table(
    table: Annotated[str, Field(description="Which table; `spectrabox reproduce --list` names them.")],
    scale: Annotated[ScaleName, Field(description="cpu: three hours on two cores; paper: its sizes.")] = "cpu",
    out: Annotated[Path, Field(description="Folder for datasets, runs and pages; tables share it.")] = Path("tables"),
    workers: Annotated[int, Field(ge=1, description="Cells side by side, each in a process of its own.")] = 2,
    device: Annotated[Device, Field(description="Where to train.")] = "auto",
    videos: Annotated[Path | None, Field(description="Clips with true boxes, which real-clips asks for.")] = None,
) -> dict[str, str]:
    """Run what is left of a table; why cells failed, by their label."""
    this = Reproduction(build(table, scale, videos), out, device, _listener.get())
    if this.table.needs:
        raise JobFailed(this.table.needs)
    cells, data = this.cells, this.data
    this.listener.planned(len(cells) + len(data))
    failures: dict[str, str] = {}
    runner: ThreadPoolTaskRunner[None] = ThreadPoolTaskRunner(max_workers=workers)
    with runner:
        try:
            for made in [runner.submit(make_dataset, {"this": this, "data": one}) for one in data]:
                _why(made)  # its cells will say it again
            running: dict[PrefectFuture[None], Cell] = {
                runner.submit(run_cell, {"this": this, "cell": cell}): cell for cell in cells
            }
            for future in as_completed(list(running)):
                if reason := _why(future):
                    failures[running[future].label] = reason
                this.write()
        except BaseException:
            stop_all()  # or the runner would wait for them
            raise
    publish(this)
    return failures


@task(cache_policy=NO_CACHE, task_run_name="make {data.name}")
def make_dataset(this: Reproduction, data: Data) -> None:
    """Make a dataset."""
    if reason := this.make(data):
        raise JobFailed(reason)


@task(cache_policy=NO_CACHE, task_run_name="{cell.label}")
def run_cell(this: Reproduction, cell: Cell) -> None:
    """Train and judge a cell."""
    if reason := this.run(cell):
        raise JobFailed(reason)


def publish(this: Reproduction) -> None:
    """Write the page, and show the table on the flow run's."""
    page = this.write()
    create_markdown_artifact(markdown(this.table, this.folder), key="reproduce-table", description=f"Page: {page}")


def _why(future: PrefectFuture[None]) -> str:
    try:
        future.result()
    except JobFailed as error:
        return str(error)
    return ""
