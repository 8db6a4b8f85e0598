from __future__ import annotations

import time

import cv2
import numpy as np
import pytest

from labeling.embeddings.appearance import AppearanceEmbedder
from labeling.masks import Mask
from tests.labeling.moving_discs import BLUE, GREEN, RED, WHITE, disc


def picture(colour: tuple[int, int, int], radius: float, centre: tuple[float, float] = (32, 32), shade: float = 0.0):
    share = disc((64, 64), centre, radius)
    image = (share[..., None] * np.array(colour) * (1 - shade)).astype(np.uint8)
    mask = Mask.cut((share * 255).astype(np.uint8))
    assert mask is not None
    return image, mask


def blurred_chroma(image: np.ndarray) -> np.ndarray:
    """What 4:2:0 video does: colour at half the resolution."""
    ycc = cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb)
    for channel in (1, 2):
        half = cv2.resize(ycc[..., channel], None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        ycc[..., channel] = cv2.resize(half, (64, 64), interpolation=cv2.INTER_LINEAR)
    return cv2.cvtColor(ycc, cv2.COLOR_YCrCb2RGB)


def likeness(first, second) -> float:
    embedder = AppearanceEmbedder()
    a, b = (embedder.embed(image, [mask])[0] for image, mask in (first, second))
    return float(a @ b)


def test_rows_have_unit_length_and_no_masks_give_no_rows():
    embedder = AppearanceEmbedder()
    image, mask = picture(RED, 10)
    rows = embedder.embed(image, [mask, mask])
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert embedder.embed(image, []).shape == (0, rows.shape[1])


@pytest.mark.parametrize("colours", [(RED, WHITE), (RED, GREEN), (BLUE, WHITE), (BLUE, GREEN)])
@pytest.mark.parametrize("radius", [4.0, 12.0])
def test_other_colours_are_far_apart(colours, radius):
    assert likeness(picture(colours[0], radius), picture(colours[1], radius)) < 0.6


@pytest.mark.parametrize("colour", [RED, WHITE, BLUE])
def test_place_size_and_light_hardly_matter(colour):
    assert likeness(picture(colour, 4), picture(colour, 14, (25.3, 37.8), shade=0.1)) > 0.85


@pytest.mark.parametrize("centre", [(30.0, 30.0), (31.5, 30.25), (33.7, 32.9)])
def test_blurred_chroma_does_not_change_a_small_ball(centre):
    image, mask = picture(RED, 4, centre)
    blurred = blurred_chroma(image)
    assert likeness((image, mask), (blurred, mask)) > 0.9
    white, white_mask = picture(WHITE, 4, centre)
    assert likeness((blurred, mask), (blurred_chroma(white), white_mask)) < 0.6


def test_an_object_at_the_border_or_of_one_pixel_has_a_vector():
    image, mask = picture(RED, 8, (2, 62))
    assert np.isfinite(AppearanceEmbedder().embed(image, [mask, Mask(5, 5, np.full((1, 1), 255, np.uint8))])).all()


def test_large_objects_are_quick():
    image = np.random.default_rng(0).integers(0, 255, (480, 854, 3), dtype=np.uint8)
    masks = [Mask(10, 10, np.full((400, 300), 255, np.uint8))] * 20
    embedder = AppearanceEmbedder()
    embedder.embed(image, masks[:1])
    start = time.thread_time()
    embedder.embed(image, masks)
    assert (time.thread_time() - start) / len(masks) < 0.02
