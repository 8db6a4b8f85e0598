"""A process of its own for what might crash: reads requests from standard input, answers on standard output.

One JSON object a line each way. A decoder that crashes takes down this process and nothing else; when the parent is
gone, standard input ends and so does the worker, in the middle of a video if need be. Its only argument is a folder of
its own for temporary files.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from labeling.jobs import Job


def main() -> None:
    """Serve requests until standard input ends."""
    tempfile.tempdir = sys.argv[1]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints must not get between the answers
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    import cv2

    cv2.setNumThreads(1)  # workers are the parallel axis
    while True:
        _serve(requests.get(), answers)


def _listen(requests: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        requests.put(json.loads(line))
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    os._exit(0)


def _serve(request: dict[str, Any], answers: TextIO) -> None:
    from labeling.checkpoints import WeightsError
    from labeling.jobs import Job
    from labeling.locks import writing
    from labeling.pipeline import label_video, track_video
    from labeling.problems import RunError, StoreError, VideoError, storing
    from labeling.store import Store

    def say(**message: Any) -> None:
        print(json.dumps(message), file=answers)

    job = Job.from_json(request)
    try:
        with storing(job.store), writing(job.store, job.run):
            store = Store(job.store, mode="a")
            if job.stage == "track":
                _load(job)
                tracked = track_video(
                    store, job.source, job.config, job.device, lambda done, total: say(done=done, total=total)
                )
                say(result={"frames": tracked.frames, "seconds": tracked.seconds})
            else:
                words = store.vocabulary
                assert words is not None, "the vocabulary is fitted before videos are labeled"
                label_video(store, job.source, job.config, words, lambda: say(alive=True))
                say(result={})
    except VideoError as error:
        say(failed=str(error))
    except WeightsError as error:
        say(unfit=str(error))
    except (RunError, StoreError) as error:
        say(stopped=str(error))
    except OSError as error:
        say(failed=f"{error.filename or job.source.path}: {error.strerror}. Check the disk and the permissions.")


def _load(job: Job) -> None:
    """Have the networks with which the run began: others may be left from an earlier run, or be on this machine."""
    from labeling.checkpoints import WeightsError
    from labeling.profiles import assemble

    if job.hashes and assemble(job.config, job.device).hashes != job.hashes:
        assemble.cache_clear()
        if assemble(job.config, job.device).hashes != job.hashes:
            raise WeightsError(
                "The weights were replaced during the run, or are others on a machine that takes part. "
                "Run the same command again."
            )


if __name__ == "__main__":
    main()
