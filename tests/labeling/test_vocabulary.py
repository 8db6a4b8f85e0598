"""Categories from embeddings: alike things are one, different things are two, few things are not noise."""

from __future__ import annotations

import numpy as np
import pytest

from labeling.vocabulary import VocabularyConfig, discover

CONFIG = VocabularyConfig()


def views(kinds: list[int], count: int, noise: float = 0.02, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    base = np.eye(24, dtype=np.float32)[np.repeat(kinds, count)]
    return base + noise * rng.standard_normal(base.shape).astype(np.float32)


@pytest.mark.parametrize("kinds", [1, 2, 5])
def test_each_kind_is_one_category(kinds: int) -> None:
    words = discover(views(list(range(kinds)), 40), CONFIG)
    assert len(words.prototypes) == kinds
    assert np.allclose(np.linalg.norm(words.prototypes, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_views_are_one_category_not_noise(count: int) -> None:
    words = discover(views([0], count), CONFIG)
    assert len(words.prototypes) == 1
    assert (words.assign(views([0], count)) == 0).all()
    assert "one category" in words.note


def test_no_views_are_no_category() -> None:
    words = discover(np.zeros((0, 5), np.float32), CONFIG)
    assert len(words.prototypes) == 0
    assert words.assign(np.zeros((3, 5), np.float32)).tolist() == [-1, -1, -1]


def test_many_tracks_of_one_kind_stay_one_category() -> None:
    rng = np.random.default_rng(1)
    tracks = [views([0], 16, noise=0.005, seed=k) + 0.03 * rng.standard_normal(24) for k in range(12)]
    assert len(discover(np.concatenate(tracks), CONFIG).prototypes) == 1


def test_new_view_joins_its_category_and_a_stranger_none() -> None:
    words = discover(views([0, 1], 40), CONFIG)
    known = words.assign(views([0, 1], 1, seed=9))
    assert set(known.tolist()) == {0, 1}
    assert words.assign(np.eye(24, dtype=np.float32)[[7]]).tolist() == [-1]


def test_order_of_categories_is_by_size() -> None:
    words = discover(np.concatenate([views([0], 20), views([1], 60)]), CONFIG)
    assert words.size.tolist() == sorted(words.size.tolist(), reverse=True)
    assert words.prototypes[0].argmax() == 1


def test_chain_of_alike_kinds_is_not_one_category() -> None:
    turns = np.repeat(np.arange(6) * 0.35, 30)
    rng = np.random.default_rng(0)
    chain = np.stack([np.cos(turns), np.sin(turns)], 1) + 0.01 * rng.standard_normal((180, 2))
    words = discover(np.pad(chain, ((0, 0), (0, 6))).astype(np.float32), CONFIG)
    assert 2 <= len(words.prototypes) < 6
