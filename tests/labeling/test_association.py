from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from labeling import geometry
from labeling.embeddings.appearance import AppearanceEmbedder
from labeling.masks import Mask
from labeling.proposals import Proposal
from labeling.trackers import Observation
from labeling.trackers.association import AssociationTracker
from tests.labeling.moving_discs import BLUE, RED, WHITE, Path, disc, line, pieces, scene


def tracked(discs, frames: int, shape=(96, 128), change=lambda frame: frame) -> dict[int, dict[int, Observation]]:
    """Observations by track and frame."""
    found: dict[int, dict[int, Observation]] = defaultdict(dict)
    frames_in = (change(frame) for frame in scene(discs, frames, shape))
    last = -1
    for seen in AssociationTracker().track(frames_in, AppearanceEmbedder()):
        assert seen.frame >= last
        last = seen.frame
        assert seen.frame not in found[seen.track]
        found[seen.track][seen.frame] = seen
    return dict(found)


def assert_follows(tracks: dict[int, dict[int, Observation]], path: Path, frames: list[int], tolerance: float) -> int:
    """Exactly one track is on the path, from the first frame to the last; its number."""
    numbers = set()
    for frame in frames:
        here = {n: geometry.box(t[frame].mask) for n, t in tracks.items() if frame in t}
        x, y = path(frame)
        offsets = {n: np.hypot((b[0] + b[2]) / 2 - x, (b[1] + b[3]) / 2 - y) for n, b in here.items()}
        number = min(offsets, key=offsets.get)
        assert offsets[number] < tolerance, f"nobody follows at frame {frame}"
        numbers.add(number)
    assert len(numbers) == 1, f"the identity changed: {numbers}"
    return numbers.pop()


def test_two_identical_discs_keep_their_identity_through_a_crossing():
    first, second = line((20, 40), (2, 0.3)), line((108, 52), (-2, -0.2))
    tracks = tracked([(first, WHITE, 6), (second, WHITE, 6)], 45)
    assert len(tracks) == 2
    apart = [t for t in range(45) if np.hypot(*np.subtract(first(t), second(t))) > 5]
    one, other = (assert_follows(tracks, path, apart, 1.5) for path in (first, second))
    assert one != other


def test_boxes_keep_their_size_while_merged():
    first, second = line((20, 48), (2, 0)), line((100, 52), (-1.5, 0))
    tracks = tracked([(first, WHITE, 6), (second, WHITE, 6)], 40)
    for track in tracks.values():
        for seen in track.values():
            box = geometry.box(seen.mask)
            np.testing.assert_allclose(box[2:] - box[:2], 12, atol=1.2)


def test_discs_that_begin_merged_are_told_apart_from_the_first_frame():
    first, second = line((40, 40), (1.2, 0.4)), line((47, 44), (-1.0, 0.9))
    tracks = tracked([(first, WHITE, 6), (second, WHITE, 6)], 40)
    one, other = (assert_follows(tracks, path, list(range(40)), 2.5) for path in (first, second))
    assert one != other


def test_a_small_disc_is_found_in_front_of_a_large_one_of_another_colour():
    small, large = line((15, 48), (2, 0)), line((64, 48), (0, 0.1))
    tracks = tracked([(large, BLUE, 16), (small, RED, 5)], 50)
    assert_follows(tracks, small, list(range(50)), 1.5)
    assert_follows(tracks, large, list(range(50)), 2.5)


def test_a_bounce_at_the_border_keeps_the_identity():
    def bouncing(t: int) -> tuple[float, float]:
        x = 40 - 3.0 * t
        return (x if x > 6 else 12 - x), 30 + 0.5 * t

    tracks = tracked([(bouncing, WHITE, 6), (line((30, 80), (1.5, 0)), WHITE, 6)], 35)
    assert len(tracks) == 2
    assert_follows(tracks, bouncing, list(range(35)), 1.5)


def test_balls_that_meet_where_they_bounce_off_the_border_keep_their_identity():
    def ball(start: tuple[float, float], velocity: tuple[float, float]) -> Path:
        return lambda t: tuple(60 - abs((s + v * t - 4) % 112 - 56) for s, v in zip(start, velocity, strict=True))

    paths = [
        ball((22.7, 51.4), (-2.4, -1.2)),
        ball((6.6, 15.2), (-0.2, 3)),
        ball((40, 30), (2.6, -0.5)),
        ball((50, 50), (1.5, 2)),
    ]
    tracks = tracked([(path, WHITE, 4) for path in paths], 60, (64, 64))
    assert len(tracks) == 4
    apart = [
        t for t in range(60) if min(np.hypot(*np.subtract(a(t), b(t))) for a in paths for b in paths if a is not b) > 6
    ]
    assert len({assert_follows(tracks, path, apart, 2.0) for path in paths}) == 4


@pytest.mark.parametrize("gap", [1, 5, 9])
def test_a_short_gap_is_filled(gap):
    path = line((20, 48), (2, 0))

    def drop(frame):
        return replace(frame, proposals=[]) if 20 <= frame.frame.index < 20 + gap else frame

    tracks = tracked([(path, RED, 6)], 45, change=drop)
    assert len(tracks) == 1
    assert_follows(tracks, path, list(range(45)), 1.0)
    filled = tracks[0][20]
    assert filled.embedding is None
    assert filled.score < tracks[0][19].score


def test_an_object_in_pieces_stays_one_track():
    path = line((20, 48), (1.5, 0))

    def halve(frame):
        if frame.frame.index not in (20, 21, 30):
            return frame
        whole = frame.proposals[0]
        left, right = whole.mask.coverage.copy(), whole.mask.coverage.copy()
        left[:, 7:], right[:, :9] = 0, 0
        parts = [replace(whole, mask=replace(whole.mask, coverage=half)) for half in (left, right)]
        return replace(frame, proposals=parts)

    tracks = tracked([(path, RED, 8)], 45, change=halve)
    assert len(tracks) == 1


def test_an_object_that_appears_later_gets_a_number_of_its_own():
    late = line((10, 20), (1, 0.5))
    tracks = tracked([(line((20, 70), (1, 0)), WHITE, 6), (lambda t: late(t) if t >= 40 else None, WHITE, 6)], 70)
    assert sorted(tracks) == [0, 1]
    assert min(tracks[1]) == 40


def test_a_cut_ends_all_tracks():
    path = line((20, 48), (1, 0))
    tracks = tracked([(path, RED, 6)], 30, change=lambda f: replace(f, cut=f.frame.index in (0, 15)))
    assert sorted(tracks) == [0, 1]
    assert max(tracks[0]) == 14
    assert min(tracks[1]) == 15


def test_motion_is_measured_against_the_scene():
    step = np.array([[1, 0, 3.0], [0, 1, 0], [0, 0, 1]])
    carried, moving = line((10, 30), (3, 0)), line((10, 70), (4, 0))
    discs = [(carried, WHITE, 5), (moving, WHITE, 5)]
    tracks = tracked(discs, 25, change=lambda f: replace(f, camera=step if f.frame.index else np.eye(3)))
    speeds = sorted(np.median([seen.motion for seen in track.values()]) for track in tracks.values())
    assert speeds[0] < 0.2
    assert speeds[1] == pytest.approx(1.0, abs=0.25)


def test_the_same_frames_give_the_same_observations():
    discs = [(line((20, 40), (2, 0.3)), WHITE, 6), (line((108, 52), (-2, -0.2)), WHITE, 6)]
    first, second = tracked(discs, 40), tracked(discs, 40)
    assert first.keys() == second.keys()
    for number, track in first.items():
        for frame, seen in track.items():
            np.testing.assert_array_equal(seen.mask.coverage, second[number][frame].mask.coverage)


def test_an_object_behind_a_pole_comes_out_as_the_same_track():
    path = line((25, 48), (1.5, 0))

    def hide(frame):
        covered = np.zeros((96, 128), np.float32)
        for proposal in frame.proposals:
            covered = np.maximum(covered, proposal.mask.placed(96, 128) / 255)
        covered[:, 62:68] = 0
        return replace(frame, proposals=pieces(covered))

    tracks = tracked([(path, RED, 14)], 50, change=hide)
    assert len(tracks) == 1
    box = geometry.box(tracks[0][26].mask)
    np.testing.assert_allclose(box, [*np.subtract(path(26), 14), *np.add(path(26), 14)], atol=1.5)


def test_a_swinging_arm_whose_hand_passes_behind_something_stays_one_track():
    post = disc((96, 128), (72, 58), 9) > 0
    reach = 56

    def arm(frame):
        angle = np.pi / 4 * np.sin(0.15 * frame.frame.index)
        covered = np.zeros((96, 128), np.float32)
        for out in np.arange(0, reach, 1.5):
            covered = np.maximum(covered, disc((96, 128), (40 + out * np.cos(angle), 40 + out * np.sin(angle)), 3))
        covered[post] = 0
        image = (40 + covered[..., None] * np.subtract(WHITE, 40)).astype(np.uint8)
        return replace(frame, proposals=pieces(covered), frame=replace(frame.frame, image=image))

    tracks = tracked([], 60, change=arm)
    assert all(len(track) < 3 for number, track in tracks.items() if number != 0)
    boxes = np.array([geometry.box(seen.mask) for seen in tracks[0].values()])
    lengths = np.hypot(*(boxes[:, 2:] - boxes[:, :2]).T)
    assert len(lengths) == 60
    assert np.mean(lengths > reach) > 0.95


def test_a_flash_over_the_whole_picture_is_no_object():
    path = line((20, 48), (2, 0))
    everything = Proposal(Mask(0, 0, np.full((96, 128), 255, np.uint8)), 1.0)

    def flash(frame):
        return replace(frame, proposals=[everything]) if 20 <= frame.frame.index < 24 else frame

    tracks = tracked([(path, RED, 6)], 45, change=flash)
    assert len(tracks) == 1
    assert_follows(tracks, path, list(range(45)), 1.0)


def test_a_heap_of_two_colours_is_told_apart_from_the_first_frame():
    red, white, other = line((40, 40), (0.8, 0.5)), line((48, 42), (0.3, -0.6)), line((100, 70), (-0.5, 0))
    tracks = tracked([(white, WHITE, 6), (red, RED, 6), (other, WHITE, 6)], 45)
    numbers = {assert_follows(tracks, path, list(range(45)), 2.0) for path in (red, white, other)}
    assert len(numbers) == 3
    assert len(tracks) == 3


def test_discs_that_are_never_alone_have_the_looks_of_their_kind():
    def circling(t: int) -> tuple[float, float]:
        return 40 + 9 * np.cos(t / 4), 40 + 9 * np.sin(t / 4)

    tracks = tracked([(lambda t: (40, 40), WHITE, 6), (circling, WHITE, 6), (line((110, 80), (-1, 0)), WHITE, 6)], 60)
    means = [np.mean([s.embedding for s in t.values() if s.embedding is not None], axis=0) for t in tracks.values()]
    assert len(means) == 3
    assert min(float(a @ b) for a in means for b in means) > 0.9


def test_no_proposals_give_no_observations():
    assert tracked([], 5) == {}
    assert list(AssociationTracker().track([], AppearanceEmbedder())) == []
