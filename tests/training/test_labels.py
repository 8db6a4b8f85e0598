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
    labeled.add("a.mp4", still_frames(40), tracks_of(boxes, [0, 1, 2, 0]))
    made = prepare(labeled.store, tmp_path / "d.zarr", config=PrepareConfig(episode_frames=20))
    data = open_dataset(made.path)
    assert data.objects == 2
    assert data.array("boxes").shape == (40, 2, 4)
    assert data.category.tolist() == [[0, 1], [2, 0]]
    assert data.instance.tolist() == [[10, 11], [12, 13]]


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
