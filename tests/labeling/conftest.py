"""A small label store with its videos: a red square that moves right, and a blue one that is away for a while."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import av
import numpy as np
import pytest
import zarr

from labeling.folder import video_id
from labeling.masks import Mask, encode_runs
from labeling.observations import ARRAYS, array_width
from labeling.palette import colour_of
from labeling.run import label_folder
from labeling.store import SCHEMA, Store, write_array, write_tracks
from labeling.stored_vocabulary import write_vocabulary
from labeling.tracks import UNASSIGNED, Tracks
from labeling.vocabulary import VocabularyConfig, discover

FRAMES, HEIGHT, WIDTH, RATE = 24, 64, 96, 12
SIDE = 16
COLOURS = ((220, 40, 40), (40, 60, 220))


def square_at(frame: int, track: int) -> tuple[int, int] | None:
    """Left and top of a square; the second is away on frames 8 to 15."""
    if track == 1 and 8 <= frame < 16:
        return None
    return (2 * frame, 8) if track == 0 else (70 - 2 * frame, 40)


def picture(frame: int) -> np.ndarray:
    image = np.full((HEIGHT, WIDTH, 3), 235, np.uint8)
    for track, colour in enumerate(COLOURS):
        if place := square_at(frame, track):
            image[place[1] : place[1] + SIDE, place[0] : place[0] + SIDE] = colour
    return image


def encode_video(path: Path, times: Sequence[float] | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    times = times or [frame / RATE for frame in range(FRAMES)]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"crf": "12"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 12000)
        for index, time in enumerate(times):
            frame = av.VideoFrame.from_ndarray(picture(index), format="rgb24")
            frame.pts, frame.time_base = round(time * 12000), Fraction(1, 12000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def tracks_of(count: int, category: Sequence[int], times: Sequence[float] | None = None) -> Tracks:
    boxes = np.full((FRAMES, count, 4), np.nan, np.float32)
    for frame in range(FRAMES):
        for track in range(count):
            if place := square_at(frame, track):
                boxes[frame, track] = *place, place[0] + SIDE, place[1] + SIDE
    centre, away = (boxes[..., :2] + boxes[..., 2:]) / 2, np.isnan(boxes[..., 0])
    oriented = np.concatenate([centre, np.full((FRAMES, count, 2), SIDE), np.zeros((FRAMES, count, 1))], 2)
    oriented[away] = np.nan
    score = np.where(away, np.nan, 0.9).astype(np.float32)
    time = np.asarray(times or np.arange(FRAMES) / RATE, np.float64)
    return Tracks(
        time, boxes, oriented.astype(np.float32), centre, score, np.asarray(category, np.int32),
        np.arange(1, count + 1, dtype=np.int32), np.linspace(0.8, 0.4, count, dtype=np.float32),
    )  # fmt: skip


def write_masks(group: zarr.Group, tracks: Tracks, shrink: int) -> None:
    height, width = HEIGHT // shrink, WIDTH // shrink
    runs = []
    for box in tracks.boxes.reshape(-1, 4):
        x1, y1, x2, y2 = (0, 0, 0, 0) if np.isnan(box[0]) else (box / shrink).astype(int)
        solid = np.full((y2 - y1, x2 - x1), 255, np.uint8)
        runs.append(encode_runs(Mask(x1, y1, solid), height, width) if x2 else np.zeros(0, np.uint32))
    write_array(group, "counts", np.concatenate(runs))
    write_array(group, "offsets", np.cumsum([0, *(len(run) for run in runs)]).astype(np.int64))
    group.attrs["size"] = [height, width]


def write_labels(
    root: zarr.Group, source: str, category: Sequence[int], masks: bool, shrink: int, sha256: str = "0" * 64
) -> None:
    group = root.create_group(f"videos/{video_id(source)}")
    tracks = tracks_of(2, category)
    write_tracks(group, tracks)
    write_tracks(group.create_group("dropped"), tracks_of(1, [UNASSIGNED]).select(np.array([0])))
    group["dropped/instance"][:] = 7
    if masks:
        write_masks(group.create_group("masks"), tracks, shrink)
    reason = {"instance": 7, "reason": "static", "detail": "stays within 0.4 pixels", "frames": FRAMES}
    group.attrs.update({
        "source": source, "sha256": sha256, "fps": float(RATE), "frames": FRAMES, "height": HEIGHT, "width": WIDTH,
        "recipe": "labels", "dropped": [reason], "cuts": [], "complete": True,
    })  # fmt: skip
    stage = root.create_group(f"stages/{video_id(source)}")
    for name, (kind, _) in ARRAYS.items():
        write_array(stage, name, np.zeros((0, array_width(name)), kind))
    write_array(stage, "counts", np.zeros(0, np.uint32))
    write_array(stage, "time", tracks.time)
    rng = np.random.default_rng(0)
    views = np.concatenate([np.eye(4)[kind] + 0.02 * rng.standard_normal((10, 4)) for kind in (0, 1)])
    write_array(stage, "embedding", views.astype(np.float32))
    write_array(stage, "embedding_track", np.repeat([1, 2], 10).astype(np.int32))
    write_array(stage, "overlap", np.zeros((0, 4)))
    stage.attrs["complete"] = True


def build_store(
    folder: Path, *sources: str, category: Sequence[int] = (0, 1), masks: bool = True, shrink: int = 1,
    videos: bool = True, failures: dict[str, str] | None = None,
) -> Store:  # fmt: skip
    """Make `labels.zarr` in `folder`, its videos in `videos` there; `shrink` makes masks smaller than the video."""
    root = zarr.open_group(str(folder / "labels.zarr"), mode="w", zarr_format=3)
    for source in sources or ("squares.mp4",):
        sha256 = "0" * 64
        if videos:
            encode_video(folder / "videos" / source)
            sha256 = hashlib.sha256((folder / "videos" / source).read_bytes()).hexdigest()
        write_labels(root, source, category, masks, shrink, sha256)
    views = np.asarray(next(group for _, group in root["stages"].groups())["embedding"])
    write_vocabulary(root, discover(views, VocabularyConfig()), "vocabulary")
    table = [
        {"id": kind, "name": f"object-{kind + 1}", "colour": colour_of(kind), "size": 1, "kept": True}
        for kind in (0, 1)
    ]
    root.attrs.update({
        "schema": SCHEMA, "profile": "embedded", "recipe": "recipe", "videos": str(folder / "videos"),
        "categories": table, "failures": failures or {},
    })  # fmt: skip
    return Store(folder / "labels.zarr")


@pytest.fixture
def silent(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """FFmpeg, OpenCV and libpng keep quiet whatever they are fed."""
    yield
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[..., Store]:
    """Make a store in `tmp_path`, with options of `build_store`."""
    return partial(build_store, tmp_path)


@pytest.fixture(params=["relative", "absolute"])
def misled_store(make_store: Callable[..., Store], tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Store, str]:
    """A store from elsewhere, and where it says its last video is: at a real one, out of the folder."""
    store = make_store("squares.mp4", "z.mp4")
    hidden = (tmp_path / "videos" / "z.mp4").rename(tmp_path / "hidden.mp4")
    source = str(hidden) if request.param == "absolute" else "../hidden.mp4"
    zarr.open_group(str(store.path), mode="r+")["videos/z.mp4"].attrs["source"] = source
    return Store(store.path), source


@pytest.fixture(scope="session")
def sound_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a valid store without videos, to be copied and never changed."""
    return build_store(tmp_path_factory.mktemp("sound"), videos=False).path


@pytest.fixture
def write_video() -> Callable[..., None]:
    """Write the video of the squares to a path, with frames at given times."""
    return encode_video


@pytest.fixture(scope="module")
def reference(videos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The labels of all videos, found by one worker. Not to be changed."""
    out = tmp_path_factory.mktemp("reference") / "labels.zarr"
    summary = label_folder(videos, out, workers=1)
    assert not summary.failed
    assert not summary.up_to_date
    return out
