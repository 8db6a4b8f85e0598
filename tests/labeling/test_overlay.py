"""Overlays show boxes where they are, when they are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
import zarr

from labeling.drawing import Style, draw_box, draw_tracks, draw_trail, enlarged
from labeling.overlay import write_overlays
from labeling.palette import COLOURS, colour_of, ink, rgb
from labeling.store import Store, StoreError
from labeling.video import Video, VideoError

MakeStore = Callable[..., Store]


def near(image: np.ndarray, colour: str) -> np.ndarray:
    return np.abs(image.astype(int) - rgb(colour)).max(-1) < 60


def test_every_video_becomes_an_mp4_of_legible_size_and_equal_length(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store("squares.mp4", "more/squares.mkv")
    seen = []
    paths = write_overlays(store, tmp_path / "out", progress=lambda *heard: seen.append(heard))
    assert len({path.name for path in paths}) == 2
    assert seen[23] == (store.ids[0], 24, 24)
    for path in paths:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
            assert (stream.width, stream.height, round(float(stream.average_rate))) == (480, 320, 12)
            assert len(list(container.decode(stream))) == 24


def test_boxes_are_drawn_in_their_category_colours(make_store: MakeStore, tmp_path: Path) -> None:
    (path,) = write_overlays(make_store(), tmp_path)
    frames = [frame.image for frame in Video(path).frames()]
    left_edge = frames[20][40:120, 198:203]
    assert near(left_edge, colour_of(0)).any(1).mean() > 0.9
    assert not near(frames[12], colour_of(1)).any(), "the second square is away on this frame"


def test_frames_keep_their_times(
    make_store: MakeStore, write_video: Callable[[Path, list[float]], None], tmp_path: Path
) -> None:
    store = make_store()
    times = [0.0, 0.5, 0.51, 0.6, *(1.0 + 0.1 * step for step in range(20))]
    write_video(tmp_path / "videos" / "squares.mp4", times)
    now = hashlib.sha256((tmp_path / "videos" / "squares.mp4").read_bytes()).hexdigest()
    zarr.open_group(str(store.path))["videos/squares.mp4"].attrs["sha256"] = now
    (path,) = write_overlays(store, tmp_path / "out")
    assert [frame.time for frame in Video(path).frames()] == pytest.approx(times, abs=1e-4)


def test_missing_videos_are_named_with_the_remedy(make_store: MakeStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"squares\.mp4 cannot be found.*--videos"):
        write_overlays(make_store(videos=False), tmp_path / "out")


def test_videos_that_moved_are_found_where_the_user_says(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    (tmp_path / "videos").rename(tmp_path / "moved")
    assert len(write_overlays(store, tmp_path / "out", videos=tmp_path / "moved", only=["squares"])) == 1
    with pytest.raises(StoreError, match="no video 'other'"):
        write_overlays(store, tmp_path / "out", videos=tmp_path / "moved", only=["other"])


def test_a_store_cannot_lead_out_of_the_folder(misled_store: tuple[Store, str], tmp_path: Path) -> None:
    store, source = misled_store
    with pytest.raises(VideoError, match=rf"{source} leads out of .*videos"):
        write_overlays(store, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_original_is_never_overwritten(make_store: MakeStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="would be overwritten"):
        write_overlays(make_store(), tmp_path / "videos")


def test_another_video_of_that_name_is_refused(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    (labels,) = write_overlays(store, tmp_path / "out")
    labels.rename(tmp_path / "videos" / "squares.mp4")
    with pytest.raises(VideoError, match="480 x 320"):
        write_overlays(store, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("box", [(-30, -30, 20, 20), (90, 50, 300, 200), (200, 200, 300, 300), (3.2, 4.8, 3.4, 5.1)])
def test_boxes_at_and_beyond_the_edge_are_drawn_as_far_as_they_are_seen(box: tuple[float, ...]) -> None:
    image = np.zeros((64, 96, 3), np.uint8)
    draw_tracks(image, np.array([box, [np.nan] * 4]), ["1234", "2"], COLOURS, Style.for_size(64, 96))
    draw_trail(image, np.array([[-5, -5], [200, 100], [np.nan, np.nan], [3, 3]]), COLOURS[0], Style(1, 11))


def test_a_box_lies_on_the_edges_of_its_pixels() -> None:
    image, factor = enlarged(np.zeros((8, 8, 3), np.uint8), 80)
    draw_box(image, np.array([2, 2, 6, 6]) * factor, "#ffffff", Style(2, 11))
    lit = np.flatnonzero(image[40, :, 0] > 128)
    assert (lit[lit < 40].mean() + 0.5, lit[lit > 40].mean() + 0.5) == (20, 60)


def test_colours_are_distinct_and_carry_readable_text() -> None:
    colours = [colour_of(category) for category in range(-1, 40)]
    assert len(set(colours)) == len(colours)
    assert {ink("#ffffff"), ink("#f5a524"), ink("#000000")} == {"#000000", "#ffffff"}


def test_another_video_of_the_same_size_is_not_drawn_on(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    path = tmp_path / "videos" / "squares.mp4"
    path.write_bytes(path.read_bytes() + b"\0" * 9)
    with pytest.raises(VideoError, match=r"squares\.mp4 is not the video that was labeled"):
        write_overlays(store, tmp_path / "out")
