"""Who does a job?

`work` gives it to a worker process (see `isolation.py`) of whatever process it is called in. Workers are kept for the
next job, for networks take long to load, and ended when there was none for a while. A worker that was killed is
replaced and the job begun again: that is no fault of the video.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from labeling.isolation import Worker, WorkerKilled
from labeling.jobs import Done, Job
from labeling.problems import RunError, VideoError
from labeling.profiles import has_networks

ATTEMPTS = 3  # at a video whose worker is killed from outside
IDLE = 600.0  # seconds after which a worker without a job is ended, and the memory of its networks is free

Progress = Callable[[int, int], None]  # frames done, frames expected


class Workers:
    """The worker processes of this process; safe to share between threads."""

    def __init__(self, idle: float = IDLE) -> None:
        self._patience = idle
        self._lock = threading.Lock()
        self._idle: dict[Worker, tuple[bool, threading.Timer]] = {}  # whether it may use all cores, and when it ends
        self._busy: dict[Worker, str] = {}  # the run for which it works
        self._ended: set[str] = set()

    @contextmanager
    def hired(self, job: Job) -> Iterator[Worker]:
        """A worker for one job; RunError if its run was ended."""
        alone = has_networks(job.config)
        with self._lock:
            self._refuse_ended(job.run)
            worker = next((known for known, (kind, _) in self._idle.items() if kind == alone), None)
            if worker is None:
                worker = Worker(alone=alone)
            else:
                self._idle.pop(worker)[1].cancel()
            self._busy[worker] = job.run
        try:
            yield worker
        except VideoError:
            raise  # the worker is sound, or was closed
        except BaseException:
            worker.close()
            raise
        finally:
            with self._lock:
                self._busy.pop(worker, None)
                if job.run in self._ended:
                    worker.close()
                else:
                    timer = threading.Timer(self._patience, self._retire, [worker])
                    timer.daemon = True
                    timer.start()
                    self._idle[worker] = alone, timer

    def end(self, run: str, keep: bool = False) -> None:
        """End all work for a run, at once, and the workers that have nothing to do, unless they are to be kept."""
        with self._lock:
            self._ended.add(run)
            for worker in [worker for worker, busy_with in self._busy.items() if busy_with == run]:
                worker.retire()
        if not keep:
            self.dismiss()

    def dismiss(self) -> None:
        """End the workers that have nothing to do."""
        with self._lock:
            for worker, (_, timer) in self._idle.items():
                timer.cancel()
                worker.close()
            self._idle.clear()

    def _refuse_ended(self, run: str) -> None:
        if run in self._ended:
            raise RunError("the run was stopped")

    def _retire(self, worker: Worker) -> None:
        with self._lock:
            if self._idle.pop(worker, None):
                worker.close()

    def do(self, job: Job, progress: Progress | None = None) -> Done:
        """Do a job; RunError if the run cannot go on, WeightsError if no video can be labeled with these weights."""
        killed = 0
        while True:
            try:
                with self.hired(job) as worker:
                    result = worker.run(job, progress)
            except VideoError as error:
                with self._lock:
                    self._refuse_ended(job.run)  # the video is innocent: its worker was ended
                killed += isinstance(error, WorkerKilled)
                if not isinstance(error, WorkerKilled) or killed == ATTEMPTS:
                    return Done(job.source, str(error))
            else:
                seconds = max(1e-9, result.get("seconds", 0.0))
                return Done(job.source, fps=result["frames"] / seconds if "frames" in result else None)


WORKERS = Workers()


def work(job: Job, progress: Progress | None = None) -> Done:
    """Do a job in a worker process that this process keeps."""
    return WORKERS.do(job, progress)
