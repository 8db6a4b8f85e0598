"""Push-T, Reacher and Cube: other people's physics, our labels. Skipped where the extra `sim` is not installed."""

import sys
from functools import cache

import numpy as np
import psutil
import pytest

from tests.training.policies import check_that_it_begins_anew
from training.dataset_format import DatasetError, open_dataset
from training.envs import Environment, make
from training.envs.packages import MissingPackageError
from training.envs.video import ground_truth, record
from training.envs.visitor import Visitor
from training.simulate import simulate
from training.sources.simulator import Episodes

WORLDS = ["push_t", "reacher", "cube"]
CAMERAS = {"reacher": "fixed", "cube": "front_pixels"}


@cache
def opened(name):
    try:
        return make(name)
    except MissingPackageError as error:
        pytest.skip(str(error))


@cache
def played(name, seed=3, frames=80):
    """States, actions, and some of the pictures seen on the way, of one episode."""
    world, rng = opened(name), np.random.default_rng(seed)
    world.reset(seed)
    states, actions, pictures = [], [], {}
    for number in range(frames):
        if number % 20 == 0:
            pictures[number] = world.render()
        states.append(world.state())
        actions.append(world.policy(rng))
        world.step(actions[-1])
    return np.stack(states), np.stack(actions), pictures


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_keeps_to_the_protocol(name):
    world = opened(name)
    assert isinstance(world, Environment)
    world.reset(1)
    assert world.policy(np.random.default_rng(0)).shape == (world.action_size,)
    assert world.render().shape == (224, 224, 3)
    assert world.render().dtype == np.uint8
    assert world.reached(world.state())


@pytest.mark.parametrize("name", WORLDS)
def test_the_same_seed_is_the_same_episode_whatever_was_played_before(name):
    states, actions, _ = played(name)
    opened(name).reset(99)
    again = played.__wrapped__(name)
    other = played.__wrapped__(name, seed=4, frames=5)
    np.testing.assert_array_equal(again[0], states)
    np.testing.assert_array_equal(again[1], actions)
    assert not np.allclose(other[0], states[:5])


@pytest.mark.parametrize("name", WORLDS)
def test_states_are_enough_to_draw_the_pictures_and_to_go_on(name):
    world = opened(name)
    states, actions, pictures = played(name)
    np.testing.assert_array_equal(world.draw(states[list(pictures)]), np.stack(list(pictures.values())))
    world.set_state(states[30])
    for number in range(30, 60):
        world.draw(states[:1])  # looking elsewhere changes nothing
        world.step(actions[number])
    np.testing.assert_array_equal(world.state(), states[60])


@pytest.mark.parametrize("name", WORLDS)
def test_episodes_that_share_a_world_go_on_as_if_each_had_its_own(name):
    """Thirty open worlds of the cube took ten gigabytes."""
    states, actions, pictures = played(name)
    early, late = (Visitor(opened(name), states[first]) for first in (0, 40))
    assert isinstance(early, Environment)
    for number in range(20):
        early.step(actions[number])
        late.step(actions[40 + number])
    np.testing.assert_array_equal(early.state(), states[20])
    np.testing.assert_array_equal(late.state(), states[60])
    np.testing.assert_array_equal(early.render(), pictures[20])
    np.testing.assert_array_equal(late.render(), pictures[60])
    assert late.reached(states[60])
    assert not late.reached(states[0])


@pytest.mark.parametrize("name", WORLDS)
def test_a_policy_begins_anew_with_a_state_that_is_set(name):
    check_that_it_begins_anew(opened(name), played(name)[0][30])


def test_push_t_boxes_hold_the_pixels_that_differ_from_a_picture_without_the_object():
    world = opened("push_t")
    states = played("push_t")[0][::8]
    away = [-1000.0, -1000.0]
    nothing = states[:1].copy()
    nothing[:, :4] = [*away, *away]
    empty = world.draw(nothing)[0].astype(int)
    for column, others in ((0, slice(2, 4)), (1, slice(0, 2))):
        alone = states.copy()
        alone[:, others] = away
        shown = np.abs(world.draw(alone).astype(int) - empty).max(axis=-1) > 30
        found = np.array([box_of(mask) for mask in shown])
        assert np.abs(found - world.boxes_of(states)[:, column]).max() < 1
        rows = [np.argwhere(mask).mean(axis=0)[::-1] + 0.5 for mask in shown]
        assert np.abs(rows - world.masses_of(states)[:, column]).max() < 1


@pytest.mark.parametrize("name", ["reacher", "cube"])
def test_mujoco_boxes_hold_the_pixels_of_a_picture_of_the_object_alone(name):
    """MuJoCo's own renderer is the judge: each object alone, so that the part of it that others cover counts too."""
    world = opened(name)
    states = played(name)[0][::8]
    boxes, masses = world.boxes_of(states), world.masses_of(states)
    off_edges = {thing: [] for thing in world.object_names}
    for row, (state, masks) in enumerate(zip(states, alone(world, states, CAMERAS[name]), strict=True)):
        for column, (thing, mask) in enumerate(zip(world.object_names, masks, strict=True)):
            assert np.isfinite(boxes[row, column]).all() == mask.any(), (state, thing)
            off_edges[thing].append(np.abs(boxes[row, column] - box_of(mask)))
            middle = np.argwhere(mask).mean(axis=0)[::-1] + 0.5
            assert np.abs(masses[row, column] - middle).max() < 1, thing
    for thing, off in off_edges.items():
        if thing == "arm" and name == "cube":  # bent links are cut by the picture's edge: nearly convex, not quite
            assert (np.array(off) < 1).mean() > 0.9
            assert np.max(off) < 4
        else:
            assert np.max(off) < 1, thing


def alone(world, states, camera):
    """Masks (n, H, W) of each object, drawn without the others, for each of the states."""
    import mujoco

    model, scene = world._model, world._scene
    groups = model.geom_group.copy()
    renderer = mujoco.Renderer(model, 224, 224)
    renderer.enable_segmentation_rendering()
    data = mujoco.MjData(model)
    found = []
    for state in states:
        world._put(data, state)
        masks = []
        for geoms in scene._geoms:
            model.geom_group[:] = 5
            model.geom_group[geoms] = 1
            renderer.update_scene(data, camera)
            masks.append(np.isin(renderer.render()[..., 0], geoms))
        model.geom_group[:] = groups
        found.append(np.stack(masks))
    renderer.close()
    return found


def box_of(mask):
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])


@pytest.mark.parametrize("name", WORLDS)
def test_oriented_boxes_are_as_promised_and_hold_the_middle(name):
    world = opened(name)
    states = played(name)[0][::8]
    oriented, masses = world.oriented_of(states), world.masses_of(states)
    cx, cy, width, height, angle = np.moveaxis(oriented, -1, 0)
    assert (width >= height).all()
    assert (height > 0).all()
    assert ((angle >= -np.pi / 2) & (angle < np.pi / 2)).all()
    across, down = masses[..., 0] - cx, masses[..., 1] - cy
    assert (np.abs(np.cos(angle) * across + np.sin(angle) * down) <= width / 2).all()
    assert (np.abs(np.cos(angle) * down - np.sin(angle) * across) <= height / 2).all()


def test_the_links_of_the_reacher_point_where_its_joints_do():
    world = opened("reacher")
    states = played("reacher")[0][::8]
    # y points down in pictures; a link has no front.
    turn = np.stack([-states[:, 0], -states[:, 0] - states[:, 1]], axis=1)
    apart = (world.oriented_of(states)[:, :2, 4] - turn + np.pi / 2) % np.pi - np.pi / 2
    assert np.abs(apart).max() < np.radians(3)


@pytest.mark.parametrize(("name", "places"), [("reacher", 2), ("cube", 21)])
def test_velocities_are_what_centres_of_mass_travel(name, places):
    world = opened(name)
    import mujoco

    states, moment = played(name)[0][10::10], 1e-6
    later = states.copy()
    for state in later:
        mujoco.mj_integratePos(world._model, state[:places], state[places:][: world._model.nv].copy(), moment)
    travelled = world.poses_of(later)[..., :3] - world.poses_of(states)[..., :3]
    speed = world.pose_velocities_of(states)
    np.testing.assert_allclose(travelled / moment / world.fps, speed, rtol=1e-3, atol=1e-5)
    pixels = world.velocities_of(states)
    if name == "reacher":  # seen from straight above, from 74 cm
        scale = 224 / 2 / np.tan(np.radians(22.5)) / 0.74
        np.testing.assert_allclose(pixels, speed[..., :2] * [scale, -scale], rtol=1e-6)
    else:
        seen = np.diff(world.masses_of(played(name)[0]), axis=0)[10::10, 1]
        assert np.corrcoef(seen.ravel(), pixels[: len(seen), 1].ravel())[0, 1] > 0.8


def test_depth_is_the_distance_along_the_cameras_axis_where_the_object_is_seen():
    world = opened("cube")
    states = played("cube")[0][::16]
    depths = world.depths_of(states)
    assert (depths > 0).all()
    assert (np.diff(depths, axis=-1) >= 0).all()
    import mujoco

    renderer = mujoco.Renderer(world._model, 224, 224)
    data = mujoco.MjData(world._model)
    for state, rows in zip(states, depths, strict=True):
        world._put(data, state)
        renderer.enable_segmentation_rendering()
        renderer.update_scene(data, "front_pixels")
        seen = np.isin(renderer.render()[..., 0], world._scene._geoms[1])
        renderer.disable_segmentation_rendering()
        renderer.enable_depth_rendering()
        renderer.update_scene(data, "front_pixels")
        np.testing.assert_allclose(rows[1], np.percentile(renderer.render()[seen], [5, 25, 50, 75, 95]), rtol=1e-3)
        renderer.disable_depth_rendering()
    renderer.close()


@pytest.mark.parametrize(
    ("name", "place", "near", "far"),
    [
        ("push_t", 2, 19.0, 21.0), ("push_t", 0, 19.0, 21.0), ("push_t", 4, np.radians(19), np.radians(21)),
        ("push_t", 4, 2 * np.pi, np.pi), ("reacher", 1, 0.049, 0.051), ("reacher", 0, 2 * np.pi - 0.04, 0.06),
        ("cube", 16, 0.039, 0.041),
    ],
)  # fmt: skip
def test_a_goal_is_reached_up_to_its_threshold(name, place, near, far):
    world = opened(name)
    world.reset(5)
    goal = world.state()
    for distance, reached in ((near, True), (far, False)):
        other = goal.copy()
        other[place] += distance
        assert world.reached(other) == reached


def test_a_goal_does_not_ask_for_what_is_not_its_own():
    for name, scenery in (("reacher", slice(4, 6)), ("cube", slice(0, 6))):
        world = opened(name)
        other = world.state()
        other[scenery] += 0.1
        assert world.reached(other)


def test_push_t_pushes_its_block_about_and_keeps_it_in_view():
    states = np.concatenate([played("push_t", seed, 100)[0] for seed in (1, 2, 3)])
    moved = np.linalg.norm(np.diff(states[:, 2:4], axis=0), axis=1) > 0.5
    assert moved.mean() > 0.3
    boxes = opened("push_t").boxes_of(states)
    assert (boxes[..., 2:] - boxes[..., :2] > 10).all()


def test_the_reachers_torques_change_slowly():
    states, actions, _ = played("reacher", 3, 400)
    one, next_one = actions[:-1].ravel(), actions[1:].ravel()
    assert np.corrcoef(one, next_one)[0, 1] > 0.9
    assert np.ptp(states[:, 0]) > 1


def test_the_cube_is_lifted():
    states, actions, _ = played("cube", 3, 120)
    assert states[0, 16] == pytest.approx(0.02, abs=1e-3)
    assert states[:, 16].max() > 0.1
    assert np.abs(actions).max() <= 1


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [("gym_pusht.envs.pusht", "push_t", "--no-deps gym-pusht"), ("dm_control.suite.reacher", "reacher", "dm_control"),
     ("ogbench.manipspace.envs.cube_env", "cube", "ogbench")],
)  # fmt: skip
def test_a_missing_package_is_named_with_its_cure(monkeypatch, module, name, words):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError, match=r"pip install -c constraints.txt '.\[sim\]'") as error:
        make(name)
    assert words in str(error.value)


@pytest.mark.parametrize(("name", "objects"), [("push_t", 2), ("reacher", 3), ("cube", 3)])
def test_simulate_writes_all_that_is_known_of_the_objects(tmp_path, name, objects):
    opened(name)
    made = open_dataset(simulate(name, tmp_path / "d.zarr", episodes=2, frames=6, size=64, seed=1).path)
    assert (made.frames, made.objects, made.size, made.action_dim) == (12, objects, (64, 64), opened(name).action_size)
    known = {"oriented", "mass", "velocity"}
    known |= {"heading"} if name == "push_t" else {"depth", "pose", "pose_velocity"}
    assert known <= set(made.columns)
    assert made.array("present")[:].all()
    states = made.array("state")[:6].astype(float)
    if name == "push_t":
        np.testing.assert_allclose(
            made.array("heading")[:6, :, 0], np.stack([np.full(6, np.nan), states[:, 4]], axis=1)
        )
    boxes = opened(name).boxes_of(states) / 224
    np.testing.assert_allclose(made.array("boxes")[:6, :, :2], (boxes[..., :2] + boxes[..., 2:]) / 2, atol=1e-3)


def test_the_truth_of_a_robot_is_the_robot_and_its_parts():
    episode = record(opened("reacher"), 5, seed=2)
    truth = ground_truth("clip.mp4", episode)
    rows = {thing["name"]: thing for thing in truth["objects"]}
    assert {name: (row["role"], row["group"]) for name, row in rows.items()} == {
        "arm": ("part", "robot"), "hand": ("part", "robot"), "finger": ("part", "robot"), "robot": ("main", "robot"),
    }  # fmt: skip
    parts = np.array([rows[name]["boxes"] for name in ("arm", "hand", "finger")])
    np.testing.assert_allclose(np.array(rows["robot"]["boxes"])[:, :2], parts[..., :2].min(axis=0), atol=1e-3)
    np.testing.assert_allclose(np.array(rows["robot"]["boxes"])[:, 2:], parts[..., 2:].max(axis=0), atol=1e-3)


@pytest.mark.parametrize("name", WORLDS)
def test_episodes_are_the_same_however_many_processes_play(tmp_path, name):
    opened(name)
    alone = simulate(name, tmp_path / "alone.zarr", episodes=5, frames=4, size=32, seed=1)
    together = simulate(name, tmp_path / "together.zarr", episodes=5, frames=4, size=32, seed=1, workers=2)
    assert alone.fingerprint == together.fingerprint


def test_a_player_that_is_killed_is_said_and_what_was_played_is_kept(tmp_path, monkeypatch):
    opened("push_t")
    seen, begun = [], []
    takes_from = Episodes.takes_from

    def noted(self, first, report):
        begun.append(first)
        return takes_from(self, first, report)

    monkeypatch.setattr(Episodes, "takes_from", noted)

    def progress(done, of):
        seen.append(done)
        if done > 400 and max(seen[:-1]) <= 400:
            for child in psutil.Process().children():
                if "spawn_main" in " ".join(child.cmdline()):
                    child.kill()

    def played(**how):
        return simulate("push_t", tmp_path / "d.zarr", episodes=40, frames=40, size=16, seed=1, **how)

    with pytest.raises(DatasetError, match=r"plays push_t was ended, .* with --workers fewer may play"):
        played(workers=2, progress=progress)
    assert played().frames == 1600
    assert begun[0] == 0
    assert begun[1] > 10
