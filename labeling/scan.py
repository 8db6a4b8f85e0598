"""What kind of video is this?

One pass that finds scene cuts, tells a still camera from a moving one, and keeps a sparse sample of pictures. It
yields shots one after another, so that a reader behind it needs the memory of one shot's sample and no more. Frames of
short shots, and of shots whose camera moves, come along: only a long still shot has to be decoded again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import cv2
import numpy as np
from pydantic import BaseModel, Field

from labeling.camera import SmallCopies, camera_motion, mean_motion, share_unmoved
from labeling.video import Frame, Video

SAMPLE_BYTES = 100_000_000  # memory that one shot's sample may take
KEPT_BYTES = 100_000_000  # memory that the frames of a shot may take before it must be known whether they are needed
COLOURS = 5  # levels of red, green and blue in which colours are counted: few, for tiny pictures have few pixels
DECIDE = 24  # frames after which a camera that moves is known to, and after which corners are followed no more
LOOK_AHEAD = 2  # frames seen behind a candidate cut: a flash is over by then, a new scene is not
SEEMS_STILL = 0.45  # share of textured cells unmoved since the last frame: no need to look for camera motion
APART = 10  # frames between pictures compared for a shot's stillness: by then a slow camera has moved as well
STAYS = 0.1  # share of textured cells that stay in their place over that time if the camera stands still
MOST = 0.5  # share that settles it, however few cells are textured
MIN_CELLS = 16  # with fewer textured cells the corners decide
MOVES = 0.5  # pixels from which on a camera motion counts as one
MOST_PAIRS = 8  # pairs of pictures in which corners are followed to decide
SOME = 0.2  # share of a shot's moments that the camera may move, or seem to, in a still shot
FOLLOWED = 0.35  # share of corners found again from which on two frames show the same scene
FULL_CHANGE = 0.6  # share of changed colours that is a cut even where there are no corners to follow


class ScanConfig(BaseModel, extra="forbid", frozen=True):
    """How a video is cut into shots."""

    samples: int = Field(48, ge=2, description="Most pictures kept of one shot.")
    stretch: int = Field(3000, ge=16, description="Longer shots come in stretches of this many frames.")
    cut_change: float = Field(0.3, gt=0, le=1, description="Share of the colours that must change in a scene cut.")


DEFAULT = ScanConfig()


@dataclass(frozen=True)
class Shot:
    """A stretch of frames without a scene cut; long shots come in several stretches."""

    start: int
    stop: int  # exclusive
    cut: bool  # a new scene begins here: nothing carries over from before
    still: bool  # the camera stands still
    samples: np.ndarray  # (K,) indices of the sampled frames
    pictures: np.ndarray  # (K, H, W, 3) uint8, those frames at the working size
    frames: tuple[Frame, ...] | None  # all its frames; None: too many to keep, they have to be decoded again


Scan = Iterable[Shot]


class ShotReader:
    """The frames of a scan's shots, one shot after another: those that came along, or else decoded again."""

    def __init__(self, video: Video) -> None:
        self._again = video.frames()

    def frames(self, shot: Shot) -> Iterator[Frame]:
        """The frames of the next shot."""
        if shot.frames is not None:
            yield from shot.frames
            return
        for frame in self._again:
            if frame.index >= shot.start:
                yield frame
            if frame.index + 1 == shot.stop:
                return


@dataclass(slots=True)
class _Step:
    """A frame on its way into a shot, and how it differs from the frame before."""

    frame: Frame
    grey: np.ndarray  # (h, w) uint8, the small copy
    colours: np.ndarray  # (COLOURS ** 3,) float32, share of each colour
    camera: np.ndarray  # (3, 3) in working pixels
    followed: float | None  # share of corners found again; None if there are too few to tell


@dataclass
class _Sample:
    """Every step-th picture of a shot; the step doubles whenever the room is full."""

    room: int
    step: int = 1
    indices: list[int] = field(default_factory=list)
    greys: list[np.ndarray] = field(default_factory=list)
    pictures: np.ndarray | None = None

    def add(self, step: _Step, offset: int) -> None:
        if offset % self.step:
            return
        if self.pictures is None:
            self.pictures = np.empty((self.room, *step.frame.image.shape), np.uint8)
        if len(self.indices) == self.room:
            self.indices, self.greys = self.indices[::2], self.greys[::2]
            for place in range(1, len(self.indices)):
                self.pictures[place] = self.pictures[2 * place]
            self.step *= 2
            if offset % self.step:
                return
        self.pictures[len(self.indices)] = step.frame.image
        self.indices.append(step.frame.index)
        self.greys.append(step.grey)


def scan(video: Video, config: ScanConfig = DEFAULT) -> Iterator[Shot]:
    """Yield the shots of a video in order; together they cover every frame once."""
    picture_bytes = video.working_height * video.working_width * 3
    room = max(2, min(config.samples, SAMPLE_BYTES // picture_bytes))
    keep = max(DECIDE, min(config.stretch, KEPT_BYTES // picture_bytes))
    watch = _Watch(video, config)
    for steps, cut in _stretches(watch.steps(), config):
        if cut:
            watch.moving = False
        yield from _shots(steps, cut, room, keep, watch)


def _shots(steps: Iterator[_Step], cut: bool, room: int, keep: int, watch: _Watch) -> Iterator[Shot]:
    """The shots of one stretch: one, or a row of short ones as soon as the camera is known to move."""
    sample, cameras = _Sample(room), [np.eye(3)]
    kept: list[Frame] | None = []
    start = stop = -1
    for step in steps:
        start = step.frame.index if start < 0 else start
        stop = step.frame.index + 1
        if not watch.moving:
            sample.add(step, step.frame.index - start)
            cameras += [step.camera] if step.frame.index > start else []
        if kept is None:
            continue
        kept.append(step.frame)
        if len(kept) in (DECIDE, keep):
            watch.moving = watch.moving or not _stands_still(sample, cameras)
            if watch.moving:
                yield _moving(kept, cut)
                cut, start, kept = False, stop, []
            elif len(kept) == keep:
                kept = None
    if stop <= start:
        return
    if watch.moving and kept:
        yield _moving(kept, cut)
        return
    assert sample.pictures is not None
    still = _stands_still(sample, cameras)
    pictures = sample.pictures[: len(sample.indices)]
    yield Shot(start, stop, cut, still, np.array(sample.indices), pictures, None if kept is None else tuple(kept))


def _moving(frames: list[Frame], cut: bool) -> Shot:
    """A stretch of a shot whose camera moves; nobody needs a sample of it."""
    first = frames[0]
    start, stop = first.index, frames[-1].index + 1
    return Shot(start, stop, cut, False, np.array([first.index]), first.image[None], tuple(frames))


def _stands_still(sample: _Sample, cameras: list[np.ndarray]) -> bool:
    """Does part of the scene stay in its place, or at least not move as a whole?

    Large moving objects leave some of the scene in its place, a moving camera none. Where objects are all there is to
    see (balls on an empty floor), nothing may stay, but neither does one camera motion explain it.
    """
    gap = -(-APART // sample.step)
    pairs = list(zip(sample.greys, sample.greys[gap:], strict=False)) or [(sample.greys[0], sample.greys[-1])]
    unmoved, cells = np.array([share_unmoved(before, now) for before, now in pairs]).T
    usual, at_worst = np.median(unmoved), np.quantile(unmoved, SOME)
    textured = np.median(cells) >= MIN_CELLS
    if usual >= MOST or (at_worst >= STAYS and textured):
        return True
    assert sample.pictures is not None
    height, width = sample.pictures.shape[1:3]
    if np.mean([mean_motion(matrix, width, height) > MOVES for matrix in cameras]) >= SOME:
        return False
    if not textured:
        return True
    height, width = sample.greys[0].shape
    some = pairs[:: -(-len(pairs) // MOST_PAIRS)]
    moves = [mean_motion(camera_motion(before, now)[0], width, height) > MOVES for before, now in some]
    return float(np.mean(moves)) < SOME


def _stretches(steps: Iterator[_Step], config: ScanConfig) -> Iterator[tuple[Iterator[_Step], bool]]:
    """Split a stream of steps at cuts and after `config.stretch` frames; yields (steps, begins with a cut)."""
    ahead: deque[_Step] = deque()
    before: _Step | None = None

    def fill() -> None:
        while len(ahead) <= LOOK_AHEAD and (step := next(steps, None)) is not None:
            ahead.append(step)

    def stretch() -> Iterator[_Step]:
        nonlocal before
        for count in range(config.stretch):
            fill()
            if not ahead or (count and before is not None and _is_cut(before, ahead, config)):
                return
            before = ahead.popleft()
            yield before

    fill()
    while ahead:
        yield stretch(), before is None or _is_cut(before, ahead, config)
        fill()


def _is_cut(before: _Step, ahead: Iterable[_Step], config: ScanConfig) -> bool:
    """Does a new scene begin with the first frame of `ahead`? All that follows it must be new as well: no flash."""
    first, *_ = ahead
    if first.followed is not None and first.followed >= FOLLOWED:
        return False
    needed = FULL_CHANGE if first.followed is None else config.cut_change
    return all(_colour_change(before.colours, step.colours) >= needed for step in ahead)


class _Watch:
    """Looks at every frame of a video in turn; once the camera is known to move, only for cuts."""

    def __init__(self, video: Video, config: ScanConfig) -> None:
        self._video, self._cut_change = video, config.cut_change
        self.moving = False

    def steps(self) -> Iterator[_Step]:
        """Every frame, and how it differs from the one before."""
        video = self._video
        copies = SmallCopies(video.working_height, video.working_width)
        before: _Step | None = None
        for frame in video.frames():
            small = copies.of(frame.image)
            grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)
            some = cv2.resize(small, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_NEAREST)  # enough to count colours
            colours = cv2.calcHist([some], [0, 1, 2], None, [COLOURS] * 3, [0, 256] * 3).ravel()
            step = _Step(frame, grey, colours / max(1.0, colours.sum()), np.eye(3), 1.0)
            if before is not None and self._matters(before, step):
                camera, step.followed = camera_motion(before.grey, grey)
                step.camera = copies.enlarged(camera)
            yield step
            before = step

    def _matters(self, before: _Step, now: _Step) -> bool:
        """Does it matter how the camera moved, for a cut or for the kind of shot?"""
        if self.moving:
            return _colour_change(before.colours, now.colours) >= self._cut_change
        return share_unmoved(before.grey, now.grey)[0] < SEEMS_STILL


def _colour_change(first: np.ndarray, second: np.ndarray) -> float:
    """Share of the picture whose colour is gone, 0 to 1."""
    return float(np.abs(first - second).sum() / 2)
