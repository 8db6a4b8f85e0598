"""From a moving camera, what moves by itself is proposed, as one mask each, with the camera's motion beside it."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest

from labeling import geometry
from labeling.proposals import FrameProposals
from labeling.proposals.moving import MovingConfig, propose_moving
from labeling.video import Frame

HEIGHT, WIDTH = 240, 320
FRAMES = 20
PAN = 3.0  # pixels a frame

Painter = Callable[[np.ndarray, int], None]


def texture(seed: int, height: int, width: int, colour: tuple[int, int, int]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    pattern = cv2.GaussianBlur(rng.normal(0, 1, (height, width)), (0, 0), 1.5)
    return np.clip(np.array(colour) + 30 * (pattern / pattern.std())[..., None], 0, 255).astype(np.uint8)


SCENE = texture(1, HEIGHT, WIDTH + 400, (90, 130, 80))
OBJECT = texture(2, 90, 90, (190, 70, 60))


def put(picture: np.ndarray, x: float, y: float, width: int, height: int) -> None:
    """Place a textured block with its corner at x, y."""
    left, top = round(x), round(y)
    picture[top : top + height, left : left + width] = OBJECT[:height, :width]


def proposals(paint: Painter, frames: int = FRAMES, config: MovingConfig | None = None) -> list[FrameProposals]:
    rng = np.random.default_rng(0)
    pictures = []
    for t in range(frames):
        picture = SCENE[:, round(PAN * t) : round(PAN * t) + WIDTH].copy()
        paint(picture, t)
        noisy = np.clip(picture + rng.normal(0, 1.5, picture.shape), 0, 255).astype(np.uint8)
        pictures.append(Frame(t, t / 24, noisy))
    return list(propose_moving(iter(pictures), True, config or MovingConfig()))


def overlap(box: np.ndarray, x: float, y: float, width: float, height: float) -> float:
    """Intersection over union with the box whose corner is x, y."""
    w = min(box[2], x + width) - max(box[0], x)
    h = min(box[3], y + height) - max(box[1], y)
    shared = max(0.0, w) * max(0.0, h)
    return shared / ((box[2] - box[0]) * (box[3] - box[1]) + width * height - shared)


def test_the_moving_thing_is_the_first_proposal() -> None:
    found = proposals(lambda picture, t: put(picture, 40 + 6 * t, 90, 60, 50))
    ious = [overlap(geometry.box(seen.proposals[0].mask), 40 + 6 * t, 90, 60, 50) for t, seen in enumerate(found)]
    assert np.mean(ious) > 0.75
    assert np.mean([seen.proposals[0].score for seen in found]) > 0.4


def test_every_frame_comes_back_once_and_in_order_whatever_the_chunk() -> None:
    found = proposals(lambda picture, t: put(picture, 40 + 6 * t, 90, 60, 50), config=MovingConfig(chunk=7))
    assert [seen.frame.index for seen in found] == list(range(FRAMES))
    assert [seen.cut for seen in found] == [True] + [False] * (FRAMES - 1)
    assert all(seen.proposals for seen in found)


def test_the_camera_is_measured_in_pixels_of_the_frame() -> None:
    found = proposals(lambda picture, t: put(picture, 40 + 6 * t, 90, 60, 50))
    assert np.mean([seen.camera[0, 2] for seen in found[1:]]) == pytest.approx(-PAN, abs=0.3)


def test_a_scene_that_only_the_camera_moves_has_no_sure_proposal() -> None:
    found = proposals(lambda picture, t: None)
    assert max((proposal.score for seen in found for proposal in seen.proposals), default=0) < 0.3


def test_a_body_behind_a_pole_is_one_proposal() -> None:
    pole = texture(3, HEIGHT, 24, (60, 60, 160))

    def paint(picture: np.ndarray, t: int) -> None:
        put(picture, 60 + 4 * t, 90, 90, 60)
        left = round(200 - PAN * t)
        picture[:, left : left + 24] = pole

    found = proposals(paint)
    behind = [seen for t, seen in enumerate(found) if 60 + 4 * t < 170 - PAN * t and 60 + 4 * t + 60 > 224 - PAN * t]
    assert behind
    for seen in behind:
        width = np.diff(geometry.box(seen.proposals[0].mask)[[0, 2]])[0]
        assert width > 75


def test_two_things_that_move_apart_are_two_proposals() -> None:
    def paint(picture: np.ndarray, t: int) -> None:
        put(picture, 60 + 5 * t, 40, 50, 50)
        put(picture, 220 - 7 * t, 150, 60, 50)

    found = proposals(paint)
    assert np.median([len(seen.proposals) for seen in found]) == 2


def test_the_same_frames_give_the_same_masks() -> None:
    first, second = (proposals(lambda picture, t: put(picture, 40 + 6 * t, 90, 60, 50), 12) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert [p.score for p in one.proposals] == [p.score for p in other.proposals]
        assert all(
            np.array_equal(a.mask.coverage, b.mask.coverage)
            for a, b in zip(one.proposals, other.proposals, strict=True)
        )


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_very_short_shots_come_back_whole(frames: int) -> None:
    assert len(proposals(lambda picture, t: put(picture, 40 + 6 * t, 90, 60, 50), frames)) == frames
