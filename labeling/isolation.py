"""How does one bad video not take the others down?

`Worker` runs pipeline stages in a process of its own (see `worker.py`), reports progress, and turns a crash or a hang
into an ordinary error. The next request starts a fresh process.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from labeling.checkpoints import WeightsError
from labeling.frame_progress import Progress
from labeling.jobs import Job
from labeling.places import Place
from labeling.problems import RunError
from labeling.video import VideoError

TIDY = {"MALLOC_MMAP_THRESHOLD_": "1000000"}  # pictures go back to the system, or a long video fragments the memory
PATIENT = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "0",
}  # spinning threads starve one another
SINGLE_THREADED = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

ENDED = "labeling was ended"


class WorkerKilled(VideoError):
    """Somebody ended the process: the video may be sound."""


class Worker:
    """A child process that runs one request at a time."""

    def __init__(self, alone: bool = False) -> None:
        """One that works `alone` may use all cores."""
        self._limits = PATIENT if alone else SINGLE_THREADED
        self._lock, self._retired = threading.RLock(), False
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._errors: IO[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def start(self) -> subprocess.Popen[str]:
        """Start the process if there is none, so that it can import while the parent goes on."""
        with self._lock:
            if self._retired:
                raise VideoError(ENDED)
            if self._process is None or self._process.poll() is not None:
                self.close()  # what a dead one leaves behind
                self._process = self._started()
            return self._process

    def _started(self) -> subprocess.Popen[str]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        # Ours, for a process that is killed leaves its copies of videos behind.
        self._scratch = tempfile.TemporaryDirectory(prefix="spectrabox-", ignore_cleanup_errors=True)
        root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        process = subprocess.Popen(
            # -P: Python files in the folder that the user stands in are not ours to run
            [sys.executable, "-P", "-m", "labeling.worker", self._scratch.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then closes its workers
            env={**os.environ, **self._limits, **TIDY, "PYTHONPATH": path},
        )
        self._answers = queue.Queue()
        threading.Thread(target=_forward, args=(process, self._answers), daemon=True).start()
        return process

    def run(self, job: Job, progress: Progress | None = None) -> dict[str, Any]:
        """Do a job.

        VideoError if it fails, crashes or hangs (WorkerKilled if somebody ended the process); WeightsError if no video
        can be labeled with these weights; RunError if the store cannot be written.
        """
        process, source = self.start(), job.source
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(job.as_json()) + "\n")
            process.stdin.flush()
        except (BrokenPipeError, ValueError):  # it died, or was closed
            raise self._died(source.path) from None
        while True:
            try:
                line = self._answers.get(timeout=job.limit)
            except queue.Empty:
                self.close()
                raise VideoError(
                    f"{source.path} made no progress for {job.limit:.0f} seconds and was given up. "
                    "Re-encode it or remove it."
                ) from None
            if line is None:
                raise self._died(source.path)
            message = json.loads(line)
            if "failed" in message:
                raise VideoError(message["failed"])
            if "stopped" in message:
                raise RunError(message["stopped"])
            if "unfit" in message:
                raise WeightsError(message["unfit"])
            if "result" in message:
                return dict(message["result"])
            if progress and "done" in message:
                progress(message["done"], message["total"])

    def close(self) -> None:
        """End the process at once."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                for pipe in (self._process.stdin, self._process.stdout):
                    with suppress(BrokenPipeError):  # the rest of a request that it did not live to read
                        if pipe is not None:
                            pipe.close()
            if self._errors is not None:
                self._errors.close()
            if self._scratch is not None:
                self._scratch.cleanup()
            self._process, self._errors, self._scratch = None, None, None

    def retire(self) -> None:
        """End the process at once, and start no other."""
        with self._lock:
            self._retired = True
            self.close()

    def _died(self, path: Place) -> VideoError:
        """Why the process died, from its exit code and the end of what it printed."""
        process, errors = self._process, self._errors
        if process is None or errors is None:
            return VideoError(f"{path}: {ENDED}")
        code = process.wait()
        try:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
        except ValueError:  # closed by `close` in another thread, which ends the run
            return VideoError(f"{path}: {ENDED}")
        self.close()
        if code in (-signal.SIGKILL, -signal.SIGTERM):
            return WorkerKilled(
                f"{path}: the worker was killed ({signal.Signals(-code).name}), as a system short of memory does. "
                "Run again with fewer --workers or more memory."
            )
        if code < 0:
            name = signal.Signals(-code).name
            return VideoError(f"{path}: the decoder crashed ({name}). Re-encode the video or remove it.")
        last = lines[-1] if lines else f"exit code {code}"
        return VideoError(f"{path}: labeling stopped unexpectedly: {last}. Please report this.")


def _forward(process: subprocess.Popen[str], answers: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.endswith("\n"):  # half a line is the last of a process that was killed while it spoke
                answers.put(line)
    except ValueError:  # the pipe was closed by `close`
        pass
    answers.put(None)
