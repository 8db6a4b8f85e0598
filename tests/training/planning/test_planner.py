"""From frames and a goal to actions in the user's units."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from threading import Barrier, get_ident
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.planning.conftest import tiny_nball
from training import load
from training.envs.nball import NBall
from training.envs.two_room import TwoRoom
from training.planning.cem import plan, seeded, within
from training.planning.planner import Task, find_actions, trained_range
from training.planning.receding import Goal, drive
from training.planning.settings import PLANNERS, DriveConfig, PlanConfig
from training.sources.framing import Framing
from training.world_model import WorldModel

GROUNDED = Path(__file__).parents[2] / "fixtures" / "runs" / "grounded"
QUICK = PlanConfig(candidates=20, elites=4, iterations=3, horizon=3)


@pytest.fixture(scope="module")
def episodes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames, states and actions of three episodes."""
    world = NBall(1)
    states, actions = world.play(np.random.default_rng(2), 3, 8)
    frames = world.draw(states.reshape(-1, 2, 4)).reshape(3, 8, 64, 64, 3)
    return frames, states, actions.astype(np.float32)


def test_one_picture_or_many_environments(nball_model: WorldModel, episodes: tuple[np.ndarray, ...]) -> None:
    frames, _, actions = episodes
    one = nball_model.plan(frames[0, 0], frames[0, 5], config=QUICK)
    many = nball_model.plan(frames[:, :1], frames[:, 5], config=QUICK)
    seen = nball_model.plan(frames[0, :3], frames[0, 5], past=actions[0, :2], config=QUICK)
    assert one.shape == seen.shape == (3, 2)
    assert many.shape == (3, 3, 2)
    np.testing.assert_allclose(one, many[0], atol=1e-4)
    assert not np.allclose(one, seen)


def test_plain_numpy_actions_and_a_single_frame_are_taken(
    nball_model: WorldModel, episodes: tuple[np.ndarray, ...]
) -> None:
    frames, _, actions = episodes
    one = nball_model.encode(frames[0, 0])
    assert one.shape == (16,)
    torch.testing.assert_close(one, nball_model.encode(frames[0, :1])[0])
    start, goal, double = one[None, None], nball_model.encode(frames[:1, 5]), actions[None, :1].astype(np.float64)
    assert torch.equal(nball_model.rollout(start, double), nball_model.rollout(start, actions[None, :1]))
    assert torch.equal(nball_model.cost(start, goal, double), nball_model.cost(start, goal, actions[None, :1]))


def test_start_and_goal_are_encoded_once(nball_model: WorldModel, episodes: tuple[np.ndarray, ...]) -> None:
    frames, _, _ = episodes
    seen: list[int] = []
    hook = nball_model.model.encoder.register_forward_hook(lambda module, given, found: seen.append(len(given[0])))
    find_actions(nball_model, frames[:, :1], frames[:, 5], config=QUICK)
    hook.remove()
    assert seen == [3, 3]


def test_pieces_change_memory_but_not_the_plan(nball_model: WorldModel, episodes: tuple[np.ndarray, ...]) -> None:
    frames, _, _ = episodes
    task = Task(nball_model, frames[:, :1], frames[:, 5], None)
    candidates = torch.randn(3, 50, 4, 2, generator=torch.Generator().manual_seed(0))
    whole = task.score(candidates)
    assert task.memory == 256 << 20
    task.memory = 1
    assert task._piece(candidates) == 1
    torch.testing.assert_close(task.score(candidates), whole, rtol=1e-4, atol=1e-4)


def test_with_64_bits_all_environments_together_find_what_each_finds_by_the_plain_way_alone(
    nball_model: WorldModel, episodes: tuple[np.ndarray, ...]
) -> None:
    """To the end of the search: where rounding differed, another candidate would become an elite on the way."""
    frames, _, _ = episodes
    model, config = deepcopy(nball_model), PLANNERS["nball"]
    model.model.double()
    together = find_actions(model, frames[:, :1], frames[:, 5], config=config)
    start, goal = model.encode(frames[:, :1]), model.encode(frames[:, 5])
    draw = seeded(config, torch.zeros(3, 4, 2, dtype=torch.float64))
    draws = [draw(iteration) for iteration in range(config.iterations)]
    for number, one in enumerate((slice(0, 1), slice(1, 2), slice(2, 3))):

        def cost(candidates: torch.Tensor, one: slice = one) -> torch.Tensor:
            path, context = start[one].expand(candidates.shape[1], -1, -1), model.model.context
            for step in range(1, 5):
                first = max(0, step - context)
                guesses = model.model.predict(path[:, first:], candidates[0, :, first:step])
                path = torch.cat([path, guesses[:, -1:]], dim=1)
            return (path[:, -1] - goal[one]).square().sum(-1)[None]

        with torch.inference_mode():
            alone = plan(
                cost, torch.zeros(1, 4, 2, dtype=torch.float64), config, within(config.longest),
                lambda iteration, one=one: draws[iteration][one],
            )  # fmt: skip
        torch.testing.assert_close(together.plan.actions[number], alone.actions[0], rtol=0, atol=1e-12)


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However little there is to imagine."""
    before = torch.get_num_threads()
    monkeypatch.setattr("training.planning.planner.WORTHWHILE", 1)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_cores_share_what_is_imagined_and_find_the_same_plan(
    nball_model: WorldModel, episodes: tuple[np.ndarray, ...], monkeypatch: pytest.MonkeyPatch, two_cores: None
) -> None:
    frames, _, _ = episodes
    both = Barrier(2)
    seen: set[tuple[int, int]] = set()
    imagine = Task.imagine

    def watched(task: Task, actions: torch.Tensor) -> torch.Tensor:
        seen.add((get_ident(), torch.get_num_threads()))
        both.wait(timeout=60)  # two at once, or this is an error
        return imagine(task, actions)

    monkeypatch.setattr(Task, "imagine", watched)
    shared = find_actions(nball_model, frames[:, :1], frames[:, 5], config=QUICK)
    assert sorted(threads for _, threads in seen) == [1, 1]
    assert torch.get_num_threads() == 2
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 2  # threads of others keep theirs
    monkeypatch.undo()
    torch.set_num_threads(1)
    alone = find_actions(nball_model, frames[:, :1], frames[:, 5], config=QUICK)
    np.testing.assert_allclose(shared.actions, alone.actions, atol=1e-4)


def test_cores_imagine_in_the_modes_of_who_asks(
    nball_model: WorldModel, episodes: tuple[np.ndarray, ...], monkeypatch: pytest.MonkeyPatch, two_cores: None
) -> None:
    frames, _, _ = episodes
    seen = set()
    imagine = Task.imagine

    def watched(task: Task, actions: torch.Tensor) -> torch.Tensor:
        seen.add((torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")))
        return imagine(task, actions)

    monkeypatch.setattr(Task, "imagine", watched)
    with torch.autocast("cpu", torch.bfloat16):
        find_actions(nball_model, frames[:, :1], frames[:, 5], config=QUICK)
    assert seen == {(True, True)}


def test_a_rule_that_fails_ends_the_search(
    nball_model: WorldModel, episodes: tuple[np.ndarray, ...], two_cores: None
) -> None:
    frames, _, _ = episodes

    def fails(latents: torch.Tensor) -> torch.Tensor:
        raise KeyError("a mistake in a rule")

    with pytest.raises(KeyError, match="a mistake in a rule"):
        find_actions(nball_model, frames[:, :1], frames[:, 5], config=QUICK, rules=[(1.0, fails)])


@pytest.mark.parametrize("cores", [1, 2, 16, 64])
@pytest.mark.parametrize("environments", [1, 4, 50])
@pytest.mark.parametrize("memory", [1, 8, 256])
def test_cores_together_hold_no_more_than_the_memory_that_is_asked_for(
    nball_model: WorldModel, monkeypatch: pytest.MonkeyPatch, cores: int, environments: int, memory: int
) -> None:
    side = nball_model.data.size[0]
    frames = torch.zeros(environments, 1, side, side, 3, dtype=torch.uint8)
    task = Task(nball_model, frames, frames[:, 0], None, memory=memory)
    monkeypatch.setattr(torch, "get_num_threads", lambda: cores)
    at_once, piece = task.at_once(300, 5), task._piece(torch.empty(environments, 300, 5, 2))
    needed = task._needed(5)
    assert 1 <= at_once <= cores
    assert at_once * piece * needed <= max(memory << 20, needed)  # one candidate of each environment is the least


def test_what_is_found_is_imagined_to_end_nearer_than_doing_nothing(
    nball_model: WorldModel, episodes: tuple[np.ndarray, ...]
) -> None:
    frames, _, _ = episodes
    task = Task(nball_model, frames[:, :1], frames[:, 5], None)
    found = find_actions(nball_model, frames[:, :1], frames[:, 5], config=PLANNERS["nball"])
    costs = task.score(torch.stack([torch.from_numpy(found.actions), torch.zeros(3, 4, 2)], dim=1))
    assert (costs[:, 0] < costs[:, 1]).all()
    assert np.linalg.norm(found.actions, axis=-1).max() <= 3 + 1e-5


def test_actions_are_in_the_range_of_the_training_data_or_the_given_limits(
    nball_model: WorldModel, episodes: tuple[np.ndarray, ...]
) -> None:
    frames, _, _ = episodes
    low, high = trained_range(nball_model)
    assert (low >= -3 - 1e-6).all()
    assert (high <= 3 + 1e-6).all()
    assert (high - low > 3).all()
    wild = QUICK.model_copy(update={"std": 50.0})
    actions = nball_model.plan(frames[:, :1], frames[:, 5], config=wild)
    assert (actions >= low - 1e-6).all()
    assert (actions <= high + 1e-6).all()
    assert np.abs(actions).max() > 2
    actions = nball_model.plan(frames[:, :1], frames[:, 5], config=wild, limits=(-0.5, [0.25, 1.0]))
    assert actions.min() >= -0.5
    assert actions[..., 0].max() <= 0.25
    assert 0.25 < actions[..., 1].max() <= 1


def test_several_frames_need_the_actions_between_them(
    nball_model: WorldModel, episodes: tuple[np.ndarray, ...]
) -> None:
    frames, _, actions = episodes
    with pytest.raises(ValueError, match=r"3 frames need the 2 actions .* none are given"):
        nball_model.plan(frames[0, :3], frames[0, 5])
    with pytest.raises(ValueError, match="looks at 3 frames at most; these are 4"):
        nball_model.plan(frames[0, :4], frames[0, 5], past=actions[0, :3])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"past": np.full((2, 2), np.nan, np.float32)}, "past holds numbers that are not finite"),
        ({"limits": (1.0, -1.0)}, r"limits are \(lowest, highest\) action; these are \[1.0, 1.0\] and \[-1.0, -1.0\]"),
        ({"limits": (np.nan, 1.0)}, r"limits are \(lowest, highest\)"),
        ({"limits": ([0, 0, 0], 1.0)}, "limits are a number or 2 numbers each"),
        ({"goal": np.zeros((1, 64, 64, 3), np.uint8)}, r"goal must be \(H, W, 3\) with H = 64 .* \(1, 64, 64, 3\)"),
        ({"goal": np.zeros((32, 32, 3), np.uint8)}, r"goal must be .* this is \(32, 32, 3\)"),
        ({"goal": np.zeros((64, 64, 3))}, "goal: pictures are uint8, 0 to 255; these are float64"),
        ({"frames": np.zeros((64, 64), np.uint8)}, r"frames must be \(H, W, 3\) or \(C, H, W, 3\) or"),
        ({"frames": np.zeros((2, 3, 64, 64, 3), np.uint8), "past": np.zeros((2, 2, 2)),
          "goal": np.zeros((1, 64, 64, 3), np.uint8)}, "2 starts and 1 goals"),
        ({"frames": np.zeros((0, 3, 64, 64, 3), np.uint8), "past": np.zeros((0, 2, 2)),
          "goal": np.zeros((0, 64, 64, 3), np.uint8)}, "nothing to plan for"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_for_is_refused_and_not_planned(
    nball_model: WorldModel, episodes: tuple[np.ndarray, ...], change: dict[str, Any], said: str
) -> None:
    frames, _, actions = episodes
    asked = {"frames": frames[0, :3], "goal": frames[0, 5], "past": actions[0, :2], "config": QUICK, **change}
    with pytest.raises(ValueError, match=said):
        nball_model.plan(**asked)


def test_mirrored_views_and_lists_of_actions_are_taken(
    nball_model: WorldModel, episodes: tuple[np.ndarray, ...]
) -> None:
    frames, _, actions = episodes
    seen, goal = frames[0, :3, :, :, ::-1], frames[0, 5, :, ::-1]
    found = nball_model.plan(seen, goal, past=actions[0, :2].tolist(), config=QUICK)
    copied = nball_model.plan(seen.copy(), goal.copy(), past=actions[0, :2], config=QUICK)
    np.testing.assert_array_equal(found, copied)
    assert torch.equal(nball_model.encode(goal), nball_model.encode(goal.copy()))


@pytest.mark.slow
def test_a_model_that_skips_frames_plans_blocks_of_actions(tmp_path: Path, episodes: tuple[np.ndarray, ...]) -> None:
    model = load(tiny_nball(tmp_path, skip=2))
    frames, _, _ = episodes
    assert model.plan(frames[0, 0], frames[0, 5], config=QUICK).shape == (6, 2)
    world = NBall(1)
    goal = Goal(frames[0, 5], np.full((2, 4), -100.0))
    (drove,) = drive(model, [world], [goal], QUICK, DriveConfig(budget=7, keep=2, context=3))
    assert len(drove.actions) == 7
    assert len(drove.frames) == 8


def test_driving_ends_at_the_goal_or_the_budget(nball_model: WorldModel, episodes: tuple[np.ndarray, ...]) -> None:
    frames, _, _ = episodes
    worlds = [NBall(1), NBall(1)]
    for seed, world in enumerate(worlds):
        world.reset(seed)
    before = worlds[0].state()
    goals = [Goal(frames[0, 5], np.full((2, 4), -100.0)), Goal(worlds[1].render(), worlds[1].state())]
    far, there = drive(nball_model, worlds, goals, QUICK, DriveConfig(budget=8, keep=3, context=3))
    assert not far.reached
    assert len(far.actions) == 8
    assert there.reached_after == 0
    assert not there.actions
    # What was done is what the world was told to do.
    world = NBall(1)
    world.reset(0)
    np.testing.assert_array_equal(world.state(), before)
    for action in far.actions:
        world.step(action)
    np.testing.assert_array_equal(world.state(), worlds[0].state())
    np.testing.assert_array_equal(world.render(), far.frames[-1])


def test_goals_are_taken_as_the_world_draws_them(nball_model: WorldModel) -> None:
    world = TwoRoom()
    assert world.size != nball_model.data.size
    goal = Goal(world.render(), world.state() + 1000)
    (drove,) = drive(nball_model, [world], [goal], QUICK, DriveConfig(budget=2, keep=2))
    assert len(drove.actions) == 2
    with pytest.raises(ValueError, match="there are 1 and 0 goals"):
        drive(nball_model, [world], [])


def test_the_budget_is_used_up_if_plans_are_shorter_than_what_is_kept(nball_model: WorldModel) -> None:
    goal = Goal(NBall(1).render(), np.full((2, 4), -100.0))
    (drove,) = drive(nball_model, [NBall(1)], [goal], QUICK, DriveConfig(budget=13, keep=5))
    assert len(drove.actions) == 13


def test_an_arrival_does_not_change_what_the_others_do(nball_model: WorldModel) -> None:
    far = Goal(NBall(1).render(), np.full((2, 4), -100.0))
    here = Goal(far.frame, NBall(1).state())
    drives = [
        drive(nball_model, [NBall(1), NBall(1)], [first, far], QUICK, DriveConfig(budget=3, keep=3))
        for first in (far, here)
    ]
    assert [len(first.actions) for first, _ in drives] == [3, 0]
    np.testing.assert_allclose(drives[0][1].actions, drives[1][1].actions, atol=1e-4)


def test_plans_of_the_kept_grounded_run_lead_towards_their_goals() -> None:
    """It is small and seldom precise, but ends nearer than it began, and nearer than the other way round."""
    model, world = load(GROUNDED), NBall(1)
    states, actions = world.play(np.random.default_rng(5), 24, 7)
    fit = Framing(*world.size, model.data.size[0])
    pictures = np.stack([fit.picture(image) for image in world.draw(states.reshape(-1, 2, 4))])
    pictures = pictures.reshape(24, 7, *pictures.shape[1:])
    past = actions[:, :2].astype(np.float32)
    plans = model.plan(pictures[:, :3], pictures[:, 6], past, PLANNERS["nball"])
    assert plans.shape == (24, 4, 2)
    assert np.linalg.norm(plans, axis=-1).max() <= 3 + 1e-5  # pixels of the world, as in training
    goals = states[:, 6, 0, :2]

    def left(moves: np.ndarray) -> float:
        after = states[:, 2]
        for step in range(4):
            after = world.advance(after, moves[:, step])
        return float(np.linalg.norm(after[:, 0, :2] - goals, axis=-1).mean())

    assert left(plans) < 0.7 * left(np.zeros_like(plans))
    assert left(plans) < left(-plans)


def test_the_documented_example_drives_n_ball(nball_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[3] / "docs" / "planning.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    done: dict[str, Any] = {}
    exec(example.replace('"RUN"', repr(str(nball_run))), done)
    world, actions = done["world"], done["actions"]
    there = world.reached(done["wanted"])
    assert capsys.readouterr().out == ("reached\n" if there else "not reached\n")
    assert actions.shape == (4, 2)
    low, high = trained_range(done["model"])
    assert (actions >= low - 1e-6).all()
    assert (actions <= high + 1e-6).all()
    assert world.state()[0, 2:].any()  # the plan was carried out: the red ball was moved
