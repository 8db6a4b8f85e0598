"""Pictures for the report.

Takes the videos and what the report wants to show of them, and returns frames and crops as data URIs, within a budget
of bytes. Reads no more of a video than it must; what did not fit or could not be read is said.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np

from labeling.folder import inside
from labeling.places import Place, fetched
from labeling.report.views import BestView
from labeling.video import Video, VideoError

DECODED = 1280  # longest side from which crops are cut
STRIP_SIDES = (560, 400, 280)  # longest side of a frame in the strip; the first that fits the budget
CROP_SIDE = 160
MARGIN = 0.18  # of context around a crop, on each side
QUALITY = 78
WHOLE_SIDE = 128  # pictures up to this size lose nothing
ALL_BYTES = 24_000_000  # of all strips: a page beyond this is slow to open and cannot be mailed
MOST_BYTES = 260_000  # of one strip
FAR = 100  # frames from which on it is quicker to jump than to read on
LEAST_BYTES = 15_000  # of one strip; below, nothing can be seen


@dataclass
class Pictures:
    """What could be had of one video."""

    strip: dict[int, str] = field(default_factory=dict)  # frame -> data URI
    crops: dict[int, str] = field(default_factory=dict)  # instance -> data URI
    missing: str = ""  # why there is none
    left_out: int = 0  # frames of the strip that did not fit


def take_pictures(
    source: str, sha256: str, strip: Iterable[int], examples: Sequence[BestView], folder: Place, budget: int
) -> Pictures:
    """Frames of the strip and crops of `examples` of one video, the strip in at most `budget` bytes.

    Args:
        source: Path of the video below the folder.
        sha256: Of its bytes; another video of that name is not shown.
        strip: The frames of the strip.
        examples: What is cut out.
        folder: Where the videos are.
        budget: Bytes of the strip.

    Raises:
        VideoError: The video is said to be outside of the folder.
    """
    path = inside(folder, source)
    if not path.exists():
        return Pictures(missing=f"{path} is not there any more")
    wanted = set(strip) if budget else set()
    try:
        with fetched(path) as file:
            video = Video(file, DECODED)
            if video.sha256() != sha256:
                return Pictures(missing=f"{path} is not the video that was labeled: it has changed since")
            frames = _frames(video, wanted | {best.frame for best in examples})
    except VideoError as error:
        return Pictures(missing=str(error))
    pictures = Pictures(crops={b.instance: _crop(frames[b.frame], b, video) for b in examples if b.frame in frames})
    _fill_strip(pictures, {frame: frames[frame] for frame in sorted(wanted) if frame in frames}, budget)
    pictures.left_out = len(wanted) - len(pictures.strip)
    return pictures


def strip_budget(videos: int) -> int:
    """Bytes for the strip of each of so many videos; 0 if there are too many for pictures of all."""
    share = ALL_BYTES // max(1, videos)
    return 0 if share < LEAST_BYTES else min(MOST_BYTES, share)


def pictured(videos: int) -> int:
    """How many of so many videos get a strip."""
    return videos if strip_budget(videos) else ALL_BYTES // LEAST_BYTES


def _frames(video: Video, wanted: Iterable[int]) -> dict[int, np.ndarray]:
    found: dict[int, np.ndarray] = {}
    reader, place = video.frames(), 0
    for index in sorted(set(wanted)):
        if index - place > FAR:
            reader = video.frames(start=index)
        frame = next((frame for frame in reader if frame.index == index), None)
        if frame is None:
            break
        found[index], place = frame.image, index
    return found


def _fill_strip(pictures: Pictures, images: dict[int, np.ndarray], budget: int) -> None:
    """The largest size at which all frames fit; at the smallest, as many frames as fit, spread evenly."""
    for side in STRIP_SIDES:
        coded = {frame: _coded(_reduced(image, side)) for frame, image in images.items()}
        if sum(map(len, coded.values())) <= budget:
            break
    while coded and sum(map(len, coded.values())) > budget:
        del coded[sorted(coded)[len(coded) // 2]]
    pictures.strip.update(coded)


def _crop(image: np.ndarray, best: BestView, video: Video) -> str:
    """A square around a box, with a little of what is around it, moved to lie within the frame as far as it can."""
    scale = np.array([video.working_width / video.width, video.working_height / video.height] * 2)
    x1, y1, x2, y2 = np.array(best.box) * scale
    side = round(max(8.0, max(x2 - x1, y2 - y1) * (1 + 2 * MARGIN)))
    height, width = image.shape[:2]
    left = max(0, min(round((x1 + x2 - side) / 2), width - side))
    top = max(0, min(round((y1 + y2 - side) / 2), height - side))
    return _coded(_reduced(image[top : top + side, left : left + side], CROP_SIDE))


def _reduced(image: np.ndarray, side: int) -> np.ndarray:
    """`image` with a longest side of at most `side`; small ones stay as they are, the browser enlarges them."""
    scale = side / max(image.shape[:2])
    if scale >= 1:
        return image
    return cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)


def _coded(image: np.ndarray) -> str:
    """A data URI: small pictures without loss, since each pixel of theirs is seen, large ones as JPEG: it is quick."""
    kind, options = "jpeg", [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
    if max(image.shape[:2]) <= WHOLE_SIDE:
        kind, options = "webp", [cv2.IMWRITE_WEBP_QUALITY, 101]
    _, data = cv2.imencode(f".{kind}", np.ascontiguousarray(image[..., ::-1]), options)
    return f"data:image/{kind};base64," + base64.b64encode(data.tobytes()).decode("ascii")
