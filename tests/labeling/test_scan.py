"""A scan finds scene cuts and only those, tells moving cameras from still ones, and keeps a bounded sample."""

from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np
import pytest

from labeling.scan import ScanConfig, Shot, scan
from labeling.video import Video

HEIGHT, WIDTH = 96, 128


def scenery(seed: int, colour: tuple[int, int, int] = (120, 120, 120)) -> np.ndarray:
    """A wide textured picture to pan across, (HEIGHT + 60, WIDTH + 600, 3) float."""
    rng = np.random.default_rng(seed)
    texture = cv2.GaussianBlur(rng.normal(0, 1, (HEIGHT + 60, WIDTH + 600)), (0, 0), 2)
    return np.clip(np.array(colour) + 35 * (texture / texture.std())[..., None], 0, 255)


def view(scene: np.ndarray, x: float = 0, y: float = 0) -> np.ndarray:
    shift = np.array([[1, 0, x], [0, 1, y]], float)
    return cv2.warpAffine(scene, shift, (WIDTH, HEIGHT), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)


def shots(folder: Path, pictures: Iterable[np.ndarray], config: ScanConfig | None = None) -> list[Shot]:
    """Scan pictures, written as a folder with a little noise."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number, picture in enumerate(pictures):
        noisy = np.clip(picture + rng.normal(0, 1, picture.shape), 0, 255).astype(np.uint8)
        cv2.imwrite(str(folder / f"{number:05}.png"), noisy[..., ::-1])
    return list(scan(Video(folder), config or ScanConfig()))


def block(picture: np.ndarray, x: int, y: int, size: int) -> np.ndarray:
    """A textured block in front of a picture."""
    changed = picture.copy()
    changed[y : y + size, x : x + size] = scenery(9, (200, 60, 60))[:size, :size]
    return changed


def test_hard_cuts_begin_shots(tmp_path: Path) -> None:
    scenes = [scenery(1, (60, 90, 60)), scenery(2, (150, 110, 90)), scenery(3, (60, 60, 150))]
    found = shots(tmp_path / "v", [view(scene, 2 * t) for scene in scenes for t in range(8)])
    assert [(shot.start, shot.stop, shot.cut) for shot in found] == [(0, 8, True), (8, 16, True), (16, 24, True)]


def test_a_flash_is_no_cut(tmp_path: Path) -> None:
    scene = scenery(1)
    pictures = [np.full((HEIGHT, WIDTH, 3), 250.0) if t == 6 else view(scene) for t in range(14)]
    assert [(shot.start, shot.stop) for shot in shots(tmp_path / "v", pictures)] == [(0, 14)]


def test_a_fast_pan_is_one_moving_shot(tmp_path: Path) -> None:
    scene = scenery(1)
    (shot,) = shots(tmp_path / "v", [view(scene, 9 * t) for t in range(20)])
    assert not shot.still


def test_frames_of_a_moving_camera_come_along_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labeling.scan.KEPT_BYTES", 0)
    scenes = [scenery(1, (60, 90, 60)), scenery(2, (150, 110, 90))]
    found = shots(tmp_path / "v", [view(scene, 3 * t) for scene in scenes for t in range(30)])
    assert [(shot.start, shot.stop, shot.cut) for shot in found] == [
        (0, 24, True), (24, 30, False), (30, 54, True), (54, 60, False),
    ]  # fmt: skip
    assert not any(shot.still for shot in found)
    assert [frame.index for shot in found for frame in shot.frames or ()] == list(range(60))


def test_only_a_long_still_shot_has_to_be_decoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labeling.scan.KEPT_BYTES", 0)
    long, short = scenery(1, (60, 90, 60)), scenery(2, (150, 110, 90))
    found = shots(tmp_path / "v", [view(long)] * 40 + [view(short)] * 10)
    assert [(shot.start, shot.stop, shot.still) for shot in found] == [(0, 40, True), (40, 50, True)]
    assert found[0].frames is None
    assert [frame.index for frame in found[1].frames or ()] == list(range(40, 50))


def test_a_slow_drift_is_camera_motion(tmp_path: Path) -> None:
    scene = scenery(1)
    assert not any(shot.still for shot in shots(tmp_path / "v", [view(scene, 0.3 * t) for t in range(40)]))


@pytest.mark.parametrize("size", [20, 70])
def test_objects_large_or_small_do_not_make_a_still_camera_move(tmp_path: Path, size: int) -> None:
    scene = view(scenery(1))
    (shot,) = shots(tmp_path / "v", [block(scene, 2 * t, 10, size) for t in range(25)])
    assert shot.still


def test_a_ball_on_an_empty_floor_is_seen_by_a_still_camera(tmp_path: Path) -> None:
    floor = np.full((64, 64, 3), 40.0)
    pictures = [cv2.circle(floor.copy(), (8 + 2 * t, 30), 6, (240, 240, 240), -1) for t in range(24)]
    (shot,) = shots(tmp_path / "v", pictures)
    assert shot.still


def test_long_shots_come_in_stretches_that_cover_every_frame(tmp_path: Path) -> None:
    scene = view(scenery(1))
    found = shots(tmp_path / "v", [scene] * 50, ScanConfig(stretch=20))
    assert [(shot.start, shot.stop, shot.cut) for shot in found] == [(0, 20, True), (20, 40, False), (40, 50, False)]


def test_the_sample_is_bounded_and_spread_evenly(tmp_path: Path) -> None:
    scene = view(scenery(1))
    (shot,) = shots(tmp_path / "v", [scene] * 53, ScanConfig(samples=8))
    assert 4 <= len(shot.samples) <= 8
    assert len(set(np.diff(shot.samples))) == 1
    assert shot.pictures.shape == (len(shot.samples), HEIGHT, WIDTH, 3)


@pytest.mark.parametrize("count", [1, 2])
def test_very_short_videos_are_one_still_shot(tmp_path: Path, count: int) -> None:
    (shot,) = shots(tmp_path / "v", [view(scenery(1))] * count)
    assert shot.still
    assert shot.stop == count
