"""Which objects of a label store become targets, and in which group."""

import numpy as np
import pytest

from labeling.tracks import UNASSIGNED
from tests.training.labeled import many, sliding_boxes, still_frames, tracks_of
from training.dataset_format import DatasetError, open_dataset
from training.manifest import PrepareConfig
from training.prepare import prepare
from training.sources.labels import Kind, chosen_groups


def test_objects_that_an_episode_does_not_show_take_no_slot_in_it(labeled, tmp_path):
    boxes = np.full((40, 4, 4), np.nan)
    for number in range(4):
        boxes[number * 10 : number * 10 + 10, number] = [5, 5, 15, 15]
    labeled.add("a.mp4", still_frames(40), tracks_of(boxes, [0, 1, 2, 0]), cuts=[])
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(episode_frames=20))
    data = open_dataset(made.path)
    assert data.array("boxes").shape == (40, 3, 4)  # one for each category: no episode shows two of one
    assert data.category.tolist() == [[0, 1, -1], [0, -1, 2]]
    assert data.instance.tolist() == [[10, 11, -1], [13, -1, 12]]
    assert data.array("present")[:].any(axis=0).tolist() == [True, True, True]
    assert not data.array("present")[:20, 2].any()


def test_a_slot_stands_for_the_same_category_in_every_clip(labeled, tmp_path):
    """In one clip a ball is the most prominent, in the other a door."""
    for name, category in (("a.mp4", [0, 1, 0, 0]), ("b.mp4", [1, 0, 0, 0]), ("c.mp4", [1, 0])):
        labeled.add(name, still_frames(20), tracks_of(sliding_boxes(20, len(category)), category))
    data = open_dataset(prepare(labeled.store, tmp_path / "d.zarr").path)
    assert data.category.tolist() == [[0, 0, 0, 1], [0, 0, 0, 1], [0, -1, -1, 1]]
    assert data.instance.tolist() == [[10, 12, 13, 11], [11, 12, 13, 10], [11, -1, -1, 10]]
    y = data.array("boxes")[:, :, 1].reshape(3, 20, 4)[:, 0] * 48
    np.testing.assert_allclose(y[0], [4.5, 16.5, 22.5, 10.5], atol=1e-4)  # boxes go along with their instances
    np.testing.assert_allclose(y[2], [10.5, 0, 0, 4.5], atol=1e-4)


def test_fourier_targets_do_not_depend_on_slots(labeled, tmp_path):
    import torch

    from training.dataset import Windows
    from training.settings import TargetConfig
    from training.targets import BoxTarget

    boxes, category = sliding_boxes(20, 3), [1, 0, 1]
    labeled.add("a.mp4", still_frames(20), tracks_of(boxes, category))
    labeled.add("b.mp4", still_frames(20), tracks_of(boxes, [0, 0, 0]))
    data = open_dataset(prepare(labeled.store, tmp_path / "d.zarr").path)
    target = BoxTarget.of(TargetConfig(), data)
    assert target.fourier is not None
    batch = next(Windows(data, "train", batch=4, shuffle=False).batches(0))
    frames = (batch.rows[:, None] + torch.arange(4)) % 20
    centres, sizes = (boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]
    shares = torch.from_numpy(np.concatenate([centres, sizes], axis=-1) / [64, 48, 64, 48]).float()[frames]
    names = {row.members[0]: row.id for row in data.categories}
    group = torch.tensor([names[f"object-{kind + 1}"] for kind in category])
    expected = target.fourier(shares, torch.ones(4, 4, 3, dtype=torch.bool), group.expand(4, 3))
    torch.testing.assert_close(target(batch).values, expected, atol=1e-4, rtol=1e-4)


def test_many_categories_share_a_group_and_the_choice_is_said(labeled, tmp_path):
    weights = np.linspace(0.1, 1, 12)
    order = np.argsort(-weights)
    boxes = np.full((20, 12, 4), [5, 5, 15, 15.0])
    labeled.add("a.mp4", still_frames(20), tracks_of(boxes, order, weights[order]))
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(max_categories=4))
    assert [row.name for row in made.categories] == ["object-12", "object-11", "object-10", "other"]
    assert set(made.categories[-1].members) == {f"object-{number}" for number in range(1, 10)}
    assert any("9 of 12 categories share the group other" in note for note in made.notes)
    assert open_dataset(made.path).attributes["notes"] == made.notes
    assert open_dataset(made.path).category.max() == 3


def test_categories_that_are_called_alike_stay_apart():
    names = ["ball", "ball", "ball 2", "other", "ball"]
    kinds = [Kind(id, name, 1, 9.0 - id) for id, name in enumerate(names)]
    grouping = chosen_groups([*kinds, Kind(UNASSIGNED, "unassigned", 1, 1.0)], PrepareConfig())
    assert [row.name for row in grouping.categories] == ["ball", "ball 3", "ball 2", "other", "ball 4", "other 2"]
    assert grouping.group_of == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, UNASSIGNED: 5}
    picked = chosen_groups(kinds, PrepareConfig(categories=("ball", "ball")))
    assert [row.name for row in picked.categories] == ["ball", "ball 2", "ball 3"]


def test_categories_can_be_picked_by_name(labeled, tmp_path):
    many(labeled, objects=3)
    only = prepare(labeled.store, tmp_path / "a.zarr", config=PrepareConfig(categories=("object-2",)))
    assert [row.name for row in only.categories] == ["object-2"]
    assert open_dataset(only.path).objects == 1
    assert any("object-1, object-3" in note for note in only.notes)
    rest = prepare(labeled.store, tmp_path / "b.zarr", config=PrepareConfig(categories=("object-2", "other")))
    assert [(row.name, row.members) for row in rest.categories] == [
        ("object-2", ("object-2",)),
        ("other", ("object-1", "object-3")),
    ]
    with pytest.raises(DatasetError, match=r"no category cat\. The store has: object-1, object-2, object-3"):
        prepare(labeled.store, tmp_path / "c.zarr", config=PrepareConfig(categories=("cat",)))


def test_unassigned_tracks_join_the_rest(labeled, tmp_path):
    labeled.add("a.mp4", still_frames(20), tracks_of(sliding_boxes(20, 2), [0, -1]))
    made = prepare(labeled.store, tmp_path / "d.zarr")
    assert [(row.name, row.members) for row in made.categories] == [
        ("object-1", ("object-1",)),
        ("other", ("unassigned",)),
    ]


def test_a_crowd_is_cut_to_the_most_prominent_and_said(labeled, tmp_path):
    labeled.add("a.mp4", still_frames(20), tracks_of(np.full((20, 9, 4), [5, 5, 15, 15.0]), [0] * 9))
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(max_objects=4))
    assert open_dataset(made.path).instance[0].tolist() == [10, 11, 12, 13]
    assert any("a.mp4: 5 of the least prominent" in note for note in made.notes)
    assert [row.tracks for row in made.categories] == [4]  # what is kept is counted


def test_a_crowd_of_one_kind_leaves_a_place_to_the_others(labeled, tmp_path):
    for name, category in (("a.mp4", [0] * 5), ("b.mp4", [0, 0, 0, 0, 1]), ("c.mp4", [0, 0, 2])):
        boxes = np.full((20, len(category), 4), [5, 5, 15, 15.0])
        labeled.add(name, still_frames(20), tracks_of(boxes, category))
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(max_objects=4))
    assert open_dataset(made.path).category.tolist() == [[0, 0, -1, -1], [0, 0, 1, -1], [0, 0, -1, 2]]
    assert [(row.members, row.tracks) for row in made.categories] == [
        (("object-1",), 6), (("object-2",), 1), (("object-3",), 1),
    ]  # fmt: skip
    assert [note for note in made.notes if "least prominent" in note] == [
        "a.mp4: 3 of the least prominent objects of an episode are left out (max_objects).",
        "b.mp4: 2 of the least prominent objects of an episode are left out (max_objects).",
    ]


def test_a_long_video_whose_objects_change_is_no_crowd(labeled, tmp_path):
    boxes = np.full((40, 6, 4), np.nan)
    for number in range(6):
        boxes[:20, number] = boxes[20:, number] = [5, 5, 15, 15]
    boxes[:20, :3] = boxes[20:, 3:] = np.nan
    labeled.add("a.mp4", still_frames(40), tracks_of(boxes, [0] * 6), cuts=[])
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(max_objects=3, episode_frames=20))
    assert made.notes == []
    assert open_dataset(made.path).instance.tolist() == [[13, 14, 15], [10, 11, 12]]


def test_fewer_objects_than_categories_share_a_group_or_are_refused(labeled, tmp_path):
    many(labeled, objects=3)
    made = prepare(labeled.store, tmp_path / "a.zarr", config=PrepareConfig(max_objects=2))
    assert [row.name for row in made.categories] == ["object-1", "other"]
    all_three = PrepareConfig(max_objects=2, categories=("object-1", "object-2", "object-3"))
    with pytest.raises(DatasetError, match="3 categories are chosen, but an episode keeps 2 objects"):
        prepare(labeled.store, tmp_path / "b.zarr", config=all_three)
