"""Other n-ball worlds than the paper's: speeds, actions, slips and colours; and the paper's stays as it was."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np
import pytest

from training.envs.nball import NBall


def played(**options: Any) -> tuple[NBall, np.ndarray, np.ndarray]:
    world = NBall(**options)
    states, actions = world.play(np.random.default_rng(4), 8, 24)
    return world, states, actions


def test_without_options_the_world_is_the_one_it_always_was() -> None:
    """States, actions and pictures of 8 episodes, as they were before there were options.

    Only the velocity of the control ball, which then was 0, has come since.
    """
    world, states, actions = played(balls=3)
    states[:, :, 0, 2:] = 0
    digest = hashlib.sha256()
    for part in (states.round(6) + 0.0, actions.round(6) + 0.0, world.draw(states.reshape(-1, 4, 4))):
        digest.update(part.tobytes())
    assert digest.hexdigest() == "52e8d390098a94da794673d8661c2b54568de4779a72f5615f1350a98ecf5430"


@pytest.mark.parametrize(("slowest", "fastest"), [(0.0, 0.0), (0.2, 0.6), (4.0, 6.0)])
def test_balls_fly_as_fast_as_asked(slowest: float, fastest: float) -> None:
    _, states, _ = played(balls=2, slowest=slowest, fastest=fastest)
    speed = np.linalg.norm(states[:, :, 1:, 2:], axis=-1)
    assert speed.min() >= slowest - 1e-9
    assert speed.max() <= fastest + 1e-9
    assert (states[..., :2] >= 4).all()
    assert (states[..., :2] <= 60).all()


@pytest.mark.parametrize(("longest", "spread"), [(1.0, 0.7), (6.0, 4.0)])
def test_actions_reach_as_far_as_asked(longest: float, spread: float) -> None:
    world, states, actions = played(longest=longest, spread=spread)
    norm = np.linalg.norm(actions, axis=-1)
    assert norm.max() == pytest.approx(longest)
    inside = (np.abs(states[:, 1:, 0, :2] - 32) < 28).all(axis=-1)  # no wall was met
    moved = np.diff(states[:, :, 0, :2], axis=1)
    np.testing.assert_allclose(moved[inside], actions[:, :-1][inside])
    middle = np.array([[[32.0, 32, 0, 0], [9, 9, 0, 0]]])
    after = world.advance(middle, np.array([[30.0, 40.0]]))[0, 0, :2]
    np.testing.assert_allclose(after - 32, [0.6 * longest, 0.8 * longest])


def test_a_slip_moves_the_control_ball_alone_and_no_action_tells_of_it() -> None:
    _, states, actions = played(slip=0.5)
    _, steady, same_actions = played()
    np.testing.assert_array_equal(actions, same_actions)
    inside = (np.abs(states[:, 1:, 0, :2] - 32) < 28).all(axis=-1)
    slips = (np.diff(states[:, :, 0, :2], axis=1) - actions[:, :-1])[inside]
    assert slips.std() == pytest.approx(0.5, rel=0.15)
    assert abs(slips.mean()) < 0.1
    np.testing.assert_array_equal(states[:, 0], steady[:, 0])
    np.testing.assert_array_equal(states[:, :, 1:], steady[:, :, 1:])


def test_a_slip_repeats_with_the_seed_one_step_at_a_time() -> None:
    def places(seed: int) -> np.ndarray:
        world.reset(seed)
        found = []
        for _ in range(5):
            world.step(np.zeros(2))
            found.append(world.state()[0, :2])
        return np.stack(found)

    world = NBall(slip=1.0)
    first = places(3)
    assert (np.diff(first, axis=0) != 0).all()
    np.testing.assert_array_equal(first, places(3))


@pytest.mark.parametrize("ball_colour", [0x00FF00, 0x808080])
def test_balls_have_the_colours_that_were_asked_for(ball_colour: int) -> None:
    world = NBall(balls=2, control_colour=0x4000FF, ball_colour=ball_colour)
    state = np.array([[[12.0, 12, 0, 0], [40, 40, 0, 0], [20, 50, 0, 0]]])
    picture = world.draw(state)[0]
    assert picture[12, 12].tolist() == [0x40, 0, 0xFF]
    other = [ball_colour >> 16, ball_colour >> 8 & 255, ball_colour & 255]
    assert picture[40, 40].tolist() == picture[50, 20].tolist() == other
    assert picture[5, 60].tolist() == [0, 0, 0]


def test_a_coloured_ball_covers_as_much_as_a_white_one() -> None:
    _, states, _ = played(balls=2)
    flat = states.reshape(-1, 3, 4)
    white = NBall(balls=2).draw(flat)
    green = NBall(balls=2, ball_colour=0x00FF00).draw(flat)
    np.testing.assert_array_equal(green[..., 1], white[..., 1])


@pytest.mark.parametrize(
    "options",
    [{"slowest": 2.0, "fastest": 1.0}, {"longest": 0.0}, {"slip": -1.0}, {"spread": -1.0}, {"ball_colour": 1 << 24},
     {"fastest": 60.0}],
)  # fmt: skip
def test_worlds_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"below 0|no colour|do not fit"):
        NBall(**options)


def test_worlds_with_options_are_played_and_drawn_as_fast_as_promised() -> None:
    world = NBall(balls=1, slip=0.5, ball_colour=0x00FF00)
    world.draw(world.play(np.random.default_rng(0), 1, 2)[0][0])  # tables are made once
    seconds = []
    for _ in range(3):
        began = time.process_time()
        states, _ = world.play(np.random.default_rng(0), 64, 32)
        for episode in states:
            world.draw(episode)
        seconds.append(time.process_time() - began)
    assert 64 * 32 / min(seconds) > 10_000
