"""The flow `watch-folder`: videos are labeled as they are dropped into a folder, by a run that does not end.

What a batch needs is done by the tasks of `label-videos`; between two batches the run waits, and the store is free.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prefect import flow, get_run_logger
from pydantic import Field

from flows.artifacts import labeling_progress, show_table
from flows.label_videos import in_tasks
from flows.runners import RunnerName, make_runner
from labeling.config import LabelConfig
from labeling.profiles import Device, ProfileName
from labeling.run import LabelRun, Summary, side_by_side
from labeling.watching import Habits, Watcher


@flow(name="watch-folder", flow_run_name="watch {videos}")
def watch_folder(
    videos: Path,
    out: Path = Path("labels.zarr"),
    profile: ProfileName | None = None,
    config: LabelConfig | None = None,
    every: Annotated[float, Field(ge=0.1)] = 5.0,
    settle: Annotated[float, Field(ge=0)] = 10.0,
    once: bool = False,
    refit: bool = False,
    pile: Annotated[int, Field(ge=1)] = 10,
    share: Annotated[float, Field(ge=0, le=1)] = 0.2,
    workers: Annotated[int, Field(ge=0)] = 0,
    device: Device = "auto",
    runner: RunnerName = "threads",
    address: str | None = None,
    patience: Annotated[float, Field(ge=0)] = 0.0,
) -> str:
    """Label videos as they are dropped into a folder, until the run is cancelled.

    Args:
        videos: The folder that videos are dropped into, searched recursively.
        out: The label store to write or to go on with.
        profile: Which backends to use; embedded needs no weights and no GPU.
        config: Settings; what is left out keeps its default.
        every: Seconds between two looks at the folder.
        settle: Seconds for which a video must not have changed; it may still be copied.
        once: End when everything that is there is labeled.
        refit: Find the categories anew when many tracks fit none; those that persist keep their ids.
        pile: So many tracks without a category are many, if they are also a large share of all tracks.
        share: The share, from 0 to 1, that is large.
        workers: Videos side by side; 0: one a core, with networks one.
        device: Where models run.
        runner: Where videos are worked on: threads or processes of this machine, or a Dask cluster.
        address: Of the Dask cluster's scheduler, like tcp://10.0.0.1:8786; none: a cluster on this machine.
        patience: Seconds without progress after which a video is given up; 0: 300, with networks 3600.
    """
    config = config or LabelConfig()
    if profile:
        config = config.model_copy(update={"profile": profile})
    log = get_run_logger()

    def say(text: str, problem: bool) -> None:
        (log.warning if problem else log.info)("%s", text)

    with make_runner(runner, side_by_side(config, workers), address) as tasks:

        def do(run: LabelRun) -> Summary:
            with labeling_progress("watch-folder", videos, None) as listener:
                summary = in_tasks(run, tasks, listener)
            if summary.outcomes:
                show_table("watch-folder", summary)
            return summary

        habits = Habits(every, settle, once, refit, pile, share)
        watcher = Watcher(videos, out, config, habits, device, patience, do, say)
        watcher.run()
    say(watcher.account, False)
    return watcher.account
