"""Box states are those of the paper, absent objects count for nothing, and noise belongs to the labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.batches import make_batch
from training.boxes import PARTS, BoxStates, TargetError, jittered, sigmas
from training.dataset import Batch
from training.dataset_format import Statistics
from training.settings import BoxState, TargetConfig

STATISTICS = {
    "log_depth": Statistics(np.array([0.1, 0.2, 0.3, 0.4, 0.5]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])),
    "velocity": Statistics(np.array([0.0, 0.0]), np.array([0.05, 0.05])),
    "state": Statistics(np.full(7, 0.5), np.full(7, 0.25)),
    "pose": Statistics(np.full(6, 0.5), np.full(6, 0.3)),
    "pose_velocity": Statistics(np.zeros(3), np.full(3, 0.05)),
    "oriented": Statistics(np.zeros(5), np.ones(5)),  # these two only tell that the dataset has them
    "mass": Statistics(np.zeros(2), np.ones(2)),
}
SIZES: dict[BoxState, int] = {
    "bb": 4, "obb": 6, "obb2": 6, "bb+com": 6, "obb+com": 8, "obb2+com": 8, "bb+depth50": 5, "bb+depth25-75": 6,
    "bb+depth05-95": 6, "compact7": 7, "compact13": 13, "exact": 7,
}  # fmt: skip


@pytest.fixture
def batch() -> Batch:
    return make_batch()


@pytest.mark.parametrize("state", SIZES)
def test_every_state_has_the_papers_size_and_is_zero_where_nothing_is_known(state: BoxState, batch: Batch) -> None:
    states = BoxStates(state, STATISTICS)(batch)
    objects = 1 if state == "exact" else 3
    assert states.values.shape == states.known.shape == (6, 4, objects, SIZES[state])
    assert (states.values[~states.known] == 0).all()
    assert BoxStates(state, STATISTICS).size == SIZES[state]


def test_oriented_boxes_come_with_sine_and_cosine_of_the_angle_or_twice_the_angle(batch: Batch) -> None:
    batch = replace(batch, present=torch.ones_like(batch.present))
    assert batch.oriented is not None
    angle = batch.oriented[..., 4]
    plain, doubled = BoxStates("obb")(batch).values, BoxStates("obb2")(batch).values
    torch.testing.assert_close(plain[..., :4], batch.oriented[..., :4])
    torch.testing.assert_close(plain[..., 4:], torch.stack([angle.sin(), angle.cos()], -1))
    torch.testing.assert_close(doubled[..., 4:], torch.stack([(2 * angle).sin(), (2 * angle).cos()], -1))
    turned = replace(batch, oriented=torch.cat([batch.oriented[..., :4], angle[..., None] + torch.pi], -1))
    torch.testing.assert_close(BoxStates("obb2")(turned).values, doubled, atol=1e-5, rtol=0)


def test_centre_of_mass_follows_the_box(batch: Batch) -> None:
    batch = replace(batch, present=torch.ones_like(batch.present))
    assert batch.mass is not None
    torch.testing.assert_close(BoxStates("bb+com")(batch).values, torch.cat([batch.boxes, batch.mass], -1))
    torch.testing.assert_close(BoxStates("obb2+com")(batch).values[..., 6:], batch.mass)


@pytest.mark.parametrize(
    ("state", "percentiles"), [("bb+depth50", [2]), ("bb+depth25-75", [1, 3]), ("bb+depth05-95", [0, 4])]
)
def test_depths_are_logarithms_normalised_by_the_training_split(
    state: BoxState, percentiles: list[int], batch: Batch
) -> None:
    batch = replace(batch, present=torch.ones_like(batch.present))
    assert batch.depth is not None
    usual = STATISTICS["log_depth"]
    expected = (batch.depth.log().numpy() - usual.mean) / usual.std
    values = BoxStates(state, STATISTICS)(batch).values[..., 4:]
    np.testing.assert_allclose(values, expected[..., percentiles], rtol=1e-5, atol=1e-6)


def test_compact7_knows_presence_of_absent_objects_and_nothing_else_of_them(batch: Batch) -> None:
    states = BoxStates("compact7", STATISTICS)(batch)
    torch.testing.assert_close(states.values[..., 0], batch.present.float())
    assert states.known[..., 0].all()
    assert not states.known[~batch.present][:, 1:].any()
    assert states.known[batch.present].all()


def test_compact7_has_no_direction_for_round_objects_and_no_presence_for_empty_slots(batch: Batch) -> None:
    assert batch.oriented is not None
    round_ones = batch.oriented.clone()
    round_ones[..., 3] = round_ones[..., 2]
    category = batch.category.clone()
    category[:, 2] = -1
    present = batch.present.clone()
    present[:, :, 2] = False
    states = BoxStates("compact7", STATISTICS)(replace(batch, oriented=round_ones, category=category, present=present))
    assert not states.known[..., 5:].any()
    assert not states.known[:, :, 2].any()
    assert states.known[:, :, :2, 1:5][present[:, :, :2]].all()


def test_compact7_faces_where_the_object_does_if_the_dataset_knows(batch: Batch) -> None:
    heading = torch.linspace(-4, 4, batch.present.numel()).view(*batch.present.shape, 1)
    heading[:, :, 1] = torch.nan  # this one is round
    present = torch.ones_like(batch.present)
    states = BoxStates("compact7", STATISTICS)(replace(batch, heading=heading, present=present))
    assert not states.known[:, :, 1, 5:].any()
    for one in (0, 2):  # all the way round, which a box cannot tell
        angle = heading[:, :, one]
        torch.testing.assert_close(states.values[:, :, one, 5:], torch.cat([angle.sin(), angle.cos()], -1))
        assert states.known[:, :, one, 5:].all()


def test_a_number_that_does_not_apply_is_masked(batch: Batch) -> None:
    assert batch.velocity is not None
    velocity = batch.velocity.clone()
    velocity[:, :, 1] = torch.nan
    states = BoxStates("compact7", STATISTICS)(replace(batch, velocity=velocity))
    assert not states.known[:, :, 1, 3:5].any()
    assert states.values.isfinite().all()


def test_compact13_has_place_velocity_and_three_angles(batch: Batch) -> None:
    batch = replace(batch, present=torch.ones_like(batch.present))
    assert batch.pose is not None
    assert batch.pose_velocity is not None
    values = BoxStates("compact13", STATISTICS)(batch).values
    assert (values[..., 0] == 1).all()
    torch.testing.assert_close(values[..., 1:4], (batch.pose[..., :3] - 0.5) / 0.3)
    torch.testing.assert_close(values[..., 4:7], batch.pose_velocity / 0.05)
    torch.testing.assert_close(values[..., 7::2], batch.pose[..., 3:].sin())
    torch.testing.assert_close(values[..., 8::2], batch.pose[..., 3:].cos())


def test_compact13_masks_angles_that_do_not_apply(batch: Batch) -> None:
    assert batch.pose is not None
    pose = batch.pose.clone()
    pose[:, :, 0, 3:5] = torch.nan  # a cube on a table has a yaw only
    known = BoxStates("compact13", STATISTICS)(replace(batch, pose=pose)).known
    assert not known[:, :, 0, 7:11].any()
    assert known[:, :, 0, 11:][batch.present[:, :, 0]].all()


def test_the_exact_state_is_standardised(batch: Batch) -> None:
    assert batch.state is not None
    values = BoxStates("exact", STATISTICS)(batch).values
    torch.testing.assert_close(values[:, :, 0], (batch.state - 0.5) / 0.25)


def test_a_column_that_the_dataset_lacks_is_named(batch: Batch) -> None:
    with pytest.raises(TargetError, match="obb needs the column oriented"):
        BoxStates("obb")(replace(batch, oriented=None))
    with pytest.raises(TargetError, match=r"bb\+depth50 needs the column depth.*target.state=bb\."):
        BoxStates("bb+depth50", {})
    flat = {name: STATISTICS[name] for name in ("oriented", "mass", "velocity")}
    with pytest.raises(TargetError, match=r"compact13 needs the column pose and pose_velocity.*obb2[+]com, compact7\."):
        BoxStates("compact13", flat)


def test_each_kind_of_number_has_its_own_spread_of_frequencies() -> None:
    config = TargetConfig(state="obb2+com", sigma=4, sigma_angle=1.5)
    assert sigmas(config) == [4, 4, 4, 4, 1.5, 1.5, 4, 4]
    assert sigmas(TargetConfig(state="bb+depth25-75", sigma_depth=0.5)) == [4, 4, 4, 4, 0.5, 0.5]
    assert set(PARTS) >= set(SIZES)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4))
def test_absent_objects_change_nothing_whatever_their_boxes(seed: int, objects: int) -> None:
    batch = make_batch(windows=2, objects=objects, seed=seed % 1000)
    garbage = torch.where(batch.present[..., None], batch.boxes, torch.nan)
    for state in ("bb", "compact7"):
        before, after = (
            BoxStates(state, STATISTICS)(one)  # type: ignore[arg-type]
            for one in (batch, replace(batch, boxes=garbage))
        )
        assert torch.equal(before.values, after.values)
        assert torch.equal(before.known, after.known)


def test_noise_shifts_each_edge_by_one_percent_of_the_width() -> None:
    boxes = torch.tensor([0.5, 0.4, 0.3, 0.2]).expand(500, 4, 3, 4)
    rows = torch.arange(2000).view(500, 4)
    noisy = jittered(boxes, rows, 0.01, seed=1)
    for sign in (-1, 1):
        edges = (noisy[..., :2] + sign * noisy[..., 2:] / 2) - (boxes[..., :2] + sign * boxes[..., 2:] / 2)
        assert edges.std().item() == pytest.approx(0.01, rel=0.03)
        assert edges.mean().item() == pytest.approx(0, abs=3e-4)
    shift = (noisy - boxes).flatten(0, 1).flatten(1)  # (frames, objects x numbers)
    assert (torch.corrcoef(shift.T).abs() < 0.1).logical_or(torch.eye(12, dtype=torch.bool)).all()
    assert abs(torch.corrcoef(torch.stack([shift[1:, 0], shift[:-1, 0]]))[0, 1]) < 0.1


def test_a_frame_has_the_same_noise_in_every_window_and_other_noise_with_another_seed() -> None:
    boxes = torch.full((1, 4, 2, 4), 0.5)
    first = jittered(boxes, torch.tensor([[10, 11, 12, 13]]), 0.01, seed=3)
    later = jittered(boxes, torch.tensor([[12, 13, 14, 15]]), 0.01, seed=3)
    assert torch.equal(first[:, 2:], later[:, :2])
    assert not torch.equal(first, jittered(boxes, torch.tensor([[10, 11, 12, 13]]), 0.01, seed=4))


def test_tiny_boxes_keep_a_size_under_noise() -> None:
    boxes = torch.full((100, 4, 2, 4), 0.001)
    assert (jittered(boxes, torch.arange(400).view(100, 4), 0.01, seed=0)[..., 2:] >= 0).all()
