"""Categories from embeddings: alike things are one, different things are two, and found anew they keep their ids."""

from __future__ import annotations

import numpy as np
import pytest

from labeling.vocabulary import Vocabulary, VocabularyConfig, discover, keep_ids

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


def likeness(vocabulary: Vocabulary) -> dict[int, int]:
    """Which kind of `views` each category that there is stands for, by its id."""
    return {int(id): int(vocabulary.prototypes[id].argmax()) for id in np.flatnonzero(vocabulary.alive)}


def found_anew(known: Vocabulary, kinds: list[int], counts: list[int]) -> Vocabulary:
    seen = np.concatenate([views([kind], count, seed=kind) for kind, count in zip(kinds, counts, strict=True)])
    return keep_ids(known, discover(seen, CONFIG), CONFIG.merge_distance)


def test_categories_that_persist_keep_their_ids_whatever_their_size() -> None:
    first = discover(views([3, 5], 40), CONFIG)
    before = likeness(first)
    again = found_anew(first, [5, 3, 7], [60, 20, 90])
    assert likeness(again) == before | {2: 7}
    assert again.note.endswith(", 1 new")
    assert again.size.tolist() == [dict(zip([5, 3, 7], [60, 20, 90], strict=True))[k] for k in (*before.values(), 7)]
    assert again.assign(views([7, *before.values()], 1)).tolist() == [2, *before]


def test_an_id_is_never_given_to_another_kind_and_comes_back_with_its_own() -> None:
    first = discover(np.concatenate([views([3], 60), views([5], 40)]), CONFIG)
    without = found_anew(first, [3], [40])
    assert likeness(without) == {0: 3}
    assert without.note.endswith(", 1 gone")
    assert without.assign(views([5], 3)).tolist() == [-1, -1, -1]
    assert likeness(found_anew(without, [3, 8], [40, 40])) == {0: 3, 2: 8}
    assert likeness(found_anew(without, [3, 8, 5], [40, 40, 40])) == {0: 3, 1: 5, 2: 8}


def test_finding_the_same_again_changes_nothing() -> None:
    first = discover(views([0, 1, 2], 40), CONFIG)
    again = keep_ids(first, discover(views([0, 1, 2], 40), CONFIG), CONFIG.merge_distance)
    assert again.fingerprint == first.fingerprint
    assert again.note == first.note


def test_of_two_that_are_like_an_old_one_the_nearer_has_its_id() -> None:
    def at(*turns: float) -> Vocabulary:
        prototypes = np.stack([np.cos(turns), np.sin(turns)], 1).astype(np.float32)
        count = len(turns)
        return Vocabulary(
            prototypes, np.full(count, 0.1, np.float32), np.full(count, 9), prototypes[0], prototypes, "found"
        )

    assert np.allclose(keep_ids(at(0.0), at(0.3, 0.05), 0.4).prototypes, at(0.05, 0.3).prototypes)
    one_near_pair = keep_ids(at(0.0, 0.43), at(0.05, -0.35), 0.4)
    assert one_near_pair.alive.tolist() == [True, False, True], "and not two pairs that are barely alike"


def test_nothing_left_leaves_the_ids() -> None:
    first = discover(views([0, 1], 40), CONFIG)
    nothing = keep_ids(first, discover(np.zeros((0, 1), np.float32), CONFIG), CONFIG.merge_distance)
    assert not nothing.alive.any()
    assert likeness(found_anew(nothing, [4], [40])) == {2: 4}
