"""A still camera's proposals are what is not background, to a fraction of a pixel."""

import numpy as np
import pytest

from labeling import geometry
from labeling.proposals import Proposal
from labeling.proposals.attached import join_parts
from labeling.proposals.still import StillConfig, StillProposer

SIZE = 120
SAMPLES = 16


def disc(x: float, y: float, radius: float) -> np.ndarray:
    """Coverage of a disc, (SIZE, SIZE) 0 to 1."""
    places = (np.arange(SIZE * 8) + 0.5) / 8
    inside = (places[None] - x) ** 2 + (places[:, None] - y) ** 2 <= radius**2
    return inside.reshape(SIZE, 8, SIZE, 8).mean((1, 3))


def blob(x: float, y: float, sigma: float) -> np.ndarray:
    places = np.arange(SIZE) + 0.5
    return np.exp(-((places[None] - x) ** 2 + (places[:, None] - y) ** 2) / (2 * sigma**2))


def floor() -> np.ndarray:
    """A floor with a few lines, (SIZE, SIZE, 3) float."""
    picture = np.full((SIZE, SIZE, 3), (120.0, 125.0, 130.0))
    picture[::30] *= 0.6
    return picture


def paint(picture: np.ndarray, alpha: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    return picture * (1 - alpha[:, :, None]) + alpha[:, :, None] * np.array(colour, float)


def finished(pictures: list[np.ndarray], noise: float = 0.7) -> np.ndarray:
    rng = np.random.default_rng(0)
    noisy = [picture + rng.normal(0, noise, picture.shape) for picture in pictures]
    return np.clip(np.round(noisy), 0, 255).astype(np.uint8)


def boxes(proposals: list[Proposal]) -> list[np.ndarray]:
    return sorted((geometry.box(proposal.mask) for proposal in proposals), key=lambda box: float(box[0]))


def centres() -> list[tuple[float, float]]:
    return [(15.3 + 5.7 * k, 60.4 + 0.3 * k) for k in range(SAMPLES)]


def test_boxes_of_a_moving_disc_are_precise_to_a_fraction_of_a_pixel() -> None:
    pictures = finished([paint(floor(), disc(x, y, 6), (230, 60, 40)) for x, y in centres()])
    proposer = StillProposer(pictures, StillConfig())
    for picture, (x, y) in zip(pictures, centres(), strict=True):
        (box,) = boxes(proposer.propose(picture))
        assert box == pytest.approx([x - 6, y - 6, x + 6, y + 6], abs=0.35)


def test_a_blob_is_cut_where_a_tenth_of_it_is_left() -> None:
    white = np.full((SIZE, SIZE, 3), 255.0)
    pictures = finished([paint(white, blob(x, y, 6), (255, 0, 0)) for x, y in centres()[2:-2]], noise=0)
    reach = 6 * np.sqrt(2 * np.log(10))
    proposer = StillProposer(pictures, StillConfig())
    for picture, (x, y) in zip(pictures, centres()[2:-2], strict=True):
        (box,) = boxes(proposer.propose(picture))
        assert box == pytest.approx([x - reach, y - reach, x + reach, y + reach], abs=0.8)


def test_two_things_apart_are_two_proposals() -> None:
    pictures = finished(
        [paint(paint(floor(), disc(x, y, 6), (230, 60, 40)), disc(x, y - 30, 6), (20, 20, 250)) for x, y in centres()]
    )
    assert len(StillProposer(pictures, StillConfig()).propose(pictures[5])) == 2


def test_shadows_are_not_proposed() -> None:
    pictures = []
    for x, y in centres():
        shaded = floor() * (1 - 0.45 * disc(x - 9, y + 12, 9)[:, :, None])
        pictures.append(paint(shaded, disc(x, y, 7), (230, 60, 40)))
    proposer = StillProposer(finished(pictures), StillConfig())
    x, y = centres()[8]
    (box,) = boxes(proposer.propose(finished(pictures)[8]))
    assert box == pytest.approx([x - 7, y - 7, x + 7, y + 7], abs=1.0)


def test_a_dark_object_is_no_shadow() -> None:
    pictures = finished([paint(floor(), disc(x, y, 9), (60, 62, 65)) for x, y in centres()])
    (box,) = boxes(StillProposer(pictures, StillConfig()).propose(pictures[8]))
    assert box[2] - box[0] == pytest.approx(18, abs=1.5)


def test_an_arm_includes_the_joint_that_it_turns_about() -> None:
    pictures = []
    for k in range(SAMPLES):
        angle = 0.35 * k
        arm = np.max([disc(60 + r * np.cos(angle), 60 + r * np.sin(angle), 4) for r in range(6, 40, 2)], axis=0)
        pictures.append(paint(paint(floor(), disc(60, 60, 5), (250, 250, 250)), arm, (240, 200, 60)))
    samples = finished(pictures)
    proposer = StillProposer(samples, StillConfig())
    for picture in samples:
        (box,) = boxes(proposer.propose(picture))
        assert box[0] < 56
        assert box[2] > 64


def test_a_foot_apart_from_its_arm_goes_to_the_piece_that_moves_next_to_it() -> None:
    labels = np.zeros((40, 60), np.uint16)
    labels[30:36, 10:20], labels[5:26, 12:18], labels[5:15, 45:55] = 1, 2, 3
    pieces = [(1, np.array([10, 30, 10, 6])), (2, np.array([12, 5, 6, 21])), (3, np.array([45, 5, 10, 10]))]
    joined, left = join_parts(labels, pieces, labels == 1)
    assert {label: tuple(place) for label, place in left} == {2: (10, 5, 10, 31), 3: (45, 5, 10, 10)}
    assert (joined[labels == 1] == 2).all()


def test_what_never_moves_is_proposed_only_on_request() -> None:
    still = paint(floor() * 0 + 20, disc(60, 60, 10), (250, 250, 250))
    pictures = finished([still] * SAMPLES)
    assert StillProposer(pictures, StillConfig()).propose(pictures[0]) == []
    (box,) = boxes(StillProposer(pictures, StillConfig(), keep_static=True).propose(pictures[0]))
    assert box == pytest.approx([50, 50, 70, 70], abs=0.5)


def test_things_that_stand_close_are_kept_apart() -> None:
    still = paint(paint(floor() * 0 + 20, disc(45, 60, 10), (250, 250, 250)), disc(66, 60, 10), (250, 250, 250))
    still[60, 50:60] = 80  # a leg reaches over
    pictures = finished([still] * SAMPLES)
    assert len(StillProposer(pictures, StillConfig(), keep_static=True).propose(pictures[0])) == 2


def test_nothing_is_proposed_where_nothing_moves() -> None:
    pictures = finished([floor()] * SAMPLES, noise=3.0)
    assert StillProposer(pictures, StillConfig()).propose(pictures[3]) == []


def test_one_picture_gives_no_proposals() -> None:
    pictures = finished([paint(floor(), disc(60, 60, 9), (250, 0, 0))])
    assert StillProposer(pictures, StillConfig()).propose(pictures[0]) == []


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 200), (33, 17)])
@pytest.mark.parametrize("keep_static", [False, True])
def test_pictures_of_any_size_are_accepted(shape: tuple[int, int], keep_static: bool) -> None:
    pictures = np.random.default_rng(0).integers(0, 255, (5, *shape, 3)).astype(np.uint8)
    proposer = StillProposer(pictures, StillConfig(), keep_static)
    for proposal in proposer.propose(pictures[0]):
        assert proposal.mask.area > 0
