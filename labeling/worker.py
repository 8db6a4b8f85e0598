"""A process of its own for what might crash: reads requests from standard input, answers on standard output.

One JSON object a line each way. A decoder that crashes takes down this process and nothing else; when the parent is
gone, standard input ends and so does the worker, in the middle of a video if need be.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any, TextIO


def main() -> None:
    """Serve requests until standard input ends."""
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
    os._exit(0)


def _serve(request: dict[str, Any], answers: TextIO) -> None:
    from labeling.checkpoints import WeightsError
    from labeling.config import LabelConfig
    from labeling.folder import Source
    from labeling.pipeline import label_video, track_video
    from labeling.store import Store
    from labeling.video import VideoError

    def say(**message: Any) -> None:
        print(json.dumps(message), file=answers)

    store = Store(request["store"], mode="a")
    source = Source(request["id"], request["relative"], Path(request["path"]))
    config = LabelConfig(**request["config"])
    try:
        if request["stage"] == "track":
            tracked = track_video(
                store, source, config, request["device"], lambda done, total: say(done=done, total=total)
            )
            say(result={"frames": tracked.frames, "seconds": tracked.seconds})
        else:
            words = store.vocabulary
            assert words is not None, "the vocabulary is fitted before videos are labeled"
            label_video(store, source, config, words)
            say(result={})
    except VideoError as error:
        say(failed=str(error))
    except WeightsError as error:
        say(unfit=str(error))
    except OSError as error:
        say(failed=f"{error.filename or source.path}: {error.strerror}. Check the disk and the permissions.")


if __name__ == "__main__":
    main()
