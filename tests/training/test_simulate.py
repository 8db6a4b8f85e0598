"""Datasets straight from a simulator: exact, repeatable, fast."""

import json
import time

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from flows import train_cli
from labeling.run import label_folder
from labeling.store import open_store
from training.dataset import Windows
from training.dataset_format import open_dataset
from training.envs import make
from training.envs.nball import MAX_ACTION
from training.envs.video import encode, record
from training.manifest import PrepareConfig, SimulatorSource, Split
from training.prepare import prepare, write_dataset
from training.settings import TargetConfig
from training.simulate import simulate, simulate_videos
from training.sources.simulator import Episodes
from training.targets import BoxTarget


@pytest.fixture(scope="module")
def nball(tmp_path_factory):
    return open_dataset(
        simulate("nball", tmp_path_factory.mktemp("sim") / "d.zarr", episodes=150, seed=3, balls=3).path
    )


def episode_rows(dataset, episode):
    begin = dataset.episode_offset[episode]
    return slice(begin, begin + dataset.episode_length[episode])


def test_a_dataset_of_balls_has_the_promised_shape(nball):
    assert (nball.frames, nball.episodes, nball.size, nball.action_dim, nball.objects) == (4800, 150, (64, 64), 2, 4)
    assert set(nball.episode_length.tolist()) == {32}
    assert [(row.name, row.tracks) for row in nball.categories] == [("control ball", 150), ("ball", 450)]
    assert (nball.category == [0, 1, 1, 1]).all()
    assert nball.array("present")[:].all()
    assert Windows(nball, "train").windows == len(nball.split("train")) * 29


def test_states_actions_boxes_and_pictures_belong_together(nball):
    world = make("nball", balls=3)
    for episode in (0, 63, 64, 149):
        rows = episode_rows(nball, episode)
        states = nball.array("state")[rows].reshape(-1, 4, 4).astype(float)
        actions = nball.array("actions")[rows]
        moved = world.advance(states[:-1], actions[:-1].astype(float))
        np.testing.assert_allclose(moved, states[1:], atol=2e-5)
        boxes = nball.array("boxes")[rows]
        np.testing.assert_allclose(boxes[..., :2] * 64, states[..., :2], atol=1e-4)
        np.testing.assert_allclose(boxes[..., 2:], 8 / 64, atol=1e-6)
        np.testing.assert_allclose(nball.array("velocity")[rows] * 64, states[..., 2:], atol=1e-4)
        drawn = world.draw(states)
        assert np.abs(drawn.astype(int) - nball.array("frames")[rows]).max() <= 8  # float32 states are drawn a hair off
        assert (drawn == nball.array("frames")[rows]).mean() > 0.999


def test_actions_are_gaussian_and_cut_to_the_longest(nball):
    actions = nball.array("actions")[:].astype(float)
    norm = np.linalg.norm(actions, axis=1)
    assert norm.max() <= MAX_ACTION + 1e-5
    # Of N(0, 2² I) in two dimensions exp(-9 / 8) lies outside of 3.
    assert (norm > MAX_ACTION - 1e-5).mean() == pytest.approx(np.exp(-9 / 8), abs=0.03)
    assert np.median(norm) == pytest.approx(2 * np.sqrt(2 * np.log(2)), abs=0.1)
    assert np.abs(actions.mean(axis=0)).max() < 0.1


def test_seeds_repeat_and_differ(tmp_path):
    first, second, other = (
        simulate("nball", tmp_path / f"{name}.zarr", episodes=5, seed=seed, balls=1)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first.fingerprint == second.fingerprint != other.fingerprint


@pytest.mark.parametrize(("name", "options"), [("nball", {"balls": 1}), ("two_room", {})])
def test_fewer_episodes_are_the_first_of_more(tmp_path, name, options):
    few = open_dataset(simulate(name, tmp_path / "few.zarr", episodes=66, frames=6, size=32, **options).path)
    more = open_dataset(simulate(name, tmp_path / "more.zarr", episodes=70, frames=6, size=32, **options).path)
    np.testing.assert_array_equal(few.array("frames")[:], more.array("frames")[: 66 * 6])
    np.testing.assert_array_equal(few.array("actions")[:], more.array("actions")[: 66 * 6])


def test_no_two_episodes_are_the_same(nball):
    first = nball.array("state")[:].reshape(150, 32, -1)[:, 0]
    assert len(np.unique(first, axis=0)) == 150


def test_two_room_agents_cross_between_the_rooms(tmp_path):
    data = open_dataset(simulate("two_room", tmp_path / "d.zarr", episodes=40, frames=92, size=16).path)
    side = data.array("state")[:].reshape(40, 92, 2)[..., 0] < 112
    crossed = side[:, 0] != side[:, -1]
    assert crossed.mean() > 0.3
    boxes = data.array("boxes")[:]
    np.testing.assert_allclose(boxes[:, 0, :2] * 224, data.array("state")[:], atol=1e-3)


class Lamp:
    """A world that plays one episode at a time only."""

    name, size, fps, action_size = "lamp", (16, 16), 10.0, 1

    def __init__(self, name, **options):
        self.reset(0)

    def reset(self, seed):
        self.light = np.array([seed % 200], float)

    def step(self, action):
        self.light = self.light + action

    def state(self):
        return self.light.copy()

    def boxes(self):
        return {"lamp 1": np.array([2.0, 2, 10, 10])}

    def policy(self, rng):
        return rng.uniform(0, 1, 1)

    def draw(self, states):
        return np.broadcast_to(states[:, :, None, None], (len(states), 16, 16, 3)).astype(np.uint8)


def test_a_world_that_cannot_play_many_episodes_at_once_plays_one_by_one(monkeypatch):
    monkeypatch.setattr("training.sources.simulator.make", Lamp)
    source = Episodes(SimulatorSource(environment="lamp", episodes=3, frames=5), 1, PrepareConfig(size=16))
    takes = list(source.takes(lambda file, reason: None))
    assert len(takes) == 3
    state, actions = takes[1].columns["state"], takes[1].columns["actions"]
    np.testing.assert_allclose(np.diff(state, axis=0), actions[:-1])
    assert next(iter(takes[1].pictures)).shape == (5, 16, 16, 3)
    assert [row.name for row in source.categories] == ["lamp"]


class Crate(Lamp):
    """A world that knows more of its two objects than their boxes."""

    def boxes(self):
        return {"crate": np.array([2.0, 2, 10, 10]), "ball": np.array([4.0, 8, 8, 12])}

    def oriented_of(self, states):
        return np.broadcast_to([6.0, 6, 8, 4, 0.5], (len(states), 2, 5))

    def depths_of(self, states):
        return states[:, None] / 100 + np.arange(1.0, 6) + np.zeros((1, 2, 1))

    def poses_of(self, states):
        pose = np.concatenate([states, states, states, states, states, states], axis=1)[:, None].repeat(2, axis=1)
        pose[:, 1, 3:] = np.nan  # a ball points nowhere
        return pose

    def pose_velocities_of(self, states):
        return np.gradient(self.poses_of(states)[..., :3], axis=0)


def test_what_a_simulator_knows_of_its_objects_comes_into_the_dataset(tmp_path, monkeypatch):
    monkeypatch.setattr("training.sources.simulator.make", Crate)
    source = Episodes(SimulatorSource(environment="crate", episodes=12, frames=6), 1, PrepareConfig(size=16))
    data = open_dataset(write_dataset(source, tmp_path / "d.zarr", "crates", Split()).path)
    assert {"oriented", "depth", "pose", "pose_velocity"} < set(data.columns)
    state = data.array("state")[:]
    np.testing.assert_allclose(data.array("pose")[:, 0], state.repeat(6, axis=1))
    assert np.isnan(data.array("pose")[:, 1, 3:]).all()
    np.testing.assert_allclose(data.array("depth")[:, 1], state / 100 + np.arange(1, 6), rtol=1e-6)
    np.testing.assert_allclose(data.array("oriented")[0, 0], [6 / 16, 6 / 16, 8 / 16, 4 / 16, 0.5], rtol=1e-6)
    target = BoxTarget.of(TargetConfig(state="compact13", matching="none"), data)
    known = target(next(Windows(data, batch=4).batches(0))).known.view(4, 4, 2, 13)
    assert known[:, :, 0].all()
    assert known[:, :, 1, :7].all()
    assert not known[:, :, 1, 7:].any()


def test_only_some_kinds_of_objects_can_be_targets(tmp_path):
    source = SimulatorSource(environment="nball", options={"balls": 3}, episodes=2, frames=5)
    chosen = Episodes(source, 1, PrepareConfig(categories=("ball",)))
    assert [row.name for row in chosen.categories] == ["ball"]
    assert next(iter(chosen.takes(lambda file, reason: None))).columns["boxes"].shape == (5, 3, 4)


def test_a_crowd_of_balls_is_cut_to_the_limit_said_and_counted(tmp_path):
    made = simulate("nball", tmp_path / "d.zarr", episodes=2, frames=5, balls=40)
    assert made.notes == ["32 of 41 objects are kept (max_objects). Left out: 9 of ball."]
    assert [(row.name, row.tracks) for row in made.categories] == [("control ball", 2), ("ball", 62)]
    assert open_dataset(made.path).objects == 32


def test_an_unknown_simulator_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="cube, nball, push_t, reacher, two_room"):
        simulate("pong", tmp_path / "d.zarr")


@pytest.mark.slow
def test_ten_thousand_frames_a_second_are_rendered_and_written(tmp_path):
    simulate("nball", tmp_path / "warm.zarr", episodes=64, balls=1)
    began = time.process_time()
    made = simulate("nball", tmp_path / "d.zarr", episodes=1000, balls=1)
    assert made.frames / (time.process_time() - began) > 5000  # half, for a machine that is busy
    world = make("nball", balls=1)
    states, _ = world.play(np.random.default_rng(0), 256, 32)
    began = time.process_time()
    for episode in states:
        world.draw(episode)
    assert states.shape[0] * 32 / (time.process_time() - began) > 10_000


def test_simulated_videos_are_labeled_and_prepared_with_their_actions(tmp_path):
    app = typer.Typer()
    app.add_typer(train_cli.app)
    folder = tmp_path / "videos"
    words = ["simulate", "nball", "--balls", "1", "--videos", str(folder), "--episodes", "2", "--frames", "60"]
    said = CliRunner().invoke(app, [*words, "--seed", "4"])
    assert said.exit_code == 0, said.output
    assert "2 videos with actions and true boxes" in said.output
    label_folder(folder, tmp_path / "labels.zarr", workers=1)
    store = open_store(tmp_path / "labels.zarr")
    for id in store.ids:
        truth = json.loads((folder / store[id].source).with_suffix(".json").read_text())
        assert (truth["frames"], truth["kind"], truth["family"]) == (60, "all-moving", "nball")
        true = np.array([thing["boxes"] for thing in truth["objects"]])  # (n, T, 4)
        found = np.moveaxis(store[id].tracks.boxes, 1, 0)
        off = np.abs(found[None] - true[:, None])  # every track against every object
        assert (np.nanmedian(off, axis=(2, 3)).min(axis=1) < 1).all()
    made = prepare(tmp_path / "labels.zarr", tmp_path / "d.zarr", videos=folder)
    assert (made.actions, made.frames, made.problems) == (2, 120, {})
    dataset = open_dataset(made.path)
    for source in set(dataset.sources):
        rows = np.concatenate([
            dataset.array("actions")[dataset.episode_offset[e] : dataset.episode_offset[e] + dataset.episode_length[e]]
            for e, name in enumerate(dataset.sources) if name == source
        ])  # fmt: skip
        np.testing.assert_array_equal(rows[:59], np.load((folder / source).with_suffix(".actions.npy")))


def test_simulated_videos_repeat_and_differ(tmp_path):
    first, second = (simulate_videos("nball", tmp_path / name, 2, 10, seed=5) for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_bytes() != first[1].read_bytes()
    others = simulate_videos("nball", tmp_path / "c", 2, 10, seed=6)
    assert not {path.read_bytes() for path in first} & {path.read_bytes() for path in others}
    assert sorted(path.name for path in (tmp_path / "a").iterdir())[:3] == [
        "nball-0000.actions.npy", "nball-0000.json", "nball-0000.mp4",
    ]  # fmt: skip


def test_videos_do_not_mix_with_what_is_there(tmp_path):
    simulate_videos("nball", tmp_path / "clips", 2, 5)
    simulate_videos("nball", tmp_path / "clips", 3, 5)
    with pytest.raises(ValueError, match=r"holds nball-0001\.mp4 of another run: empty it"):
        simulate_videos("nball", tmp_path / "clips", 1, 5)
    simulate("nball", tmp_path / "data.zarr", episodes=2, frames=5)
    with pytest.raises(ValueError, match="is a dataset or a store"):
        simulate_videos("nball", tmp_path / "data.zarr", 1, 5)


def test_the_same_frames_are_the_same_file_whatever_memory_held_before(tmp_path):
    frames, rng, files = record(make("nball", balls=1), 60, 1).frames, np.random.default_rng(0), set()
    for _ in range(30):
        used = [rng.integers(0, 256, size, np.uint8) for size in rng.integers(1_000, 3_000_000, 4)]
        del used
        encode(tmp_path / "clip.mp4", frames, 10)
        files.add((tmp_path / "clip.mp4").read_bytes())
    assert len(files) == 1
