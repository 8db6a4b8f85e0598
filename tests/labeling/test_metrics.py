"""HOTA, identities and their parts on cases that can be worked out by hand, and on many more against TrackEval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from labeling.metrics import NOTHING, THRESHOLDS, Switch, compare, covered, follow, identity_f1, match
from tests.labeling.scored_clips import as_trackeval

FRAMES = 10


def moving(start: float, frames: int = FRAMES) -> np.ndarray:
    """A box (T, 4) of 10 x 10 pixels that goes to the right."""
    left = start + np.arange(frames)[:, None] * 2.0
    return np.concatenate([left, np.full_like(left, 5.0), left + 10, np.full_like(left, 15.0)], axis=1)


def only(boxes: np.ndarray, frames: slice) -> np.ndarray:
    """Boxes in some frames alone."""
    kept = np.full_like(boxes, np.nan)
    kept[frames] = boxes[frames]
    return kept


def stacked(*boxes: np.ndarray) -> np.ndarray:
    return np.stack(boxes, axis=1)


TRUE = stacked(moving(0), moving(100))


def test_the_truth_agrees_with_itself_in_any_order() -> None:
    for found in (TRUE, TRUE[:, ::-1]):
        agreement = compare(found, TRUE)
        assert agreement.hota == 1
        assert agreement.edge_error == 0


@pytest.mark.parametrize(
    ("found", "detection", "association"),
    [
        (stacked(moving(0)), 0.5, 1.0),  # one of two is missing
        (stacked(moving(0), moving(100), moving(300), moving(400)), 0.5, 1.0),  # two are not there
        # Both are found all the time, but lose their names in the middle.
        (stacked(*(only(moving(x), part) for x in (0, 100) for part in (slice(0, 5), slice(5, 10)))), 1.0, 0.5),
        # Two tracks swap their objects in the middle: each shares 5 frames with either, of 15 together.
        (
            stacked(*(np.concatenate([moving(a)[:5], moving(b)[5:]]) for a, b in ((0, 100), (100, 0)))),
            1.0,
            5 / 15,
        ),
        (np.full((FRAMES, 1, 4), np.nan), 0.0, 0.0),
        (np.zeros((FRAMES, 0, 4)), 0.0, 0.0),
    ],
    ids=["missed", "made up", "broken", "swapped", "empty track", "nothing"],
)
def test_what_is_missed_made_up_or_mixed_up(found: np.ndarray, detection: float, association: float) -> None:
    agreement = compare(found, TRUE)
    np.testing.assert_allclose(agreement.detection, detection)
    np.testing.assert_allclose(agreement.association, association)
    assert agreement.hota == pytest.approx(np.sqrt(detection * association))


def test_boxes_count_up_to_the_threshold_that_they_overlap_by() -> None:
    shifted = TRUE + np.array([0, 2.5, 0, 2.5])  # 7.5 of 12.5 rows in common: an overlap of 0.6
    agreement = compare(shifted, TRUE)
    assert (agreement.matched > 0).sum() == 12  # 0.05 to 0.6
    assert agreement.edge_error == pytest.approx(1.25)


def test_counts_of_videos_add_up() -> None:
    half = compare(stacked(moving(0)), TRUE)
    both = half + compare(TRUE, TRUE) + NOTHING
    np.testing.assert_allclose(both.detection, 30 / 40)
    assert both.hota == pytest.approx(np.sqrt(30 / 40))


def test_nothing_at_all_is_no_error() -> None:
    empty = compare(np.zeros((5, 0, 4)), np.zeros((5, 0, 4)))
    assert empty.hota == 0
    assert np.isnan(empty.edge_error)


@given(arrays(float, (6, 3, 2), elements=st.floats(0, 50)), st.permutations(range(3)))
def test_the_order_of_tracks_does_not_matter(corners: np.ndarray, order: list[int]) -> None:
    found = np.concatenate([corners, corners + 12.0], axis=-1)
    true = np.broadcast_to(moving(10, 6)[:, None], (6, 2, 4)) + np.array([[0.0], [15.0]])
    one, other = compare(found, true), compare(found[:, order], true)
    assert one.hota == pytest.approx(other.hota, abs=0.05)  # ties may fall either way
    assert 0 <= one.hota <= 1
    pairs, _ = match(found, true)
    for column in (1, 2):
        assert len({(row[0], row[column]) for row in pairs}) == len(pairs)  # one to one in each frame


def test_two_tracks_that_swap_their_objects_are_two_switches() -> None:
    swapped = stacked(*(np.concatenate([moving(a)[:5], moving(b)[5:]]) for a, b in ((0, 100), (100, 0))))
    followed = follow(swapped, TRUE)
    assert followed.matched == 20
    assert followed.switches == [Switch(5, 0, 0, 1), Switch(5, 1, 1, 0)]
    assert identity_f1(swapped, TRUE) == 0.5  # each name is right for 5 of its 10 frames


def test_an_object_that_comes_back_under_another_name_is_a_switch() -> None:
    broken = stacked(only(moving(0), slice(0, 3)), only(moving(0), slice(7, 10)))
    assert follow(broken, stacked(moving(0))).switches == [Switch(7, 0, 0, 1)]
    assert identity_f1(broken, stacked(moving(0))) == pytest.approx(2 * 3 / (10 + 6))


def test_a_track_keeps_to_its_object_though_another_fits_better_for_a_while() -> None:
    near = moving(0) + np.array([1.0, 0, 1.0, 0])
    both = stacked(near, only(moving(0), slice(4, 6)))
    assert follow(both, stacked(moving(0))).switches == []


def test_one_large_box_covers_several_true_ones_but_matches_one_at_most() -> None:
    true = stacked(moving(0), moving(8))
    one = moving(0) + np.array([0, 0, 8.0, 0])  # 18 wide: both lie in it, each with 10 / 18
    assert covered(stacked(one), true) == 20
    assert follow(stacked(one), true).matched == 10
    assert covered(np.zeros((FRAMES, 0, 4)), true) == 0


@st.composite
def crowds(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """True boxes that come, go and cross, and found ones that stray from them, swap, get lost or are made up."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    frames, count = int(rng.integers(1, 30)), int(rng.integers(1, 5))
    corner = rng.uniform(0, 60, (1, count, 2)) + rng.normal(0, 2, (frames, count, 2)).cumsum(axis=0)
    true = np.concatenate([corner, corner + rng.uniform(8, 20, (1, count, 2))], axis=-1)
    found = np.concatenate([true, true[:, : rng.integers(0, count + 1)]], axis=1)
    found = found + rng.normal(0, draw(st.sampled_from([0.3, 1.5, 4.0])), found.shape)
    cut = int(rng.integers(0, frames + 1))
    found[cut:] = found[cut:, rng.permutation(found.shape[1])]
    true[rng.random(true.shape[:2]) < 0.2] = np.nan
    found[rng.random(found.shape[:2]) < draw(st.sampled_from([0.1, 0.5, 0.95]))] = np.nan
    return found, true


@settings(deadline=None, max_examples=150)
@given(crowds())
def test_figures_are_those_of_trackeval(crowd: tuple[np.ndarray, np.ndarray]) -> None:
    pytest.importorskip("trackeval", reason="pip install --no-deps trackeval==1.3.0")
    from trackeval.metrics import CLEAR, HOTA, Identity

    data = as_trackeval(*crowd)
    agreement, followed = compare(*crowd), follow(*crowd)
    theirs = HOTA().eval_sequence(data)
    assert len(THRESHOLDS) == len(theirs["HOTA"])
    np.testing.assert_allclose(agreement.detection, theirs["DetA"], atol=1e-12)
    np.testing.assert_allclose(agreement.association, theirs["AssA"], atol=1e-12)
    assert agreement.hota == pytest.approx(theirs["HOTA"].mean(), abs=1e-12)
    quiet = {"PRINT_CONFIG": False}
    clear, identity = CLEAR(quiet).eval_sequence(data), Identity(quiet).eval_sequence(data)
    assert (followed.matched, len(followed.switches)) == (clear["CLR_TP"], clear["IDSW"])
    assert identity_f1(*crowd) == pytest.approx(identity["IDF1"], abs=1e-12)
