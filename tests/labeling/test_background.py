"""The background is the scene without its objects, even where they stood for most of the shot."""

import cv2
import numpy as np
import pytest

from labeling.proposals.background import background_of

FLOOR = (200, 190, 180)
THING = (60, 90, 160)


def scene(height: int = 80, width: int = 100) -> np.ndarray:
    """A floor with a dark line across."""
    picture = np.full((height, width, 3), FLOOR, np.uint8)
    picture[:, 48:51] = 30
    return picture


def shot(places: list[tuple[int, int]], size: int = 16, noise: float = 1.0) -> np.ndarray:
    """Pictures of a square thing at these corners, (K, H, W, 3)."""
    rng = np.random.default_rng(0)
    pictures = []
    for x, y in places:
        picture = scene().astype(float)
        picture[y : y + size, x : x + size] = THING
        pictures.append(picture + rng.normal(0, noise, picture.shape))
    return np.clip(np.round(pictures), 0, 255).astype(np.uint8)


def worst(picture: np.ndarray) -> int:
    return int(np.abs(picture.astype(int) - scene()).max())


def test_a_thing_that_passes_is_not_in_the_background() -> None:
    assert worst(background_of(shot([(3 * k, 20) for k in range(24)])).picture) < 8


@pytest.mark.parametrize("leaves", [16, 20])
def test_a_thing_that_stands_until_it_leaves_is_not_in_the_background(leaves: int) -> None:
    places = [(20, 30)] * leaves + [(30 + 8 * k, 30 + k) for k in range(1, 25 - leaves)]
    assert worst(background_of(shot(places)).picture) < 8


def test_a_thing_that_only_budges_is_not_in_the_background() -> None:
    places = [(20 + k // 2, 30) for k in range(24)]  # its middle is covered on all pictures
    assert worst(background_of(shot(places)).picture) < 8


def test_in_a_large_picture_lines_behind_a_thing_stay_sharp() -> None:
    places = [(20, 30)] * 14 + [(10 + 8 * k, 30 + k) for k in range(1, 11)]
    large = np.stack([cv2.resize(picture, (500, 400), interpolation=cv2.INTER_NEAREST) for picture in shot(places)])
    found = cv2.resize(background_of(large).picture, (100, 80), interpolation=cv2.INTER_NEAREST)
    assert worst(found) < 8


def test_on_rough_ground_the_colour_that_is_seen_moving_is_the_object() -> None:
    rng = np.random.default_rng(1)
    ground = cv2.GaussianBlur(rng.normal(0, 1, (80, 100, 3)), (0, 0), 2)
    ground = np.clip(130 + 200 * ground, 0, 255).astype(np.uint8)
    places = [(10, 30)] * 14 + [(10 + 7 * k, 30) for k in range(1, 11)]
    pictures = np.stack([ground] * len(places))
    for picture, (x, y) in zip(pictures, places, strict=True):
        picture[y : y + 16, x : x + 16] = THING
    apart = np.abs(background_of(pictures).picture.astype(int) - ground).max(2)
    assert (apart > 20).mean() < 0.005


def test_what_never_moves_is_background() -> None:
    pictures = shot([(70, 5 + 2 * k) for k in range(24)])
    pictures[:, 60:70, 10:20] = (10, 200, 10)
    assert np.abs(background_of(pictures).picture[60:70, 10:20].astype(int) - (10, 200, 10)).max() < 8


@pytest.mark.parametrize("noise", [1.0, 4.0])
def test_noise_is_measured_where_things_pass_and_where_not(noise: float) -> None:
    measured = background_of(shot([(3 * k, 20) for k in range(24)], noise=noise)).noise
    assert 0.5 * noise <= np.median(measured) <= 2.5 * noise
    assert measured.max() < 5 * noise


def test_same_pictures_give_the_same_background() -> None:
    pictures = shot([(3 * k, 20) for k in range(24)])
    first, second = background_of(pictures), background_of(pictures.copy())
    assert (first.picture == second.picture).all()
    assert (first.noise == second.noise).all()


def test_one_picture_is_its_own_background() -> None:
    pictures = shot([(20, 20)], noise=0)
    assert (background_of(pictures).picture == pictures[0]).all()
