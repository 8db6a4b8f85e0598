"""Which videos fit into one dataset of frames, and what are their actions?

Datasets of frames have one size and one number of actions. `fitting` finds what most videos have; `joined` hands out
frames, tracks and actions of a video together, a block at a time, so that memory does not grow with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from labeling.actions import actions_beside, aligned, read_actions
from labeling.export.job import Chosen, Job
from labeling.folder import inside
from labeling.store import VideoLabels
from labeling.video import Frame, VideoError

BLOCK = 64  # frames in memory at a time
APART = "Label it into a store of its own."


@dataclass(frozen=True)
class Fitting:
    """What the videos of a dataset have in common."""

    size: tuple[int, int] | None  # height and width; None: any
    actions: int  # numbers in an action
    rate: float = 0.0  # frames a second; 0: any


def fitting(job: Job, one_size: bool = True, one_rate: bool = False) -> Fitting:
    """What most videos have; the others are left out with a note."""
    actions = {labels.id: _actions_of(job, labels) for labels in job.videos()}
    widths = Counter(rows.shape[1] for rows in actions.values() if rows is not None)
    width = widths.most_common(1)[0][0] if widths else 0
    sizes = Counter(labels.size for labels in job.videos())
    rates = Counter(round(_rate(labels), 2) for labels in job.videos())
    common = Fitting(
        sizes.most_common(1)[0][0] if one_size and sizes else None, width,
        rates.most_common(1)[0][0] if one_rate and rates else 0.0,
    )  # fmt: skip
    remedy = "Stretch all to one with --size 224." if job.format == "swm-hdf5" else APART
    for labels in job.videos():
        if reason := _misfit(labels, actions[labels.id], common, remedy):
            job.problems[labels.source] = f"{labels.source} {reason}"
    return common


def joined(job: Job, labels: VideoLabels, actions: int) -> Iterator[tuple[list[Frame], Chosen, np.ndarray]]:
    """Frames, tracks and actions (n, A) of a video, block by block; VideoError if it cannot be read."""
    rows = _read(job, labels)
    table = np.zeros((labels.frames, 0), np.float32) if rows is None or not actions else rows
    frames = job.frames(labels)
    for begin in range(0, labels.frames, BLOCK):
        part = labels[begin : begin + BLOCK]
        yield list(islice(frames, part.frames)), job.choose(part), table[begin : begin + part.frames]
    next(frames, None)  # for what is said about videos that end early


def _actions_of(job: Job, labels: VideoLabels) -> np.ndarray | None:
    try:
        return _read(job, labels)
    except VideoError as error:
        job.problems[labels.source] = str(error)
        return None


def _read(job: Job, labels: VideoLabels) -> np.ndarray | None:
    """The actions beside a video, or None."""
    file = actions_beside(inside(job.folder, labels.source))
    return None if file is None else aligned(read_actions(file), labels.frames, file)


def _misfit(labels: VideoLabels, actions: np.ndarray | None, common: Fitting, remedy: str) -> str:
    """Why a video does not fit; empty if it does."""
    height, width = labels.size
    if common.size and labels.size != common.size:
        usual = f"{common.size[1]} x {common.size[0]}"
        return f"has {width} x {height} pixels, most videos have {usual}: a dataset has one size. {remedy}"
    if common.rate and abs(_rate(labels) / common.rate - 1) > 0.01:
        return (
            f"has {_rate(labels):g} frames a second, most videos have {common.rate:g}: a dataset has one rate. {APART}"
        )
    numbers = 0 if actions is None else actions.shape[1]
    if numbers != common.actions:
        return f"has {numbers or 'no'} numbers an action, most others have {common.actions}. {APART}"
    return ""


def _rate(labels: VideoLabels) -> float:
    return float(labels.attributes.get("fps") or 0)
