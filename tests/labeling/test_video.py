"""Every video is read right: all frames, in order, upright, in RGB, at their times."""

import gc
import os

import av
import numpy as np
import pytest

from labeling.video import Video, VideoError
from tests.labeling import odd_videos
from tests.labeling.odd_videos import noisy, pictures, video
from tests.labeling.reading import read, refusal

pytestmark = pytest.mark.usefixtures("silent")

CONTAINERS = [
    ("clip.mp4", "libx264", "yuv420p"),
    ("clip.mov", "libx264", "yuv420p"),
    ("clip.m4v", "libx264", "yuv420p"),
    ("CLIP.MP4", "libx264", "yuv420p"),
    ("hevc.mp4", "libx265", "yuv420p"),
    ("clip.avi", "mpeg4", "yuv420p"),
    ("mjpeg.avi", "mjpeg", "yuvj420p"),
    ("b_frames.avi", "libx264", "yuv420p"),
    ("clip.mkv", "ffv1", "yuv420p"),
    ("vp9.webm", "libvpx-vp9", "yuv420p"),
    ("vp8.webm", "libvpx", "yuv420p"),
    ("clip.gif", "gif", "rgb8"),
]
WHERE = ["upper left", "upper right", "lower left", "lower right"]
VARIED = [0.0, 0.1, 0.5, 0.6, 1.5, 1.55]


def bright_corner(image):
    """Where the mark of the test picture is."""
    height, width = image.shape[0] // 8, image.shape[1] // 8
    corners = [image[:height, :width], image[:height, -width:], image[-height:, :width], image[-height:, -width:]]
    return WHERE[int(np.argmax([corner.mean() for corner in corners]))]


@pytest.mark.parametrize(("name", "codec", "pix_fmt"), CONTAINERS)
def test_every_container_gives_all_frames_in_order(tmp_path, name, codec, pix_fmt):
    made = pictures()
    opened = Video(video(tmp_path / name, made, codec, pix_fmt))
    frames = list(opened.frames())
    assert [frame.index for frame in frames] == list(range(12))
    np.testing.assert_allclose([frame.time for frame in frames], np.arange(12) / 10, atol=0.002)
    assert (opened.height, opened.width, opened.fps) == (48, 64, 10)
    error = [np.abs(frame.image.astype(int) - image).mean() for frame, image in zip(frames, made, strict=True)]
    assert max(error) < (20 if codec == "gif" else 8)  # eight bits a pixel


@pytest.mark.parametrize("sound", [False, True])
def test_sound_beside_the_pictures_does_not_matter(tmp_path, sound):
    assert len(read(video(tmp_path / "clip.mp4", sound=sound))) == 12


@pytest.mark.parametrize(
    ("name", "container"), [("a.mp4", "webm"), ("a.avi", "mp4"), ("a.gif", "matroska"), ("a", "mov")]
)
def test_the_content_counts_not_the_suffix(tmp_path, name, container):
    codec = "libvpx-vp9" if container == "webm" else "libx264"
    assert len(read(video(tmp_path / name, codec=codec, container=container))) == 12


def test_a_raw_stream_without_a_clock_runs_at_its_frame_rate(tmp_path):
    opened = Video(video(tmp_path / "raw.mp4", container="h264"))
    np.testing.assert_allclose([frame.time for frame in opened.frames()], np.arange(12) / opened.fps)


@pytest.mark.parametrize(("name", "codec", "pix_fmt"), CONTAINERS)
@pytest.mark.parametrize("read_before", [False, True])
def test_reading_may_start_anywhere(tmp_path, name, codec, pix_fmt, read_before):
    opened = Video(video(tmp_path / name, pictures(40), codec, pix_fmt, g="8"))
    whole = list(Video(opened.path).frames())
    if read_before:
        assert len(list(opened.frames())) == 40
    for start in (1, 7, 8, 22, 39):
        late = list(opened.frames(start))
        assert [frame.index for frame in late] == list(range(start, 40))
        for frame, expected in zip(late, whole[start:], strict=True):
            np.testing.assert_array_equal(frame.image, expected.image)
            assert frame.time == pytest.approx(expected.time)
    assert list(opened.frames(start=99)) == []


def test_reading_late_does_not_decode_all_before(tmp_path, monkeypatch):
    opened = Video(video(tmp_path / "clip.mp4", pictures(200), g="10"))
    monkeypatch.setattr("labeling.video.Video._decode", lambda self: pytest.fail("decodes from the start"))
    assert [frame.index for frame in opened.frames(start=195)] == [195, 196, 197, 198, 199]


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt"),
    [
        ("v.mp4", "libx264", "yuv420p"), ("v.mkv", "libx264", "yuv420p"), ("v.webm", "libvpx-vp9", "yuv420p"),
        ("v.gif", "gif", "rgb8"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_a_variable_frame_rate_keeps_its_times(tmp_path, name, codec, pix_fmt, offset):
    times = [time + offset for time in VARIED]
    frames = read(video(tmp_path / name, pictures(6), codec, pix_fmt, times=times))
    np.testing.assert_allclose([frame.time for frame in frames], VARIED, atol=1e-3)


@pytest.mark.parametrize(
    ("turn", "corner"),
    [(0, "upper left"), (90, "upper right"), (180, "lower right"), (270, "lower left"), ("mirrored", "upper right")],
)
def test_turned_and_mirrored_videos_come_out_upright(tmp_path, turn, corner):
    opened = Video(odd_videos.turned(video(tmp_path / "clip.mp4"), turn))
    frame = next(iter(opened.frames()))
    assert bright_corner(frame.image) == corner
    assert (opened.width, opened.height) == ((48, 64) if turn in (90, 270) else (64, 48))
    assert frame.image.shape == (opened.height, opened.width, 3)
    assert frame.image.flags.c_contiguous


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt"),
    [
        ("grey.mkv", "ffv1", "gray"), ("grey16.mkv", "ffv1", "gray16le"), ("grey.mp4", "libx265", "gray"),
        ("ten.mp4", "libx264", "yuv420p10le"), ("ten_hevc.mp4", "libx265", "yuv420p10le"),
        ("prores.mov", "prores_ks", "yuv422p10le"), ("full.mp4", "libx264", "yuvj420p"),
        ("alpha.webm", "libvpx-vp9", "yuva420p"), ("alpha.mkv", "ffv1", "bgra"),
    ],
)  # fmt: skip
def test_grey_ten_bit_and_transparent_videos_are_rgb_of_eight_bits(tmp_path, name, codec, pix_fmt):
    made = pictures()
    frames = read(video(tmp_path / name, made, codec, pix_fmt))
    assert frames[0].image.dtype == np.uint8
    assert np.abs(np.stack([frame.image for frame in frames]).astype(int) - made).mean() < 4


def test_monochrome_h264_is_read_as_grey(tmp_path):
    image = read(video(tmp_path / "grey.mp4", pix_fmt="gray"))[0].image
    assert np.ptp(image, axis=2).max() == 0
    assert bright_corner(image) == "upper left"


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt"),
    [
        ("o.mp4", "libx264", "yuv444p"), ("o.mov", "png", "rgb24"), ("o.webm", "libvpx-vp9", "yuv420p"),
        ("o.gif", "gif", "rgb8"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("height", "width"), [(33, 65), (1, 1), (3, 200), (201, 2)])
def test_odd_sizes(tmp_path, name, codec, pix_fmt, height, width):
    opened = Video(video(tmp_path / name, pictures(3, height, width), codec, pix_fmt))
    frames = list(opened.frames())
    assert (opened.height, opened.width, len(frames)) == (height, width, 3)
    assert frames[0].image.shape == (height, width, 3)


def test_one_frame_is_a_video(tmp_path):
    assert [frame.time for frame in read(video(tmp_path / "one.mp4", pictures(1)))] == [0.0]


@pytest.mark.parametrize(("longest", "shape"), [(100, (75, 100)), (50, (38, 50)), (3, (2, 3))])
def test_large_videos_come_at_the_working_size(tmp_path, longest, shape):
    opened = Video(video(tmp_path / "large.mp4", pictures(3, 120, 160)), longest_side=longest)
    image = next(iter(opened.frames())).image
    assert image.shape[:2] == shape == (opened.working_height, opened.working_width)
    assert opened.scale == pytest.approx(160 / longest)
    assert (opened.height, opened.width) == (120, 160)


def test_a_video_may_change_its_resolution_but_not_its_shape(tmp_path):
    frames = read(odd_videos.size_change(tmp_path / "call.mp4", ((48, 64), (96, 128), (24, 32))))
    assert {frame.image.shape for frame in frames} == {(48, 64, 3)}
    assert {bright_corner(frame.image) for frame in frames} == {"upper left"}
    message = refusal(odd_videos.size_change(tmp_path / "cut.mp4", ((48, 64), (64, 48))))
    assert "frame 6 has 48x64 pixels, the first 64x48" in message


def test_frames_hidden_by_an_edit_are_not_missed(tmp_path):
    source = video(tmp_path / "source.mp4", pictures(60), g="60", bf="0")
    options = {"use_editlist": "1", "avoid_negative_ts": "disabled"}
    with av.open(str(source)) as whole, av.open(str(tmp_path / "trimmed.mp4"), "w", options=options) as out:
        stream = out.add_stream_from_template(whole.streams.video[0])
        for packet in whole.demux(video=0):
            if packet.dts is not None:
                packet.pts -= round(2 / packet.time_base)
                packet.dts -= round(2 / packet.time_base)
                packet.stream = stream
                out.mux(packet)
    frames = read(tmp_path / "trimmed.mp4")
    assert len(frames) == 40
    assert frames[1].time == pytest.approx(0.1)


def test_a_title_in_an_old_encoding_does_not_matter(tmp_path):
    path = video(tmp_path / "old.mp4")
    content = path.read_bytes()
    assert b"VideoHandler" in content
    path.write_bytes(content.replace(b"VideoHandler", "Käse-Über-é".encode("latin-1").ljust(12)))
    assert len(read(path)) == 12


def test_a_live_recording_that_does_not_know_its_length_is_read(tmp_path):
    assert len(read(video(tmp_path / "live.webm", codec="libvpx-vp9", options={"live": "1"}))) == 12


def test_the_hash_is_that_of_the_content(tmp_path):
    first, second = video(tmp_path / "a.mp4"), tmp_path / "b.mp4"
    second.write_bytes(first.read_bytes())
    assert Video(first).sha256() == Video(second).sha256()
    assert Video(first).sha256() != Video(video(tmp_path / "c.mp4", pictures(11))).sha256()


def test_dropped_readers_close_their_files(tmp_path):
    path = video(tmp_path / "clip.mp4")
    broken = odd_videos.damaged(video(tmp_path / "broken.mp4", noisy()))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(25):
        next(iter(Video(path).frames()))
        with pytest.raises(VideoError):
            read(broken)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1
