"""What is no video, not whole, or not ours to read is refused with the file, the reason and a remedy."""

import os
import re
import threading

import numpy as np
import pytest

from labeling.video import Video, VideoError
from tests.labeling import odd_videos
from tests.labeling.odd_videos import noisy, video
from tests.labeling.reading import read, refusal

pytestmark = pytest.mark.usefixtures("silent")


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
    path = odd_videos.cut(video(tmp_path / name, noisy(), codec, options=options, g="10"), share)
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
    path = odd_videos.damaged(video(tmp_path / name, noisy(), codec), fill=fill)
    assert re.search("damaged|cannot be decoded after frame", refusal(path))


def test_a_small_flaw_costs_a_frame_not_the_video(tmp_path):
    path = video(tmp_path / "flaw.mp4", noisy())
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 8] = b"\x5a" * 8
    path.write_bytes(bytes(content))
    assert len(read(path)) == 60


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
    assert answer.startswith("Unreadable")
    assert "permission denied" in answer
    assert locked.name in answer


def test_a_name_with_a_line_break_makes_one_line(tmp_path):
    path = tmp_path / "a\nb.mp4"
    path.write_bytes(b"")
    with pytest.raises(VideoError) as caught:
        Video(path)
    assert "\n" not in str(caught.value)
    assert r"a\nb.mp4 is empty" in str(caught.value)
