from __future__ import annotations

import tracemalloc
from collections import defaultdict

import numpy as np
import pytest

from labeling import geometry
from labeling.embeddings.appearance import AppearanceEmbedder
from labeling.reacquire import ReacquireConfig, Tracklet, relink
from labeling.trackers.association import AssociationTracker
from tests.labeling.moving_discs import BLUE, GREEN, RED, WHITE, line, scene

SIZE = (96, 128)
LOOKS = np.eye(4, dtype=np.float32)


def tracklet(first, last, start, end, looks=0, category=0) -> Tracklet:
    """A 10-pixel box that goes straight from `start` to `end`."""
    frames = np.arange(first, last + 1)
    share = np.linspace(0, 1, len(frames))[:, None]
    centres = np.array(start) * (1 - share) + np.array(end) * share
    boxes = np.clip(np.concatenate([centres - 5, centres + 5], 1), 0, [128, 96, 128, 96])
    return Tracklet.of(frames, boxes, category, LOOKS[looks], SIZE)


def test_nothing_to_link_leaves_every_tracklet_alone():
    assert relink([]).tolist() == []
    overlapping = [tracklet(0, 30, (20, 20), (80, 20)), tracklet(20, 50, (20, 60), (80, 60))]
    assert relink(overlapping).tolist() == [0, 1]


def test_an_object_hidden_on_its_way_is_one_instance():
    parts = [tracklet(0, 30, (20, 50), (50, 50)), tracklet(60, 90, (80, 50), (110, 50))]
    assert relink(parts).tolist() == [0, 0]


def passes_a_post(seen_whole: bool) -> list[Tracklet]:
    """Twenty pixels wide, it goes behind a post at x = 60 and is seen on both sides of it for three frames."""
    left, right = np.arange(23), np.arange(20, 45)
    ends = 10 + 2.4 * left
    before = np.stack([ends, ends * 0 + 40, ends + 20, ends * 0 + 60], 1)
    starts = 10 + 2.4 * right
    after = np.stack([starts, starts * 0 + 40, starts + 20, starts * 0 + 60], 1)
    if not seen_whole:
        before[:, 2] = np.minimum(before[:, 2], 70)
        after[:, 0] = np.maximum(after[:, 0], 74)
    return [Tracklet.of(f, b, 0, LOOKS[0], SIZE) for f, b in ((left, before), (right, after))]


def test_an_object_seen_on_both_sides_of_a_post_is_one_instance():
    assert relink(passes_a_post(seen_whole=False)).tolist() == [0, 0]
    assert relink(passes_a_post(seen_whole=True)).tolist() == [0, 1], "two whole objects are two"


@pytest.mark.parametrize(("looks", "category"), [(1, 0), (0, 1)])
def test_other_looks_or_another_category_are_never_linked(looks, category):
    parts = [tracklet(0, 30, (20, 50), (50, 50)), tracklet(60, 90, (80, 50), (110, 50), looks, category)]
    assert relink(parts).tolist() == [0, 1]


def test_an_object_that_left_does_not_turn_up_in_the_middle():
    parts = [tracklet(0, 30, (60, 50), (124, 50)), tracklet(60, 90, (60, 50), (40, 30))]
    assert relink(parts).tolist() == [0, 1]


def test_leaving_and_coming_back_twice_is_one_instance():
    x = np.concatenate([np.linspace(125, 80, 16), np.linspace(80, 125, 16)])
    visit = Tracklet.of(60 + np.arange(32), np.stack([x - 5, x * 0 + 45, x + 5, x * 0 + 55], 1), 0, LOOKS[0], SIZE)
    parts = [tracklet(0, 30, (60, 50), (125, 50)), visit, tracklet(120, 150, (125, 50), (60, 50))]
    assert relink(parts).tolist() == [0, 0, 0]


def test_two_that_are_equally_likely_are_refused():
    parts = [tracklet(0, 30, (60, 30), (125, 30)), tracklet(0, 30, (60, 60), (125, 60))]
    parts += [tracklet(60, 90, (125, 45), (60, 45))]
    assert relink(parts).tolist() == [0, 1, 2]


def test_memory_does_not_grow_with_the_square_of_the_tracklets():
    """One object that is hidden every 20 frames, 2,000 times: one chain."""
    parts = [tracklet(20 * k, 20 * k + 9, (20, 50), (25, 50)) for k in range(2000)]
    tracemalloc.start()
    instances = relink(parts, ReacquireConfig(longest_gap=40))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert set(instances) == {0}
    assert peak < 8 << 20, "a square of them takes 32 MB"


def test_a_gap_that_is_too_long_is_not_bridged():
    parts = [tracklet(0, 30, (20, 50), (50, 50)), tracklet(60, 90, (80, 50), (110, 50))]
    assert relink(parts, ReacquireConfig(longest_gap=10)).tolist() == [0, 1]


def leave_and_return(seed: int):
    """A disc that leaves for 30 frames and comes back over a side that need not be the same, among others."""
    rng = np.random.default_rng(seed)
    colours = [RED, WHITE, BLUE, GREEN]
    rng.shuffle(colours)
    speed, height = rng.uniform(1.5, 3), rng.uniform(25, 70)
    gone = int(np.ceil((128 + 7 - 64) / speed))
    side = rng.choice(["right", "left", "top"])
    back = {"right": ((135, height), (-speed, 0)), "left": ((-7, height), (speed, 0)), "top": ((64, -7), (0, speed))}
    out, home = line((64, height), (speed, 0.1)), line(*back[side])

    def path(t: int):
        return out(t) if t < gone else None if t < gone + 30 else home(t - gone - 30)

    others = [(line((10, 85), (1, 0)), colours[1], 6), (line((110, 10), (-1, 0)), colours[2], 6)]
    return [(path, colours[0], 6), *others], gone, gone + 30 + int(40 / speed), path


def test_an_object_that_leaves_for_30_frames_keeps_its_instance_in_9_of_10():
    kept = 0
    for seed in range(10):
        discs, gone, frames, path = leave_and_return(seed)
        seen = defaultdict(list)
        for observation in AssociationTracker().track(scene(discs, frames, SIZE), AppearanceEmbedder()):
            seen[observation.track].append(observation)
        tracks = sorted(seen)
        tracklets = [
            Tracklet.of(
                np.array([o.frame for o in seen[k]]),
                np.array([geometry.box(o.mask) for o in seen[k]]),
                -1,
                np.mean([o.embedding for o in seen[k] if o.embedding is not None], axis=0),
                SIZE,
            )
            for k in tracks
        ]
        instance = relink(tracklets)

        def owner(frame: int, path=path, seen=seen, instance=instance, tracks=tracks) -> int:
            here = {k: geometry.box(o.mask) for k, row in seen.items() for o in row if o.frame == frame}
            near = min(here, key=lambda k: np.hypot(*((here[k][:2] + here[k][2:]) / 2 - path(frame))))
            return int(instance[tracks.index(near)])

        identities = {owner(gone - 12), owner(frames - 1)}
        others = {int(instance[tracks.index(k)]) for k in tracks} - identities
        kept += len(identities) == 1 and len(others) == 2
    assert kept >= 9


def test_linking_can_be_switched_off():
    parts = [tracklet(0, 30, (20, 50), (50, 50)), tracklet(60, 90, (80, 50), (110, 50))]
    assert relink(parts, ReacquireConfig(longest_gap=0)).tolist() == [0, 1]
    assert len(relink(passes_a_post(seen_whole=True), ReacquireConfig(longest_gap=0))) == len(passes_a_post(True))
