"""Boxes of soft masks are precise to a fraction of a pixel."""

import cv2
import numpy as np
import pytest

from labeling import geometry
from labeling.masks import Mask


def disc(x: float, y: float, radius: float, size: int = 40) -> np.ndarray:
    """Exact coverage of a disc, (size, size) uint8, by sampling each pixel 16 x 16 times."""
    places = (np.arange(size * 16) + 0.5) / 16
    inside = (places[None] - x) ** 2 + (places[:, None] - y) ** 2 <= radius**2
    return np.round(inside.reshape(size, 16, size, 16).mean((1, 3)) * 255).astype(np.uint8)


@pytest.mark.parametrize(("x", "y"), [(20.0, 20.0), (20.3, 19.6), (12.5, 25.75)])
def test_box_of_a_disc_is_precise_to_a_tenth_of_a_pixel(x: float, y: float) -> None:
    mask = Mask.cut(disc(x, y, 4.0))
    assert geometry.box(mask) == pytest.approx([x - 4, y - 4, x + 4, y + 4], abs=0.1)


def test_blur_does_not_move_the_edges() -> None:
    mask = Mask.cut(cv2.GaussianBlur(disc(20.3, 19.6, 6.0), (0, 0), 0.6))
    assert geometry.box(mask) == pytest.approx([14.3, 13.6, 26.3, 25.6], abs=0.2)


def test_a_blob_that_fades_out_begins_where_it_is_a_tenth_covered() -> None:
    places = np.arange(60) + 0.5
    blob = np.exp(-((places[None] - 30.2) ** 2 + (places[:, None] - 28.0) ** 2) / (2 * 7.0**2))
    reach = 7.0 * np.sqrt(2 * np.log(10))
    mask = Mask.cut(np.round(blob * 255).astype(np.uint8))
    assert geometry.box(mask) == pytest.approx([30.2 - reach, 28 - reach, 30.2 + reach, 28 + reach], abs=0.2)


def test_whole_pixels_give_whole_boxes() -> None:
    mask = Mask(3, 5, np.full((4, 2), 255, np.uint8))
    assert geometry.box(mask).tolist() == [3, 5, 5, 9]


def test_a_single_faint_pixel_has_a_box() -> None:
    box = geometry.box(Mask(7, 7, np.array([[20]], np.uint8)))
    assert (box[:2] < 7.5).all()
    assert (box[2:] > 7.5).all()


def test_centre_of_mass_is_where_the_disc_is() -> None:
    assert geometry.centre_of_mass(Mask.cut(disc(20.3, 19.6, 4.0))) == pytest.approx([20.3, 19.6], abs=0.02)


@pytest.mark.parametrize("degrees", [-60, -20, 0, 30, 80])
def test_oriented_box_follows_the_turn(degrees: float) -> None:
    corners = cv2.boxPoints(((50.0, 40.0), (40.0, 12.0), degrees)).round().astype(np.int32)
    canvas = np.zeros((90, 100), np.uint8)
    cv2.fillPoly(canvas, [corners], 255)
    _, _, width, height, theta = geometry.oriented_box(Mask.cut(canvas))
    assert width >= height
    assert -np.pi / 2 <= theta < np.pi / 2
    assert abs(np.sin(theta - np.deg2rad(degrees))) < 0.07
