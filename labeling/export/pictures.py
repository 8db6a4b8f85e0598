"""How do frames become picture files?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import cv2

from labeling.export.job import SIDECAR, Job
from labeling.store import VideoLabels
from labeling.video import VideoError

QUALITY = 95  # of JPEG: what artefacts are left is far below what detectors see


def write_pictures(job: Job, labels: VideoLabels, folder: Path, prefix: str = "", first: int = 0) -> bool:
    """Write every frame of a video, as `000000.jpg` from `first` on; False, with a note and no file, if that fails."""
    written: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for frame in job.frames(labels):
            path = folder / f"{prefix}{frame.index + first:06d}.jpg"
            written.append(path)
            _, picture = cv2.imencode(".jpg", frame.image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
            path.write_bytes(picture.tobytes())
    except VideoError as error:
        job.problems[labels.source] = str(error)
        for path in written:
            path.unlink(missing_ok=True)
        return False
    return True


def write_sidecar(job: Job, folder: Path) -> None:
    """Say in the folder where its content comes from; with the licence, the split and the categories."""
    (folder / SIDECAR).write_text(json.dumps(job.provenance(), indent=1) + "\n", encoding="utf-8")


def remove_folder(path: Path) -> None:
    """Remove a folder that may not be there."""
    shutil.rmtree(path, ignore_errors=True)
