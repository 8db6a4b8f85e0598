"""The simulators keep their promises: physics, pictures, boxes, videos."""

import json

import numpy as np
import pytest

from flows.demo_videos import write_demo_videos
from labeling.video import Video
from tests.training.policies import check_that_it_begins_anew
from training.envs import Environment, make, names
from training.envs.two_room import RADIUS, SIDE, WALL, TwoRoom
from training.envs.video import record, write_episode

WORLDS = [("nball", {"balls": 1}), ("nball", {"balls": 6}), ("two_room", {}), ("two_room", {"size": 64})]


def opened(name, options):
    return make(name, **options)


@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_every_environment_keeps_to_the_protocol(name, options):
    world = opened(name, options)
    assert isinstance(world, Environment)
    world.reset(3)
    action = world.policy(np.random.default_rng(0))
    picture = world.render()
    assert action.shape == (world.action_size,)
    assert picture.shape == (*world.size, 3)
    assert picture.dtype == np.uint8
    assert world.reached(world.state())


def test_an_unknown_environment_is_refused_by_name():
    with pytest.raises(ValueError, match="cube, nball, push_t, reacher, two_room"):
        make("pong")
    assert names() == ["cube", "nball", "push_t", "reacher", "two_room"]


@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_the_same_seed_is_the_same_episode(name, options):
    first, second = (record(opened(name, options), 40, seed=7) for _ in range(2))
    other = record(opened(name, options), 40, seed=8)
    np.testing.assert_array_equal(first.frames, second.frames)
    np.testing.assert_array_equal(first.actions, second.actions)
    assert (first.frames != other.frames).any()


@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_drawing_a_batch_is_drawing_one_by_one(name, options):
    world = opened(name, options)
    rng = np.random.default_rng(1)
    states, pictures = [], []
    for _ in range(30):
        states.append(world.state())
        pictures.append(world.render())
        world.step(world.policy(rng))
    np.testing.assert_array_equal(world.draw(np.stack(states)), np.stack(pictures))


def test_balls_bounce_and_keep_their_speed():
    world = make("nball", balls=6)
    world.reset(5)
    speed = np.linalg.norm(world.state()[1:, 2:], axis=1)
    assert ((speed >= 1) & (speed <= 3)).all()
    for _ in range(300):
        world.step(np.zeros(2))
        state = world.state()
        assert (state[:, :2] >= 4).all()
        assert (state[:, :2] <= 60).all()
        np.testing.assert_allclose(np.linalg.norm(state[1:, 2:], axis=1), speed)


def test_a_bounce_loses_no_distance():
    world = make("nball", balls=1)
    state = np.array([[[32, 32, 0, 0], [59, 20, 2.5, -1]]], float)
    after = world.advance(state, np.zeros((1, 2)))[0]
    np.testing.assert_allclose(after[1], [58.5, 19, -2.5, -1])


def test_the_control_ball_moves_by_its_action_up_to_three_pixels():
    world = make("nball", balls=0)
    state = np.array([[[32, 32, 0, 0]], [[32, 32, 0, 0]], [[59, 32, 0, 0]]], float)
    after = world.advance(state, np.array([[1.0, -2.0], [30.0, 40.0], [3.0, 0.0]]))
    np.testing.assert_allclose(after[:, 0, :2], [[33, 30], [33.8, 34.4], [60, 32]])


def test_the_agent_of_two_room_is_as_fast_as_its_last_step_took_it():
    world = make("two_room", size=112)
    states, _ = world.play(np.random.default_rng(0), 1, 20)
    velocity = world.velocities_of(states[0])
    assert velocity.shape == (20, 1, 2)
    assert (velocity[0] == 0).all()
    on_pictures = np.diff(states[0], axis=0) / 2  # which are half as wide as the rooms
    np.testing.assert_allclose(velocity[1:, 0], on_pictures)


def test_the_control_ball_is_as_fast_as_its_last_step_took_it_and_stands_still_at_first():
    """Its velocity was 0 in every dataset: `evaluate` had none to judge, and compact7 trained on 0."""
    world = make("nball", balls=2, slip=0.2)
    states, _ = world.play(np.random.default_rng(0), 5, 32)
    velocity = world.velocities_of(states)[:, :, 0]
    assert (velocity[:, 0] == 0).all()
    np.testing.assert_allclose(velocity[:, 1:], np.diff(states[:, :, 0, :2], axis=1), atol=1e-12)
    assert np.linalg.norm(velocity, axis=-1).max() > 2
    world.reset(1)
    assert (world.state()[0, 2:] == 0).all()
    world.set_state(np.array([[59, 32, 1, 1], [20, 20, 1, 1], [40, 20, 1, 1]], float))
    world.slip = 0.0
    world.step(np.array([3.0, 0.0]))
    np.testing.assert_allclose(world.state()[0], [60, 32, 1, 0])  # the wall lets it go no further


@pytest.mark.parametrize("centre", [(32.0, 32.0), (20.37, 41.81), (4.0, 60.0), (60.0, 4.0), (59.996, 4.004)])
def test_a_disc_covers_its_area_and_its_centre_of_mass_is_its_place(centre):
    world = make("nball", balls=1)
    elsewhere = (4.0, 4.0)
    cover = world.draw(np.array([[[*elsewhere, 0, 0], [*centre, 1, 1]]]))[0, :, :, 1] / 255.0
    assert cover.sum() == pytest.approx(np.pi * 16, rel=2e-3)
    rows, columns = np.indices(cover.shape) + 0.5
    assert (cover * columns).sum() / cover.sum() == pytest.approx(centre[0], abs=0.01)
    assert (cover * rows).sum() / cover.sum() == pytest.approx(centre[1], abs=0.01)


def test_the_red_ball_is_drawn_over_white_ones():
    world = make("nball", balls=2)
    state = np.tile(np.array([30.0, 30.0, 0.0, 0.0]), (1, 3, 1))
    assert world.draw(state)[0, 30, 30].tolist() == [255, 0, 0]


@pytest.mark.parametrize("balls", [0, 1, 3, 6, 12])
def test_boxes_hold_exactly_the_lit_pixels(balls):
    world = make("nball", balls=balls)
    world.reset(balls)
    lit = world.render().max(axis=2) > 0
    boxed = np.zeros_like(lit)
    for x1, y1, x2, y2 in world.boxes().values():
        assert x2 - x1 == pytest.approx(8)
        assert y2 - y1 == pytest.approx(8)
        boxed[int(y1) : int(np.ceil(y2)), int(x1) : int(np.ceil(x2))] = True
    assert not (lit & ~boxed).any()
    assert list(world.boxes()) == ["control ball", *(f"ball {i}" for i in range(1, balls + 1))]


def test_balls_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        make("nball", balls=1, size=8)


def test_the_agent_passes_the_wall_only_through_the_door():
    world = TwoRoom(door=60.0)
    rng = np.random.default_rng(0)
    place = rng.uniform(21, SIDE - 21, (500, 2))
    left, right = WALL[0] - RADIUS, WALL[1] + RADIUS
    place = place[(place[:, 0] <= left) | (place[:, 0] >= right)]
    crossed = 0
    for _ in range(400):
        before = place
        place = world.advance(place, rng.normal(0, 5, place.shape) + np.where(rng.random() < 0.5, -3, 3))
        inside = (place[:, 0] > left) & (place[:, 0] < right)
        assert (np.abs(place[inside, 1] - 60) <= 7 + 1e-9).all()
        crossed += int(((before[:, 0] < 112) != (place[:, 0] < 112)).sum())
        assert (place >= 21).all()
        assert (place <= SIDE - 21).all()
    assert crossed > 0


def test_the_agent_finds_the_door_and_the_target():
    world = TwoRoom()
    found = 0
    for seed in range(20):
        world.reset(seed)
        goal, rng = world.target, np.random.default_rng(seed)
        for _ in range(150):
            world.step(world.policy(rng))
            if world.reached(goal):
                found += 1
                break
    assert found == 20


def test_the_agent_box_is_where_its_opacity_is_a_tenth():
    world = TwoRoom()
    frame = world.draw(np.array([[60.3, 150.8]]))[0]
    opacity = 1 - frame[:, :, 1] / 255.0
    columns = np.flatnonzero(opacity[150, 20:100] > 0.1) + 20
    rows = np.flatnonzero(opacity[100:200, 60] > 0.1) + 100
    assert abs(columns[0] - (60.3 - 15.05)) < 1
    assert abs(columns[-1] + 1 - (60.3 + 15.05)) < 1
    assert abs(rows[0] - (150.8 - 15.05)) < 1
    assert abs(rows[-1] + 1 - (150.8 + 15.05)) < 1


def test_a_smaller_picture_shows_the_same_rooms():
    large, small = TwoRoom(), TwoRoom(size=56)
    states = large.play(np.random.default_rng(0), 1, 20)[0][0]
    shrunk = large.draw(states).reshape(20, 56, 4, 56, 4, 3).mean(axis=(2, 4))
    assert np.abs(shrunk - small.draw(states)).max() < 12
    np.testing.assert_allclose(small.boxes_of(states) * 4, large.boxes_of(states))


@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_an_episode_goes_on_from_any_state(name, options):
    world, rng = opened(name, options), np.random.default_rng(2)
    actions = [world.policy(rng) for _ in range(10)]
    states = []
    for action in actions:
        states.append(world.state())
        world.step(action)
    end = world.state()
    world.set_state(states[4])
    for action in actions[4:]:
        world.step(action)
    np.testing.assert_array_equal(world.state(), end)


@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_a_policy_begins_anew_with_a_state_that_is_set(name, options):
    world = opened(name, options)
    check_that_it_begins_anew(world, world.state())


@pytest.mark.parametrize("door", [5.0, 215.0])
def test_a_door_outside_the_wall_is_refused(door):
    with pytest.raises(ValueError, match="door"):
        TwoRoom(door=door)


@pytest.mark.parametrize(("name", "options"), WORLDS)
def test_a_written_episode_reads_back_with_its_ground_truth(tmp_path, name, options):
    episode = record(opened(name, options), 20, seed=4)
    path = tmp_path / "episode.mp4"
    assert write_episode(path, episode, truth=True)
    frames = list(Video(path).frames())
    assert [frame.index for frame in frames] == list(range(20))
    assert frames[10].time == pytest.approx(10 / episode.fps, abs=1e-4)
    # Brightness survives the codec; colour does only at half resolution (4:2:0).
    grey = np.stack([frame.image for frame in frames]).mean(axis=3) - episode.frames.mean(axis=3)
    assert np.abs(grey).mean() < 2
    truth = json.loads(path.with_suffix(".json").read_text())
    assert (truth["frames"], truth["height"], truth["width"]) == episode.frames.shape[:3]
    for thing in truth["objects"]:
        np.testing.assert_allclose(thing["boxes"], episode.boxes[thing["name"]], atol=1e-3)


def test_demo_videos_are_the_same_again_and_left_alone(tmp_path):
    paths = write_demo_videos(tmp_path / "demo")
    stamps = [path.stat().st_mtime_ns for path in paths]
    assert write_demo_videos(tmp_path / "demo") == paths
    assert [path.stat().st_mtime_ns for path in paths] == stamps
    again = write_demo_videos(tmp_path / "again")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == ["one_ball.mp4", "three_balls.mp4", "two_rooms.mp4"]
    assert all(120 <= sum(1 for _ in Video(path).frames()) <= 200 for path in paths)


def test_a_damaged_demo_video_is_written_anew(tmp_path):
    paths = write_demo_videos(tmp_path)
    good = paths[0].read_bytes()
    paths[0].write_bytes(good[:100])
    write_demo_videos(tmp_path)
    assert paths[0].read_bytes() == good


@pytest.mark.parametrize(
    ("radius", "size"), [(0.7, 16), (1.0, 5), (2.3, 64), (2.3, 8), (3.49, 32), (4.0, 64), (7.77, 33)]
)
def test_balls_of_any_radius_are_drawn_whole_wherever_they_are(radius: float, size: int) -> None:
    world = make("nball", balls=1, size=size, radius=radius)
    states, _ = world.play(np.random.default_rng(0), 20, 60)
    states = states.reshape(-1, 2, 4)
    assert radius <= states[..., :2].min()
    assert states[..., :2].max() <= size - radius
    assert world.draw(states).shape == (1200, size, size, 3)
    flying = make("nball", balls=0, size=size, radius=radius).draw(states[:, 1:])  # the white one alone, in red
    red = flying[..., 0] / 255.0
    np.testing.assert_allclose(red.sum(axis=(1, 2)), np.pi * radius**2, rtol=0.01, atol=0.05)
    middles = np.arange(size) + 0.5
    sums = np.stack([(red * middles).sum((1, 2)), (red * middles[:, None]).sum((1, 2))], axis=-1)
    centre = sums / red.sum((1, 2))[:, None]
    np.testing.assert_allclose(centre, states[:, 1, :2], atol=0.1)


def test_a_world_too_narrow_for_a_bounce_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit a world of 8 pixels"):
        make("nball", balls=1, size=8, radius=2.6)
