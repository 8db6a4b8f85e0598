"""Every video is read right, or refused with the file, the reason and a remedy."""

import gc
import os
import re
import threading
from itertools import islice

import av
import numpy as np
import pytest

import labeling.video
from labeling import streams
from labeling.rewinding import PACKING, ROOM, Rewinder
from labeling.trackers.sam_config import SamConfig
from labeling.video import Frame, Video, VideoError
from tests.labeling import odd_videos
from tests.labeling.odd_videos import pictures, video

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


@pytest.fixture(autouse=True)
def _nothing_is_printed(capfd):
    """FFmpeg, OpenCV and libpng keep quiet whatever they are fed."""
    yield
    assert capfd.readouterr() == ("", "")


def read(path, **options):
    return list(Video(path, **options).frames())


def refusal(path):
    """The message with which a file is refused; it always names the file and ends with a remedy."""
    with pytest.raises(VideoError) as caught:
        read(path)
    message = str(caught.value)
    assert path.name in message
    assert message.endswith(".")
    assert message.rstrip(".").count(". ") >= 1, "a reason and a remedy are two sentences"
    return message


def bright_corner(image):
    """Where the mark of the test picture is."""
    height, width = image.shape[0] // 8, image.shape[1] // 8
    corners = [image[:height, :width], image[:height, -width:], image[-height:, :width], image[-height:, -width:]]
    return WHERE[int(np.argmax([corner.mean() for corner in corners]))]


def noisy(count=60):
    """Pictures that need bytes, so that damage in the middle of a file hits a frame in the middle."""
    frames = pictures(count, 96, 128).astype(int)
    noise = np.random.default_rng(0).integers(-20, 20, frames.shape)
    return (frames + noise).clip(0, 255).astype(np.uint8)


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


class CountedPacket:
    """A packet that counts the pictures it becomes."""

    decoded = 0

    def __init__(self, packet):
        self._packet = packet

    def __getattr__(self, name):
        return getattr(self._packet, name)

    def decode(self):
        frames = self._packet.decode()
        CountedPacket.decoded += len(frames)
        return frames


@pytest.fixture
def decoded(monkeypatch):
    """How many pictures were decoded so far."""
    read = streams.packets
    for place in (streams, labeling.video):
        monkeypatch.setattr(place, "packets", lambda *where: map(CountedPacket, read(*where)))
    CountedPacket.decoded = 0
    return lambda: CountedPacket.decoded


WINDOW, REACH, LONG = 24, 120, 360
LOOKED_BACK = [
    # name, codec, options, pictures decoded for each that is handed out while looking back
    ("mjpeg.avi", "mjpeg", {}, 1),
    ("clip.avi", "mpeg4", {"g": "10"}, 2),
    ("b_frames.avi", "mpeg4", {"g": "10", "bf": "2"}, 2),
    ("h264.avi", "libx264", {"g": "10"}, 2),
    ("clip.mp4", "libx264", {"g": "10"}, 2),
    ("one_key.avi", "mpeg4", {"g": "600"}, 0),
    ("clip.gif", "gif", {}, 0),
    ("one_key.mp4", "libx264", {"g": "600", "sc_threshold": "0"}, 0),
    ("raw.h264", "libx264", {}, 0),
]


@pytest.mark.parametrize(("name", "codec", "options", "cost"), LOOKED_BACK, ids=[row[0] for row in LOOKED_BACK])
def test_looking_back_again_and_again_decodes_little_twice(tmp_path, decoded, name, codec, options, cost):
    pix_fmt = {"gif": "rgb8", "mjpeg": "yuvj420p"}.get(codec, "yuv420p")
    container = "h264" if name.endswith("h264") else None
    path = video(tmp_path / name, pictures(LONG), codec, pix_fmt, container=container, **options)
    whole = [frame.image for frame in Video(path).frames()]
    opened = Video(path)
    before, handed = decoded(), 0
    for frame in opened.frames():
        if frame.index % WINDOW:
            continue
        for begin in range(frame.index - WINDOW, max(0, frame.index - REACH - 1), -WINDOW):
            chunk = list(islice(opened.frames(begin), WINDOW))
            assert [late.index for late in chunk] == list(range(begin, begin + WINDOW))
            for late in chunk:
                np.testing.assert_array_equal(late.image, whole[late.index])
            handed += WINDOW
    assert handed > 3 * LONG
    assert decoded() - before <= 2 * LONG + cost * handed


def test_a_rewinder_holds_no_more_than_it_may_and_still_gives_every_frame():
    rng = np.random.default_rng(0)
    made = [Frame(index, index / 10, rng.integers(0, 256, (16, 16, 3), np.uint8)) for index in range(100)]
    begun = []

    def read():
        begun.append(0)
        yield from made

    rewinder = Rewinder(read, room=10 * 16 * 16 * 3)
    for start in (50, 45, 60, 20, 99, 3, 100):
        for frame, expected in zip(rewinder.frames(start), made[start:], strict=True):
            assert (frame.index, frame.time) == (expected.index, expected.time)
            np.testing.assert_array_equal(frame.image, expected.image)
            frame.image[:] = 0  # a frame is the reader's own
            assert sum(len(packed) for _, _, packed in rewinder._held.values()) <= rewinder._room
    assert len(begun) <= 6
    begun.clear()
    for stop in range(60, 100, 4):
        assert [frame.index for frame in islice(rewinder.frames(stop - 5), 5)] == list(range(stop - 5, stop))
    assert len(begun) == 1


@pytest.mark.parametrize(("room", "once"), [(24, True), (10, False)])
def test_a_look_back_decodes_nothing_twice_if_there_is_room_for_its_reach(room, once):
    """Windows of 8 frames, each followed by a look back over 24 frames, as a tracker does it."""
    rng = np.random.default_rng(1)
    made = [Frame(index, index / 10, rng.integers(0, 256, (16, 16, 3), np.uint8)) for index in range(96)]
    decoded = []

    def read():
        for frame in made:
            decoded.append(frame.index)
            yield frame

    packed = max(len(PACKING.encode(frame.image)) for frame in made)
    rewinder = Rewinder(read, room=room * packed)
    for stop in range(8, 97, 8):
        for begin in range(stop - 8, max(0, stop - 24) - 1, -8):
            for frame, expected in zip(islice(rewinder.frames(begin), 8), made[begin : begin + 8], strict=True):
                np.testing.assert_array_equal(frame.image, expected.image)
    assert (decoded == list(range(96))) == once


def test_a_rewinder_has_room_for_as_far_as_sam_looks_back():
    assert SamConfig().reach * 960 * 720 * 3 <= ROOM


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


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"This is a letter, not a video.\n" * 40, "not a video"),
        (b"x", "not a video"),
        (b"\0" * 5000, "not a video"),
        (np.random.default_rng(0).bytes(5000), "not a video"),
        (b"1\n00:00:01,000 --> 00:00:02,000\nhello\n\n", "no video track"),
        (b"#EXTM3U\n#EXTINF:10,\nhttp://localhost/a.mp4\n#EXT-X-ENDLIST\n", "not a video"),
        (b"\x1a\x45\xdf\xa3", "cut off"),
        (b"GIF89a", "cut off"),
    ],
)
def test_what_is_no_video_is_refused(tmp_path, content, reason):
    path = tmp_path / "fake.mp4"
    path.write_bytes(content)
    assert reason in refusal(path)


def test_a_playlist_does_not_lead_to_other_files(tmp_path):
    video(tmp_path / "other.mp4")
    path = tmp_path / "list.mp4"
    path.write_text("ffconcat version 1.0\nfile other.mp4\n")
    assert "playlist" in refusal(path)


def test_a_title_in_an_old_encoding_does_not_matter(tmp_path):
    path = video(tmp_path / "old.mp4")
    content = path.read_bytes()
    assert b"VideoHandler" in content
    path.write_bytes(content.replace(b"VideoHandler", "Käse-Über-é".encode("latin-1").ljust(12)))
    assert len(read(path)) == 12


def test_an_unknown_codec_is_named_as_the_reason(tmp_path):
    path = video(tmp_path / "new.mp4")
    path.write_bytes(path.read_bytes().replace(b"avc1\0\0\0\0", b"zzz1\0\0\0\0"))
    assert "codec" in refusal(path)


@pytest.mark.parametrize("cover", [False, True])
def test_sound_alone_is_no_video_even_with_a_cover(tmp_path, cover):
    assert "no video track" in refusal(odd_videos.sound_only(tmp_path / "song.mp4", cover))


@pytest.mark.parametrize("share", [0.3, 0.6, 0.98])
@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("end.mp4", "libx264", {}), ("start.mp4", "libx264", {"movflags": "faststart"}), ("c.mov", "libx264", {}),
        ("fragments.mp4", "libx264", {"movflags": "frag_keyframe+empty_moov"}), ("c.avi", "libx264", {}),
        ("m.avi", "mjpeg", {}), ("c.mkv", "libx264", {}), ("c.webm", "libvpx-vp9", {}), ("v.webm", "libvpx", {}),
        ("c.gif", "gif", {}),
    ],
)  # fmt: skip
def test_a_file_that_was_cut_off_is_not_a_short_video(tmp_path, name, codec, options, share):
    pix_fmt = {"gif": "rgb8", "mjpeg": "yuvj420p"}.get(codec, "yuv420p")
    path = odd_videos.cut(video(tmp_path / name, noisy(), codec, pix_fmt, options=options, g="10"), share)
    if name.endswith(".avi") and share > 0.9:  # only the index behind the frames is lost
        assert len(read(path)) >= 58
    else:
        assert re.search("cut off|damaged|cannot be decoded after", refusal(path))


@pytest.mark.parametrize("fill", [None, b"\0"])
@pytest.mark.parametrize(
    ("name", "codec"),
    [("d.mp4", "libx264"), ("d.avi", "libx264"), ("m.avi", "mjpeg"), ("d.mkv", "libx264"), ("f.mkv", "ffv1"),
     ("d.webm", "libvpx-vp9"), ("d.gif", "gif"), ("h.mp4", "libx265")],
)  # fmt: skip
def test_damage_in_the_middle_is_not_the_end_of_the_video(tmp_path, name, codec, fill):
    pix_fmt = {"gif": "rgb8", "mjpeg": "yuvj420p"}.get(codec, "yuv420p")
    path = odd_videos.damaged(video(tmp_path / name, noisy(), codec, pix_fmt), fill=fill)
    assert re.search("damaged|cannot be decoded after frame", refusal(path))


def test_a_small_flaw_costs_a_frame_not_the_video(tmp_path):
    path = video(tmp_path / "flaw.mp4", noisy())
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 8] = b"\x5a" * 8
    path.write_bytes(bytes(content))
    assert len(read(path)) == 60


def test_a_live_recording_that_does_not_know_its_length_is_read(tmp_path):
    assert len(read(video(tmp_path / "live.webm", codec="libvpx-vp9", options={"live": "1"}))) == 12


def test_a_file_that_vanishes_is_reported(tmp_path):
    path = video(tmp_path / "clip.mp4")
    opened = Video(path)
    path.unlink()
    for use in (lambda: list(opened.frames()), opened.sha256, lambda: Video(path)):
        with pytest.raises(VideoError, match=r"clip\.mp4 does not exist"):
            use()


def test_a_pipe_does_not_make_anybody_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe.mp4")
    worker = threading.Thread(target=lambda: refusal(tmp_path / "pipe.mp4"), daemon=True)
    worker.start()
    worker.join(timeout=10)
    assert not worker.is_alive()
    assert "pipe" in refusal(tmp_path / "pipe.mp4")


@pytest.mark.parametrize("kind", ["file", "picture", "folder"])
def test_what_may_not_be_read_is_reported(tmp_path, kind):
    path = {
        "file": lambda: video(tmp_path / "clip.mp4"),
        "picture": lambda: odd_videos.picture_folder(tmp_path / "clip"),
        "folder": lambda: odd_videos.picture_folder(tmp_path / "clip"),
    }[kind]()
    locked = path / "frame_0003.png" if kind == "picture" else path
    locked.chmod(0)
    answer = odd_videos.without_rights(tmp_path, lambda: str(len(read(path))))
    locked.chmod(0o755)
    assert answer.startswith("VideoError")
    assert "permission denied" in answer
    assert locked.name in answer


def test_a_name_with_a_line_break_makes_one_line(tmp_path):
    path = tmp_path / "a\nb.mp4"
    path.write_bytes(b"")
    with pytest.raises(VideoError) as caught:
        Video(path)
    assert "\n" not in str(caught.value)
    assert r"a\nb.mp4 is empty" in str(caught.value)


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
