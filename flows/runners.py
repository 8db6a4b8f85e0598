"""Where do the tasks of a flow run?

In threads of the flow's process, in processes of this machine, or on a Dask cluster: the labels are the same. Work on a
GPU waits for a turn, if the limit `spectrabox-gpu` was created.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from itertools import islice
from queue import SimpleQueue
from typing import Any, Literal, Self, TypeVar

from prefect import Task
from prefect.concurrency.sync import concurrency
from prefect.futures import PrefectFuture
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner, ThreadPoolTaskRunner

from labeling.jobs import Job
from labeling.lifetime import end_with_parent
from labeling.problems import RunError
from labeling.profiles import has_networks

RunnerName = Literal["threads", "processes", "dask"]
GPU_LIMIT = "spectrabox-gpu"
AGAIN = "Run the same command again: it goes on from here."
LARGEST = 16  # videos of a task: a Dask worker that is killed has worked for nothing since the first of them
SHARES = 8  # of what is left, one is the next task's
MANY = 500  # videos: where there are fewer, each has a task, for they may be long and the cores many
AHEAD = 1000  # tasks that are handed in before the first has ended: enough for a large cluster

R = TypeVar("R")


def make_runner(name: RunnerName, workers: int, address: str | None = None) -> TaskRunner[Any]:
    """A task runner for so many tasks at a time; a Dask cluster at an `address` knows its own number.

    RunError if there is no such cluster, or Dask is not installed.
    """
    if address and name != "dask":
        raise RunError(f"--address {address} is that of a Dask cluster. Say --runner dask as well, or leave it out.")
    if name == "threads":
        return ThreadPoolTaskRunner(max_workers=workers)
    if name == "processes":
        return Processes(max_workers=workers, initializer=end_with_parent)
    return _dask(workers, address)


class Processes(ProcessPoolTaskRunner):
    """Processes whose reports go to the flow's server.

    Prefect passes them on in a thread that knows the default settings only, and would start another server for them.
    """

    def __enter__(self) -> Self:
        self._settings = copy_context()
        return super().__enter__()

    def _forward_subprocess_messages(self) -> None:
        self._settings.run(super()._forward_subprocess_messages)


def _dask(workers: int, address: str | None) -> TaskRunner[Any]:
    try:
        from distributed import Client
        from prefect_dask.task_runners import DaskTaskRunner
    except ModuleNotFoundError as error:
        raise RunError("--runner dask needs Dask: pip install -c constraints.txt '.[dask]'") from error
    if not address:
        # One task at a time each, which does nothing but wait for a worker process: neither dashboard nor memory limit.
        local = {
            "n_workers": workers, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": None,
            "silence_logs": logging.CRITICAL,
        }  # fmt: skip
        return DaskTaskRunner(cluster_kwargs=local)
    try:
        with Client(address, timeout=10, set_as_default=False):  # type: ignore[no-untyped-call]  # dask's own
            pass
    except (OSError, ValueError) as error:
        raise RunError(
            f"there is no Dask scheduler at {address}. Start one with `dask scheduler`, and workers with "
            f"`dask worker {address}`."
        ) from error
    return DaskTaskRunner(address=address)


def lots(jobs: list[Job], strict: bool = False) -> Iterator[list[Job]]:
    """Jobs by the task: one each where they are few, more where they are many, as every task has its price.

    Lots to track get smaller towards the end, so that nobody has much to do when the others are done; labels take so
    little that this would cost more than waiting. There is one job in each where networks take so long that the price
    does not count, and where a `strict` run is to stop at the first failure.
    """
    start = 0
    while start < len(jobs):
        alone = strict or len(jobs) < MANY or has_networks(jobs[start].config)
        share = max(1, (len(jobs) - start) // SHARES) if jobs[start].stage == "track" else LARGEST
        size = 1 if alone else min(LARGEST, share)
        yield jobs[start : start + size]
        start += size


def lot_name(parameters: dict[str, Any]) -> str:
    """What the task of a lot is called on Prefect's page."""
    jobs: list[Job] = parameters["jobs"]
    first = f"{jobs[0].stage} {jobs[0].source.relative}"
    return first if len(jobs) == 1 else f"{first} and {len(jobs) - 1} more"


def results(runner: TaskRunner[Any], task: Task[[list[Job]], list[R]], lots: Iterable[list[Job]]) -> Iterator[R]:
    """What the tasks of all lots return, as they end; RunError if those who did them were killed.

    Not more than `AHEAD` are handed in at a time: each waits with a copy of its context, however many there are.
    """
    remaining, waiting = iter(lots), dict[PrefectFuture[list[R]], list[Job]]()
    ended: SimpleQueue[PrefectFuture[list[R]]] = SimpleQueue()

    def hand_in(count: int) -> None:
        for jobs in islice(remaining, count):
            future = runner.submit(task, {"jobs": jobs})
            waiting[future] = jobs
            future.add_done_callback(ended.put)

    hand_in(AHEAD)
    while waiting:
        future = ended.get()
        jobs = waiting.pop(future)
        hand_in(1)
        try:
            yield from future.result()
        except BrokenProcessPool as error:
            raise RunError(f"a process of the run was killed, as a system short of memory does. {AGAIN}") from error
        except Exception as error:
            if type(error).__name__ != "KilledWorker":  # by its name, for Dask need not be installed
                raise
            names = " or ".join(job.source.relative for job in jobs)
            raise RunError(
                f"every Dask worker that had {names} was killed, as a system short of memory does. {AGAIN}"
            ) from error


def gpu_turn(device: str, networks: bool = True) -> AbstractContextManager[None]:
    """Wait for a turn on the GPU, if networks run on one; without the limit on the server everybody has a turn."""
    if not networks:
        return nullcontext()
    from labeling.devices import torch_device

    return nullcontext() if torch_device(device).type == "cpu" else concurrency(GPU_LIMIT)
