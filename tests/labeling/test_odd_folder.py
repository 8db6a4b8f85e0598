"""A folder as it really is: every odd input is labeled right or reported with a reason, and the rest goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from labeling import open_store
from labeling.run import Summary, label_folder
from labeling.validate import validate
from tests.labeling import odd_videos
from tests.labeling.odd_videos import pictures, video

NAMES = [
    "with space.mp4",
    "qu'ote\".mp4",
    "ünï·cødé.mp4",
    "dots..mp4",
    "-dash.mp4",
    "<script>.mp4",
    "same.mp4",
    "same.mov",
]
SIZES = {"odd_size.mp4": (33, 65), "turned.mp4": (64, 48), "grey.mkv": (48, 64), "ten_bit.mp4": (48, 64)}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Summary, Path]:
    folder = tmp_path_factory.mktemp("odd")
    made = pictures(20)
    for name in NAMES:
        video(folder / name, made)
    (folder / "deep" / "er").mkdir(parents=True)
    shutil.copy(folder / "same.mp4", folder / "deep" / "er" / "same.mp4")
    shutil.copy(folder / "same.mp4", folder / "deep__er__same.mp4")  # collides with the one above once slashes go
    video(folder / "odd_size.mp4", pictures(20, 33, 65), "ffv1", "bgr0", container="matroska")
    odd_videos.turned(video(folder / "turned.mp4", made), 90)
    video(folder / "grey.mkv", made, "ffv1", "gray")
    video(folder / "ten_bit.mp4", made, "libx264", "yuv420p10le")
    video(folder / "varied.mp4", made, times=[0.1 * k + (0.5 if k > 9 else 0) for k in range(20)])
    video(folder / "one_frame.mp4", made[:1])
    video(folder / "clip.webm", made, "libvpx-vp9")
    video(folder / "clip.gif", made, "gif", "rgb8")
    video(folder / "clip.avi", made, "mpeg4")
    odd_videos.picture_folder(folder / "pictures")
    (folder / "empty.mp4").touch()
    odd_videos.cut(video(folder / "cut.mp4", made))
    (folder / "text.mp4").write_text("This is not a video.")
    odd_videos.sound_only(folder / "sound.mp4")
    gap = odd_videos.picture_folder(folder / "gap")
    sorted(gap.iterdir())[4].unlink()
    out = tmp_path_factory.mktemp("store") / "labels.zarr"
    return label_folder(folder, out, workers=2), out


def test_what_cannot_be_read_is_reported_with_a_reason(run: tuple[Summary, Path]) -> None:
    summary, out = run
    failed = {outcome.source: outcome.failure for outcome in summary.failed}
    assert set(failed) == {"empty.mp4", "cut.mp4", "text.mp4", "sound.mp4", "gap"}
    assert all(name in reason for name, reason in failed.items()), "every reason names its file"
    assert open_store(out).failures == failed


@pytest.mark.parametrize(
    "name",
    [
        *NAMES,
        *SIZES,
        "varied.mp4",
        "clip.webm",
        "clip.gif",
        "clip.avi",
        "pictures",
        "deep/er/same.mp4",
        "deep__er__same.mp4",
    ],
)
def test_what_can_be_read_is_labeled(run: tuple[Summary, Path], name: str) -> None:
    labels = open_store(run[1])[name]
    assert labels.source == name
    assert labels.size == SIZES.get(name, (48, 64))
    assert len(labels.tracks) >= 1, "the square that moves was found"


def test_store_of_an_odd_folder_is_valid_and_stays_inside(run: tuple[Summary, Path]) -> None:
    out = run[1]
    assert validate(out) == []
    assert [path.name for path in out.parent.iterdir()] == ["labels.zarr"]
    assert all("/" not in id and ".." not in id.split(".mp4")[0] for id in open_store(out))


def test_variable_frame_rate_keeps_its_clock(run: tuple[Summary, Path]) -> None:
    time = open_store(run[1])["varied.mp4"].tracks.time
    assert np.diff(time)[9] == pytest.approx(0.6, abs=0.01)


def test_one_frame_has_no_motion_and_so_no_tracks(run: tuple[Summary, Path]) -> None:
    labels = open_store(run[1])["one_frame.mp4"]
    assert labels.frames == 1
    assert len(labels.tracks) == 0
