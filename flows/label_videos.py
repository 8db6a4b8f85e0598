"""The flow `label-videos`: a folder of videos in, a label store out.

The same steps as `spectrabox label`, as Prefect tasks: track each video, find the categories, label each video.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import TaskRunner
from pydantic import Field

from flows.artifacts import labeling_progress, show_labels, show_report
from flows.listening import HeardBy
from flows.runners import RunnerName, gpu_turn, lot_name, lots, make_runner, results
from labeling.config import LabelConfig
from labeling.jobs import Done, Job
from labeling.locks import writing
from labeling.places import Place
from labeling.profiles import Device, ProfileName, has_networks
from labeling.run import LabelRun, Listener, Summary, side_by_side
from labeling.store import open_store
from labeling.work import work

heard_by: HeardBy[Listener] = HeardBy()


@flow(name="label-videos", flow_run_name="label {videos}")
def label_videos(
    videos: Path,
    out: Path = Path("labels.zarr"),
    profile: ProfileName | None = None,
    config: LabelConfig | None = None,
    workers: Annotated[int, Field(ge=0)] = 0,
    device: Device = "auto",
    strict: bool = False,
    refit: bool = False,
    prune: bool = False,
    report: Path | None = None,
    runner: RunnerName = "threads",
    address: str | None = None,
    patience: Annotated[float, Field(ge=0)] = 0.0,
) -> Summary:
    """Label a folder of videos with tracked, categorised boxes; goes on where an earlier run stopped.

    Args:
        videos: A folder of videos, searched recursively, or one video.
        out: The label store to write or to go on with.
        profile: Which backends to use; embedded needs no weights and no GPU.
        config: Settings; what is left out keeps its default.
        workers: Videos side by side; 0: one a core, with networks one.
        device: Where models run.
        strict: Stop at the first video that fails.
        refit: Find the categories anew; those that persist keep their ids.
        prune: Remove the labels of videos that are no longer there.
        report: Folder for an HTML report with pictures; none: no report is written.
        runner: Where videos are worked on: threads or processes of this machine, or a Dask cluster.
        address: Of the Dask cluster's scheduler, like tcp://10.0.0.1:8786; none: a cluster on this machine.
        patience: Seconds without progress after which a video is given up; 0: 300, with networks 3600.
    """
    config = config or LabelConfig()
    if profile:
        config = config.model_copy(update={"profile": profile})
    with (
        LabelRun(videos, out, config, strict, refit, device, prune, patience) as run,
        labeling_progress("label-videos", videos, heard_by.listener) as listener,
        make_runner(runner, side_by_side(config, workers), address) as tasks,
    ):
        summary = in_tasks(run, tasks, listener)
    show_labels("label-videos", summary)
    if report:
        show_report("label-videos", write_page(summary.store, report))
    return summary


def in_tasks(run: LabelRun, tasks: TaskRunner[Any], listener: Listener) -> Summary:
    """Carry out a run by tasks of a flow."""
    with heard_by(listener), run.working():
        listener.planned(len(run.todo))
        for done in results(tasks, track, lots(run.jobs("track"), run.strict)):
            run.note(done)
            listener.finished(done.source, done.failure)
        listener.grouping()
        find_categories(run)
        for done in results(tasks, label, lots(run.jobs("label"), run.strict)):
            run.note(done)
        return run.close()


@task(cache_policy=NO_CACHE, task_run_name=lot_name)  # type: ignore[arg-type]  # its protocol wants a class method
def track(jobs: list[Job]) -> list[Done]:
    """Proposals, embeddings and tracks of a few videos, one after another."""
    listener = heard_by.listener  # of this process: there is none in others
    done = []
    with writing(jobs[0].store):  # also between two videos: a Dask worker does not notice that the flow was killed
        for job in jobs:
            with gpu_turn(job.device, has_networks(job.config)):
                done.append(work(job, partial(listener.frames, job.source) if listener else None))
    return done


@task(cache_policy=NO_CACHE)
def find_categories(run: LabelRun) -> str:
    """The vocabulary of all videos."""
    return run.fit()


@task(cache_policy=NO_CACHE, task_run_name=lot_name)  # type: ignore[arg-type]  # its protocol wants a class method
def label(jobs: list[Job]) -> list[Done]:
    """Categories, identities and filters of a few videos, one after another."""
    with writing(jobs[0].store):
        return [work(job) for job in jobs]


@task(cache_policy=NO_CACHE)
def write_page(store: Place, folder: Path) -> Path:
    """The report of a store; the path of its page."""
    from labeling.report import write_report

    return write_report(open_store(store), folder)
