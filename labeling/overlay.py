"""How do the labels look in motion?

Takes a store and the videos that were labeled and writes each as H.264 mp4 with boxes, instance numbers, category
colours and fading trails, at the times of the original frames. Frames stream through one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np

from labeling.drawing import Style, draw_tracks, draw_trail, enlarged
from labeling.folder import inside
from labeling.palette import category_colours
from labeling.places import Place, fetched, on_disk, place
from labeling.store import Store, StoreError, VideoLabels
from labeling.video import Frame, Video, VideoError

SMALLEST = 480  # the longest side is enlarged to this at least: below, lines and numbers cannot be told apart
LARGEST = 1920  # and reduced to this at most, which every player can show
CLOCK = 90_000  # ticks a second: divides the time of a frame at all usual rates, 30000/1001 included
TRAIL_SECONDS = 1.5
TRAIL_FRAMES = 48  # at most; a high-speed video has many frames in a second and a half
QUALITY = {"crf": "20", "preset": "veryfast"}

Progress = Callable[[str, int, int], None]  # video id, frames done, frames in all


def write_overlays(
    store: Store, out: Path, videos: str | Place | None = None, only: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[Path]:  # fmt: skip
    """Write one mp4 per labeled video into the folder `out`, and return their paths.

    Args:
        store: The labels.
        out: A folder; created if needed.
        videos: Where the videos are now, if not where they were when they were labeled.
        only: Ids, source paths or stems of the videos wanted; empty: all.
        progress: Hears of every frame.

    Raises:
        StoreError: A video is not in the store, or its file is not where it was labeled.
        VideoError: A video is not the one that was labeled, cannot be decoded, or is said to be outside of the folder.
    """
    chosen = [_find(store, key) for key in only] or [store[id] for id in store]
    folder = place(videos) if videos else store.videos_folder
    sources = [inside(folder, labels.source) for labels in chosen]
    missing = [source for source in sources if not source.exists()]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise StoreError(f"{missing[0]}{others} cannot be found. Give the folder of the videos with --videos.")
    out = on_disk(out, "the folder of the overlays")
    out.mkdir(parents=True, exist_ok=True)
    colours = category_colours(store)
    paths = []
    for labels, source in zip(chosen, sources, strict=True):
        path = out / _name(labels.id, store)
        if isinstance(source, Path) and path.exists() and path.samefile(source):
            raise StoreError(f"{path} is the video itself and would be overwritten. Choose another folder with --out.")
        part = path.with_name(f".{path.stem}.part.mp4")
        try:
            kinds = [colours.get(int(kind), colours[-1]) for kind in labels.tracks.category]
            with fetched(source) as file:
                part.unlink(missing_ok=True)  # left behind, or a link that leads elsewhere
                _encode(_drawn(labels, file, kinds, progress), labels, part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        paths.append(path)
    return paths


def _find(store: Store, key: str) -> VideoLabels:
    try:
        return store[key]
    except KeyError as error:
        raise StoreError(f"{error.args[0]}. See spectrabox show {store.path} for what it holds.") from error


def _name(id: str, store: Store) -> str:
    """A file name for the overlay of a video; a folder of pictures `a` may lie beside `a.mp4`."""
    if id.endswith(".mp4"):
        return id
    return f"{id}.overlay.mp4" if f"{id}.mp4" in store.ids else f"{id}.mp4"


def _drawn(labels: VideoLabels, path: Path, colours: Sequence[str], progress: Progress | None) -> Iterator[Frame]:
    """The frames of a video with its labels drawn."""
    video = Video(path, LARGEST)
    if (video.height, video.width) != labels.size:
        raise VideoError(
            f"{path} has {video.width} x {video.height} pixels, the video that was labeled has {labels.size[1]} x "
            f"{labels.size[0]}. Label it again, or give the folder of the original with --videos."
        )
    if video.sha256() != labels.attributes["sha256"]:
        raise VideoError(
            f"{path} is not the video that was labeled: it has changed since. Label it again, or give the folder of "
            "the original with --videos."
        )
    tracks = labels.tracks
    tags = [str(number) for number in tracks.instance]
    centres = (tracks.boxes[..., :2] + tracks.boxes[..., 2:]) / 2
    rate = float(labels.attributes.get("fps") or video.fps)
    reach = int(np.clip(round(TRAIL_SECONDS * rate), 2, TRAIL_FRAMES))
    for frame in video.frames():
        image, factor = enlarged(frame.image, SMALLEST)
        image = _even(image)
        style = Style.for_size(*image.shape[:2])
        scale = np.array([factor * video.working_width / video.width, factor * video.working_height / video.height])
        if frame.index < labels.frames:
            recent = slice(max(0, frame.index - reach), frame.index + 1)
            for track in range(len(tracks)):
                if np.isfinite(centres[frame.index, track, 0]):
                    draw_trail(image, centres[recent, track] * scale, colours[track], style)
            draw_tracks(image, tracks.boxes[frame.index] * np.tile(scale, 2), tags, colours, style)
        if progress:
            progress(labels.id, frame.index + 1, labels.frames)
        yield Frame(frame.index, frame.time, image)


def _even(image: np.ndarray) -> np.ndarray:
    """A copy of `image` that may be drawn on, with even sides: colour has half the resolution in yuv420p."""
    height, width = image.shape[:2]
    return cv2.copyMakeBorder(image, 0, height % 2, 0, width % 2, cv2.BORDER_REPLICATE)


def _encode(frames: Iterator[Frame], labels: VideoLabels, path: Path) -> None:
    """Write frames at their times; each lasts until the next, the last as long as frames do on average."""
    rate = Fraction(float(labels.attributes.get("fps") or 24)).limit_denominator(1001)
    usual = max(1, round(CLOCK / rate))
    with av.open(str(path), "w", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=rate, options=QUALITY)
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = Fraction(1, CLOCK)
        held: av.VideoFrame | None = None
        shown = -1  # when the held frame is
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(frame.image, format="rgb24")
            tick = max(round(frame.time * CLOCK), shown + 1)  # two frames at one time would end the file
            picture.time_base, picture.pts = Fraction(1, CLOCK), tick
            if held is None:
                stream.height, stream.width = frame.image.shape[:2]
            else:
                held.duration = tick - shown
                container.mux(stream.encode(held))
            held, shown = picture, tick
        if held is not None:
            held.duration = usual
            container.mux(stream.encode(held))
        container.mux(stream.encode(None))
