"""Groups are told from objects, and lost objects are known by their looks."""

from __future__ import annotations

import numpy as np

from labeling.masks import Mask
from labeling.proposals import Proposal
from labeling.trackers.sam_objects import Followed, is_group, recognised
from tests.labeling.moving_discs import disc
from tests.labeling.test_sam_tracker import SHAPE, Oracle, OracleSession


def one(mask: Mask | None) -> Mask:
    assert mask is not None
    return mask


def test_what_most_looks_show_as_several_is_a_group_and_parts_of_a_whole_are_not() -> None:
    left, right = (one(Mask.cut((disc(SHAPE, (x, 40), 9) * 255).astype(np.uint8))) for x in (40, 56))
    both = one(Mask.cut(np.maximum(left.placed(*SHAPE), right.placed(*SHAPE))))
    masks = dict.fromkeys(range(4), both)
    apart, together = [Proposal(left, 0.9), Proposal(right, 0.9)], [Proposal(both, 0.9)]
    assert is_group(masks, {0: together, 1: apart, 2: apart})
    assert not is_group(masks, {0: together, 1: apart})
    assert not is_group(masks, {0: together, 1: apart + together, 2: together + apart})
    assert not is_group(masks, {0: together, 1: apart[:1], 2: apart[1:], 3: []})


def test_lost_objects_are_recognised_by_looks_each_once() -> None:
    def known(looks: tuple[float, float], first: int, last: int) -> Followed:
        return Followed(0, OracleSession(Oracle()), 0.9, first, last, looks=np.array(looks))

    newcomers = [known((1, 0), 50, 60), known((0.9, 0.45), 50, 60)]
    lost = [known((3, 0.3), 0, 20), known((2, 2), 0, 20)]
    assert recognised(newcomers, lost, 0.8) == [(0, 0), (1, 1)]
    assert recognised(newcomers, lost[:1], 0.8) == [(0, 0)]
    assert recognised(newcomers, lost, 0.999) == []
    assert recognised(newcomers, [known((1, 0), 0, 55)], 0.8) == []  # still seen when the newcomer appears
    assert recognised([], lost, 0.8) == []
