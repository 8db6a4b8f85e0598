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
from pathlib import Path
from typing import IO, Any

from labeling.checkpoints import WeightsError
from labeling.config import LabelConfig
from labeling.folder import Source
from labeling.pipeline import Progress
from labeling.video import VideoError

PATIENCE = 300.0  # seconds without any sign of progress after which a video is given up
TIDY = {"MALLOC_MMAP_THRESHOLD_": "1000000"}  # pictures go back to the system, or a long video fragments the memory
PATIENT = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "0",
}  # spinning threads starve one another
SINGLE_THREADED = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

ENDED = "labeling was ended"


class Worker:
    """A child process that runs one request at a time."""

    def __init__(self, patience: float = PATIENCE, alone: bool = False) -> None:
        """Give up after `patience` seconds without progress; one that works `alone` may use all cores."""
        self._patience, self._limits = patience, PATIENT if alone else SINGLE_THREADED
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._errors: IO[bytes] | None = None

    def start(self) -> subprocess.Popen[str]:
        """Start the process if there is none, so that it can import while the parent goes on."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        process = subprocess.Popen(
            [sys.executable, "-m", "labeling.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then closes its workers
            env={**os.environ, **self._limits, **TIDY, "PYTHONPATH": path},
        )
        self._answers = queue.Queue()
        threading.Thread(target=_forward, args=(process, self._answers), daemon=True).start()
        self._process = process
        return process

    def run(
        self,
        stage: str,
        store: Path,
        source: Source,
        config: LabelConfig,
        device: str,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Run a stage ("track" or "label") on one video.

        VideoError if it fails, crashes or hangs; WeightsError if no video can be labeled with these weights.
        """
        process = self.start()
        request = {
            "stage": stage, "store": str(store), "id": source.id, "relative": source.relative, "path": str(source.path),
            "config": config.model_dump(mode="json"), "device": device,
        }  # fmt: skip
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except (BrokenPipeError, ValueError):  # it died, or was closed
            raise VideoError(f"{source.path}: {self._last_words()}") from None
        while True:
            try:
                line = self._answers.get(timeout=self._patience)
            except queue.Empty:
                self.close()
                raise VideoError(
                    f"{source.path} made no progress for {self._patience:.0f} seconds and was given up. "
                    "Re-encode it or remove it."
                ) from None
            if line is None:
                raise VideoError(f"{source.path}: {self._last_words()}")
            message = json.loads(line)
            if "failed" in message:
                raise VideoError(message["failed"])
            if "unfit" in message:
                raise WeightsError(message["unfit"])
            if "result" in message:
                return dict(message["result"])
            if progress:
                progress(message["done"], message["total"])

    def close(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._errors is not None:
            self._errors.close()
        self._process, self._errors = None, None

    def _last_words(self) -> str:
        """Why the process died, from its exit code and the end of what it printed."""
        process, errors = self._process, self._errors
        if process is None or errors is None:
            return ENDED
        code = process.wait()
        try:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
        except ValueError:  # closed by `close` in another thread, which ends the run
            return ENDED
        self.close()
        if code < 0:
            return f"the decoder crashed ({signal.Signals(-code).name}). Re-encode the video or remove it."
        return f"labeling stopped unexpectedly: {lines[-1] if lines else f'exit code {code}'}. Please report this."


def _forward(process: subprocess.Popen[str], answers: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            answers.put(line)
    except ValueError:  # the pipe was closed by `close`
        pass
    answers.put(None)
