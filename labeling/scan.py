"""What kind of video is this?

One pass that finds scene cuts, measures how the camera moves, and keeps a sparse sample of pictures. It yields shots
one after another, so that a reader behind it needs the memory of one shot's sample and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import cv2
import numpy as np
from pydantic import BaseModel, Field

from labeling.video import Frame, Video

SMALL_SIDE = 320  # longest side of the grey copy on which cuts and camera motion are measured
SAMPLE_BYTES = 100_000_000  # memory that one shot's sample may take
LOOK_AHEAD = 2  # frames seen behind a candidate cut: a flash is over by then, a new scene is not
GRID = 8  # the picture is judged in GRID x GRID cells, so that one textured corner does not decide for all of it
MAX_CORNERS = 200
TEXTURE = 3.0  # standard deviation of grey levels from which on a cell shows whether it moved


class ScanConfig(BaseModel, extra="forbid", frozen=True):
    """How a video is cut into shots."""

    samples: int = Field(48, ge=2, description="Most pictures kept of one shot.")
    stretch: int = Field(3000, ge=16, description="Longer shots come in stretches of this many frames.")
    cut_threshold: float = Field(0.35, gt=0, le=1, description="Share of colours that must change in a scene cut.")
    still_motion: float = Field(0.2, ge=0, description="Camera motion in pixels that still counts as standing still.")


@dataclass(frozen=True)
class Shot:
    """A stretch of frames without a scene cut; long shots come in several stretches."""

    start: int
    stop: int  # exclusive
    cut: bool  # a new scene begins here: nothing carries over from before
    still: bool  # the camera stands still
    samples: np.ndarray  # (K,) indices of the sampled frames
    pictures: np.ndarray  # (K, H, W, 3) uint8, those frames at the working size
    camera: np.ndarray  # (stop - start, 3, 3) homography from the frame before to each frame


Scan = Iterable[Shot]


@dataclass(slots=True)
class _Glance:
    """What the scan remembers of one frame."""

    grey: np.ndarray  # (h, w) uint8, the small copy
    colours: np.ndarray  # (512,) float32, share of each colour, sums to 1
    thumb: np.ndarray  # (16, 16, 3) float32


@dataclass(slots=True)
class _Step:
    """A frame on its way into a shot, with how it differs from the frame before."""

    frame: Frame
    glance: _Glance
    camera: np.ndarray
    moved: float  # camera motion in small pixels
    tracked: bool  # camera motion was measured: most corners were found again
    change: float  # colours that changed against the frame before


@dataclass
class _Sample:
    """Every step-th picture of a shot; the step doubles whenever the room is full."""

    room: int
    step: int = 1
    indices: list[int] = field(default_factory=list)
    pictures: np.ndarray | None = None

    def add(self, frame: Frame, offset: int) -> None:
        if offset % self.step:
            return
        if self.pictures is None:
            self.pictures = np.empty((self.room, *frame.image.shape), np.uint8)
        if len(self.indices) == self.room:
            self.indices = self.indices[::2]
            for place in range(len(self.indices)):
                self.pictures[place] = self.pictures[2 * place]
            self.step *= 2
            if offset % self.step:
                return
        self.pictures[len(self.indices)] = frame.image
        self.indices.append(frame.index)


def scan(video: Video, config: ScanConfig = ScanConfig()) -> Iterator[Shot]:
    """Yield the shots of a video in order; together they cover every frame once."""
    shot: list[_Step] = []
    for steps, cut in _stretches(_steps(video, config), config):
        sample = None
        del shot
        shot = []
        start = 0
        for offset, step in enumerate(steps):
            if sample is None:
                picture_bytes = step.frame.image.nbytes
                sample = _Sample(max(2, min(config.samples, SAMPLE_BYTES // picture_bytes) // 2 * 2))
                start = step.frame.index
            sample.add(step.frame, offset)
            shot.append(
                _Step(
                    Frame(step.frame.index, step.frame.time, _EMPTY),
                    _NOTHING,
                    step.camera,
                    step.moved,
                    step.tracked,
                    step.change,
                )
            )
        assert sample is not None and sample.pictures is not None
        still = _stands_still(shot, video, config)
        camera = np.stack([np.eye(3) if still else step.camera for step in shot])
        if cut:
            camera[0] = np.eye(3)
        yield Shot(
            start,
            start + len(shot),
            cut,
            still,
            np.array(sample.indices),
            sample.pictures[: len(sample.indices)],
            camera,
        )


_EMPTY = np.empty((0, 0, 3), np.uint8)
_NOTHING = _Glance(_EMPTY, _EMPTY, _EMPTY)


def _stretches(steps: Iterator[_Step], config: ScanConfig) -> Iterator[tuple[Iterator[_Step], bool]]:
    """Split a stream of steps at cuts and after `config.stretch` frames; yields (steps, begins with a cut)."""
    window: list[_Step] = []  # one frame before the next to go out, that frame, and what follows it
    before: _Step | None = None
    done = False

    def fill() -> None:
        nonlocal done
        while not done and len(window) < LOOK_AHEAD + 1:
            step = next(steps, None)
            if step is None:
                done = True
            else:
                window.append(step)

    def run() -> Iterator[_Step]:
        nonlocal before
        for count in range(config.stretch):
            fill()
            if not window or (count and before is not None and _is_cut(before, window, config)):
                return
            before = window.pop(0)
            yield before

    fill()
    cut = True
    while window:
        yield run(), cut
        fill()
        cut = bool(window) and before is not None and _is_cut(before, window, config)


def _is_cut(before: _Step, window: list[_Step], config: ScanConfig) -> bool:
    """Is the first frame of `window` the first of a new scene? Everything behind it must be new as well."""
    first = window[0]
    if first.tracked or first.change < config.cut_threshold:
        return False
    return all(_colour_change(before.glance, step.glance) >= config.cut_threshold for step in window)


def _steps(video: Video, config: ScanConfig) -> Iterator[_Step]:
    before: _Glance | None = None
    scale = max(1.0, max(video.working_width, video.working_height) / SMALL_SIDE)
    size = max(8, round(video.working_width / scale)), max(8, round(video.working_height / scale))
    ratio = np.diag([size[0] / video.working_width, size[1] / video.working_height, 1.0])
    for frame in video.frames():
        glance = _look(frame.image, size)
        if before is None:
            yield _Step(frame, glance, np.eye(3), 0.0, True, 0.0)
        else:
            small, tracked = _camera(before.grey, glance.grey)
            camera = np.linalg.inv(ratio) @ small @ ratio
            moved = _mean_motion(small, size)
            yield _Step(frame, glance, camera, moved, tracked, _colour_change(before, glance))
        before = glance


def _look(image: np.ndarray, size: tuple[int, int]) -> _Glance:
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)
    colours = cv2.calcHist([small], [0, 1, 2], None, [8, 8, 8], [0, 256, 0, 256, 0, 256]).ravel() / grey.size
    thumb = cv2.resize(small, (16, 16), interpolation=cv2.INTER_AREA).astype(np.float32)
    return _Glance(grey, colours, thumb)


def _colour_change(first: _Glance, second: _Glance) -> float:
    """Share of the picture whose colour is gone, 0 to 1."""
    return float(np.abs(first.colours - second.colours).sum() / 2)


def _camera(before: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, bool]:
    """Homography of the scene between two small grey pictures, and whether most corners were found again.

    Identity where the picture does not show that it moved: too few corners, or corners on a small part of it only.
    """
    still = np.eye(3)
    corners = cv2.goodFeaturesToTrack(before, MAX_CORNERS, 0.01, 5, blockSize=5)
    if corners is None or len(corners) < 12:
        return still, True
    moved, found, _ = cv2.calcOpticalFlowPyrLK(before, now, corners, None, winSize=(15, 15), maxLevel=3)
    back, found_back, _ = cv2.calcOpticalFlowPyrLK(now, before, moved, None, winSize=(15, 15), maxLevel=3)
    good = (found.ravel() > 0) & (found_back.ravel() > 0) & (np.abs(back - corners).max((1, 2)) < 0.7)
    if good.sum() < max(12, 0.3 * len(corners)):
        return still, False
    source, target = corners[good, 0], moved[good, 0]
    if np.median(np.abs(target - source).max(1)) < 0.05:
        return still, True
    cv2.setRNGSeed(0)
    matrix, inliers = cv2.findHomography(source, target, cv2.RANSAC, 1.0, maxIters=200)
    if matrix is None:
        return still, True
    fits = inliers.ravel() > 0
    if fits.sum() < 12 or not _widespread(source[fits], before.shape):
        return still, bool(fits.mean() > 0.3)
    stays = np.abs(target - source).max(1) < 0.3
    if stays.sum() >= fits.sum() or (stays.sum() >= 0.3 * len(stays) and _widespread(source[stays], before.shape)):
        return still, True
    return matrix, True


def _widespread(points: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Do points (N, 2) lie all over the picture, or at least over much of it?"""
    cells = (points * [GRID / shape[1], GRID / shape[0]]).astype(int)
    return len(np.unique(cells[:, 0] * GRID + cells[:, 1])) >= 12 and bool((np.ptp(cells, axis=0) >= GRID // 2).all())


def _mean_motion(matrix: np.ndarray, size: tuple[int, int]) -> float:
    """Mean distance in pixels that a grid of points moves under a homography."""
    x, y = np.meshgrid(np.linspace(0, size[0], 5), np.linspace(0, size[1], 5))
    points = np.stack([x, y], -1).reshape(-1, 1, 2)
    return float(np.linalg.norm(cv2.perspectiveTransform(points, matrix) - points, axis=-1).mean())


def _stands_still(shot: list[_Step], video: Video, config: ScanConfig) -> bool:
    """Does the camera stand still on most frames of a shot?"""
    scale = max(1.0, max(video.working_width, video.working_height) / SMALL_SIDE)
    moved = np.array([step.moved for step in shot[1:]]) * scale
    return not len(moved) or float(np.mean(moved > config.still_motion)) < 0.15
