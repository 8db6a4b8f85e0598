"""A folder of numbered pictures is a video, or the picture that spoils it is named."""

import cv2
import numpy as np
import pytest

from labeling.video import Video, VideoError
from tests.labeling import odd_videos
from tests.labeling.odd_videos import pictures
from tests.labeling.reading import read, refusal

pytestmark = pytest.mark.usefixtures("silent")


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".JPEG"])
def test_a_folder_of_pictures_is_a_video(tmp_path, suffix):
    opened = Video(odd_videos.picture_folder(tmp_path / "walk", suffix=suffix))
    frames = list(opened.frames())
    assert (len(frames), opened.expected_frames, opened.fps) == (8, 8, 24)
    assert np.abs(frames[5].image.astype(int) - pictures(8)[5]).mean() < 3
    assert frames[5].time == pytest.approx(5 / 24)
    assert len(opened.sha256()) == 64
    assert [frame.index for frame in opened.frames(start=6)] == [6, 7]


def test_pictures_are_ordered_by_number_not_by_name(tmp_path):
    folder = odd_videos.picture_folder(tmp_path / "walk", list(range(8, 12)))
    for number in range(8, 12):
        (folder / f"frame_{number:04d}.png").rename(folder / f"frame_{number}.png")
    np.testing.assert_array_equal(np.stack([frame.image for frame in read(folder)]), pictures(4))


def test_pictures_in_even_steps_are_whole(tmp_path):
    assert len(read(odd_videos.picture_folder(tmp_path / "walk", [0, 5, 10, 15]))) == 4


@pytest.mark.parametrize(
    ("numbers", "after", "missing"),
    [([0, 1, 2, 4, 5], "frame_0002", 1), ([0, 1, 3], "frame_0001", 1), ([0, 5, 10, 25, 30], "frame_0010", 2)],
)
def test_a_gap_in_the_numbers_is_named(tmp_path, numbers, after, missing):
    message = refusal(odd_videos.picture_folder(tmp_path / "walk", numbers))
    assert f"gap after {after}" in message
    assert f"about {missing} " in message


@pytest.mark.parametrize(
    ("numbers", "prefix", "suffix"), [([0, 1], "b_", ".png"), ([8, 9], "b_", ".png"), ([3], "frame_", ".jpg")]
)
def test_two_sequences_in_a_folder_are_refused(tmp_path, numbers, prefix, suffix):
    folder = odd_videos.picture_folder(tmp_path / "walk")
    odd_videos.picture_folder(folder, numbers, prefix, suffix)
    assert "more than one sequence" in refusal(folder)


def test_notes_of_other_programs_beside_pictures_do_not_count(tmp_path):
    folder = odd_videos.picture_folder(tmp_path / "walk")
    for name in ["._frame_0001.png", ".DS_Store", "Thumbs.db", "cover.png", "frame_0001.txt"]:
        (folder / name).write_bytes(b"x")
    assert len(read(folder)) == 8


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_picture_that_was_cut_off_is_named(tmp_path, suffix, share):
    folder = odd_videos.picture_folder(tmp_path / "walk", suffix=suffix)
    odd_videos.cut(folder / f"frame_0003{suffix}", share)
    with pytest.raises(VideoError, match=rf"frame_0003\{suffix} is not a readable picture"):
        read(folder)


def test_a_damaged_picture_is_named(tmp_path):
    folder = odd_videos.picture_folder(tmp_path / "walk")
    odd_videos.damaged(folder / "frame_0000.png")
    with pytest.raises(VideoError, match=r"frame_0000\.png is not a readable picture"):
        Video(folder)


def test_pictures_of_different_sizes_are_refused(tmp_path):
    folder = odd_videos.picture_folder(tmp_path / "walk", [0, 1])
    odd_videos.picture_folder(folder, [2, 3], height=96)
    with pytest.raises(VideoError, match=r"frame_0002\.png changes its size"):
        read(folder)


@pytest.mark.parametrize("shape", [(48, 64), (48, 64, 4)])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_grey_transparent_and_deep_pictures_are_rgb(tmp_path, shape, kind):
    for number in range(2):
        cv2.imwrite(str(tmp_path / f"{number}.png"), np.full(shape, np.iinfo(kind).max // 2, kind))
    image = read(tmp_path)[0].image
    assert (image.shape, image.dtype) == ((48, 64, 3), np.uint8)
    assert abs(int(image.mean()) - 127) <= 1


def test_a_folder_without_numbered_pictures_is_no_video(tmp_path):
    (tmp_path / "note.txt").write_text("x")
    assert "without numbered" in refusal(tmp_path)
