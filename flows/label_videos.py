"""The flow `label-videos`: a folder of videos in, a label store out.

The same steps as `spectrabox label`, as Prefect tasks: track each video, find the categories, label each video.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prefect import flow, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture, as_completed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from flows.listening import HeardBy
from labeling.config import LabelConfig
from labeling.folder import Source
from labeling.profiles import Device, ProfileName
from labeling.run import FrameReport, LabelRun, Listener, Summary, side_by_side

heard_by: HeardBy[Listener] = HeardBy()


@flow(name="label-videos", flow_run_name="label {videos}")
def label_videos(
    videos: Annotated[Path, Field(description="A folder of videos, searched recursively, or one video.")],
    out: Annotated[Path, Field(description="The label store to write or to go on with.")] = Path("labels.zarr"),
    profile: Annotated[ProfileName | None, Field(description="Which backends to use.")] = None,
    config: Annotated[LabelConfig | None, Field(description="Settings; what is left out keeps its default.")] = None,
    workers: Annotated[int, Field(ge=0, description="Videos side by side; 0: one a core, with networks one.")] = 0,
    device: Annotated[Device, Field(description="Where models run.")] = "auto",
    strict: Annotated[bool, Field(description="Stop at the first video that fails.")] = False,
    refit: Annotated[bool, Field(description="Find the categories anew.")] = False,
    prune: Annotated[bool, Field(description="Remove the labels of videos that are no longer there.")] = False,
) -> Summary:
    """Label a folder of videos with tracked, categorised boxes; goes on where an earlier run stopped."""
    config = config or LabelConfig()
    if profile:
        config = config.model_copy(update={"profile": profile})
    listener = heard_by.listener or Listener()
    runner: ThreadPoolTaskRunner[str] = ThreadPoolTaskRunner(max_workers=side_by_side(config, workers))
    with LabelRun(videos, out, config, strict, refit, device, prune) as run, runner:
        listener.planned(len(run.todo))
        tracking: dict[PrefectFuture[str], Source] = {
            runner.submit(track, {"run": run, "source": s, "report": listener.frames}): s for s in run.todo
        }
        for future in as_completed(list(tracking)):
            listener.finished(tracking[future], future.result())
        listener.grouping()
        find_categories(run)
        for future in as_completed([runner.submit(label, {"run": run, "source": source}) for source in run.stale]):
            future.result()
        summary = run.close()
    publish(summary)
    return summary


@task(cache_policy=NO_CACHE, task_run_name="track {source.relative}")
def track(run: LabelRun, source: Source, report: FrameReport) -> str:
    """Proposals, embeddings and tracks of one video; returns the reason if it fails."""
    return run.track(source, report)


@task(cache_policy=NO_CACHE)
def find_categories(run: LabelRun) -> str:
    """The vocabulary of all videos."""
    return run.fit()


@task(cache_policy=NO_CACHE, task_run_name="label {source.relative}")
def label(run: LabelRun, source: Source) -> str:
    """Categories, identities and filters of one video; returns the reason if it fails."""
    return run.label(source)


def publish(summary: Summary) -> None:
    """Show the result table on the flow run's page."""
    rows = []
    for outcome in summary.outcomes:
        found = outcome.labels
        rows.append({
            "video": outcome.source, "frames": found.frames if found else "", "tracks": found.tracks if found else "",
            "categories": found.categories if found else "", "dropped": found.dropped if found else "",
            "failure": outcome.failure,
        })  # fmt: skip
    create_table_artifact(rows, key="label-videos", description=f"Labels: {summary.store}")
