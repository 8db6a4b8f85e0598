"""Latents in which the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from training.evaluation.geometry import distance_correlation
from training.evaluation.probes import Task, linear_probe, network_probe


def task(latents: np.ndarray, targets: np.ndarray) -> Task:
    half = len(latents) // 2
    return Task(latents[:half], targets[:half], latents[half:], targets[half:])


@pytest.fixture
def positions() -> np.ndarray:
    return np.random.default_rng(0).uniform(20, 60, (4000, 2))


def test_what_is_mixed_into_latents_linearly_is_read_to_the_last_bit(positions: np.ndarray) -> None:
    mixed = positions @ np.random.default_rng(1).normal(size=(2, 16)) + 7
    reading = linear_probe(task(mixed, positions))
    assert reading.worst_r2 > 0.999999
    assert reading.error < 1e-6
    assert reading.pearson > 0.999999


def test_nothing_is_read_off_noise(positions: np.ndarray) -> None:
    noise = np.random.default_rng(1).normal(size=(4000, 16))
    for reading in (linear_probe(task(noise, positions)), network_probe(task(noise, positions), epochs=5)):
        assert reading.error == pytest.approx(1, abs=0.15)
        assert abs(reading.pearson) < 0.1


def test_few_frames_are_not_learned_by_heart(positions: np.ndarray) -> None:
    """40 numbers and 50 frames: a probe that fits them all is far off everywhere else."""
    rng = np.random.default_rng(3)
    latents = np.concatenate([positions[:100] + rng.normal(0, 4, (100, 2)), rng.normal(size=(100, 38))], axis=1)
    assert linear_probe(task(latents, positions[:100])).r2 > 0.3


def test_a_network_reads_what_a_line_cannot(positions: np.ndarray) -> None:
    angle = (positions - 40) / 20 * 0.9 * np.pi
    folded = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
    linear, network = linear_probe(task(folded, positions)), network_probe(task(folded, positions), epochs=300)
    assert linear.r2 < 0.8
    assert network.r2 > 0.9


def test_the_worst_component_is_named(positions: np.ndarray) -> None:
    reading = linear_probe(task(positions[:, :1], positions))
    assert reading.worst_r2 < 0.1 < 0.45 < reading.r2 < 0.55


def test_distances_are_compared_by_rank(positions: np.ndarray) -> None:
    turned = positions @ np.linalg.qr(np.random.default_rng(1).normal(size=(2, 2)))[0]
    assert distance_correlation(turned, positions) == pytest.approx(1)
    assert abs(distance_correlation(np.random.default_rng(2).normal(size=(4000, 8)), positions)) < 0.05
