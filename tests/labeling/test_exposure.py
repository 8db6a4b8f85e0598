"""Changes of exposure are taken out; moving objects are not mistaken for them."""

import numpy as np
import pytest

from labeling.proposals.exposure import with_exposure_of


def scene() -> np.ndarray:
    return np.random.default_rng(0).integers(60, 200, (90, 120, 3)).astype(np.uint8)


@pytest.mark.parametrize("factor", [0.6, 0.9, 1.15])
def test_a_darker_or_brighter_picture_is_brought_back(factor: float) -> None:
    dimmed = np.clip(np.round(scene() * factor), 0, 255).astype(np.uint8)
    assert np.abs(with_exposure_of(scene(), dimmed).astype(int) - scene()).mean() < 3


def test_a_large_object_is_not_a_change_of_exposure() -> None:
    covered = scene()
    covered[:, :70] = 20
    assert with_exposure_of(scene(), covered) is covered


def test_the_same_exposure_leaves_the_picture_alone() -> None:
    picture = scene()
    assert with_exposure_of(scene(), picture) is picture
