"""Verdicts on made latents: collapsed, lazy and grounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from training.monitors import Frames, monitor

NAMES = {3: "control", 7: "environment"}
SIZE = 32


def world(seed: int, count: int = 600, balls: int = 1) -> Frames:
    """One control ball and some environment balls anywhere in the picture; latents still to be made."""
    rng = np.random.default_rng(seed)
    boxes = np.concatenate([rng.uniform(0.1, 0.9, (count, 1 + balls, 2)), np.full((count, 1 + balls, 2), 0.1)], axis=2)
    category = np.broadcast_to([3, *[7] * balls], (count, 1 + balls))
    return Frames(np.zeros((count, SIZE)), boxes, np.ones((count, 1 + balls), bool), category)


def seeing(frames: Frames, slots: list[int], noise: float = 0.1) -> Frames:
    """Latents that hold the positions in these slots, mixed, and some noise, with unit spread."""
    places = (frames.boxes[:, slots, :2].reshape(len(frames.boxes), -1) - 0.5) / 0.23
    mix = np.linalg.qr(np.random.default_rng(9).standard_normal((SIZE, places.shape[1])))[0]
    latents = places @ mix.T * np.sqrt(SIZE / places.shape[1])
    rng = np.random.default_rng(int(frames.boxes[0, 0, 0] * 1e6))
    return replace(frames, latents=latents + noise * rng.standard_normal(latents.shape))


def test_latents_that_hold_every_position_are_grounded() -> None:
    held_out, fitted_on = (seeing(world(seed), [0, 1]) for seed in (1, 2))
    found = monitor(held_out, fitted_on, NAMES)
    assert found.verdict.startswith("grounded: all 2 kinds")
    assert min(value or 0 for value in found.probe.values()) > 0.95
    assert min(value or 0 for value in found.spearman.values()) > 0.4
    assert 4 < found.rank < 10


@pytest.mark.parametrize(("seen", "ignored"), [(1, "control"), (0, "environment")])
def test_latents_that_ignore_a_category_are_lazy_and_it_is_named(seen: int, ignored: str) -> None:
    held_out, fitted_on = (seeing(world(seed), [seen]) for seed in (1, 2))
    found = monitor(held_out, fitted_on, NAMES)
    assert found.verdict.startswith(f"lazy: {ignored} (")
    assert found.verdict.endswith("is not represented")
    assert (found.probe[ignored] or 0) < 0.1
    assert abs(found.spearman[ignored] or 0) < 0.05


def test_latents_that_ignore_everything_name_everything() -> None:
    frames = world(1)
    noise = np.random.default_rng(0).standard_normal(frames.latents.shape)
    found = monitor(replace(frames, latents=noise), replace(frames, latents=noise[::-1]), NAMES)
    assert found.verdict.startswith("lazy: control (")
    assert "environment (" in found.verdict
    assert found.sigreg == pytest.approx(1.05, abs=0.1)
    assert found.rank > 28


@pytest.mark.parametrize("place", [0.0, 2.0])
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_constant_latents_are_collapsed(place: float, noise: float) -> None:
    frames = world(1)
    latents = place + noise * np.random.default_rng(0).standard_normal(frames.latents.shape)
    found = monitor(replace(frames, latents=latents), replace(frames, latents=latents), NAMES)
    assert found.verdict.startswith("collapsed: ")
    assert found.sigreg >= 0.4 * 128


def test_latents_on_a_line_are_collapsed() -> None:
    frames = world(1)
    latents = frames.boxes[:, :1, 0] * 3 * np.ones(SIZE)
    found = monitor(replace(frames, latents=latents), replace(frames, latents=latents), NAMES)
    assert found.verdict.startswith("collapsed: ")
    assert found.rank == pytest.approx(1)


def test_large_latents_are_not_called_collapsed() -> None:
    held_out, fitted_on = (seeing(world(seed), [0, 1]) for seed in (1, 2))
    found = monitor(replace(held_out, latents=held_out.latents * 30), replace(fitted_on, latents=fitted_on.latents * 30), NAMES)  # fmt: skip # noqa: E501
    assert found.verdict.startswith("grounded")


def test_the_order_of_like_objects_has_no_say() -> None:
    held_out, fitted_on = (seeing(world(seed, balls=3), [0, 1, 2, 3]) for seed in (1, 2))
    found = monitor(held_out, fitted_on, NAMES)
    order = [0, 3, 1, 2]
    shuffled = replace(held_out, boxes=held_out.boxes[:, order])
    again = monitor(shuffled, fitted_on, NAMES)
    assert again.spearman == pytest.approx(found.spearman)
    assert again.probe == pytest.approx(found.probe)
    assert found.verdict.startswith("grounded")


def test_for_one_object_the_distance_of_sets_ranks_like_the_plain_distance() -> None:
    from scipy.spatial.distance import pdist
    from scipy.stats import spearmanr

    held_out, fitted_on = (seeing(world(seed, 300), [0, 1], noise=0.5) for seed in (1, 2))
    plain = spearmanr(pdist(held_out.latents), pdist(held_out.boxes[:, 0, :2])).statistic
    assert monitor(held_out, fitted_on, NAMES).spearman["control"] == pytest.approx(plain, abs=1e-6)


def test_objects_that_never_move_or_are_hardly_ever_there_are_not_judged() -> None:
    held_out, fitted_on = (seeing(world(seed), [0]) for seed in (1, 2))
    for frames in (held_out, fitted_on):
        frames.boxes[:, 1, :2] = 0.5
    found = monitor(held_out, fitted_on, NAMES)
    assert found.probe["environment"] is None
    assert found.verdict.startswith("grounded: all 1 kinds")
    held_out, fitted_on = (seeing(world(seed), [0]) for seed in (1, 2))
    held_out.present[5:, 1] = False
    assert monitor(held_out, fitted_on, NAMES).spearman["environment"] is None


def test_what_can_be_read_but_does_not_count_in_distances_is_told_from_what_is_not_there() -> None:
    held_out, fitted_on = (seeing(world(seed), [0, 1]) for seed in (1, 2))
    loud = np.random.default_rng(3).standard_normal((2, len(held_out.latents), 8)) * 100
    both = [
        replace(frames, latents=np.concatenate([frames.latents, noise], axis=1))
        for frames, noise in zip((held_out, fitted_on), loud, strict=True)
    ]
    found = monitor(*both, NAMES)
    assert found.verdict.startswith("lazy: distances between latents ignore control (R² ")
    assert "not represented" not in found.verdict
    assert min(value or 0 for value in found.probe.values()) > 0.9


def test_without_boxes_only_the_spread_is_judged() -> None:
    frames = seeing(world(1), [0, 1])
    empty = replace(frames, present=np.zeros_like(frames.present))
    assert monitor(empty, empty, NAMES).verdict.startswith("not collapsed; nothing that moves is seen")
    assert monitor(empty, empty, {}).probe == {}
