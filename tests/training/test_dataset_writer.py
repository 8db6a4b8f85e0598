"""The writer of datasets: takes go in whole or not at all."""

import numpy as np
import psutil
import pytest

from training.dataset import Windows
from training.dataset_format import DatasetError
from training.dataset_writer import DatasetWriter
from training.manifest import Split
from training.takes import Layout, Take, checked


def take_of(boxes, **changes):
    boxes = np.asarray(boxes, float)
    columns = {"actions": np.zeros((len(boxes), 2)), "boxes": boxes} | changes
    count = boxes.shape[1]
    return Take("clip.mp4", 100, [], columns, np.zeros(count, int), np.arange(count) + 7)


def test_statistics_of_depths_are_those_of_their_logarithms(tmp_path):
    depth = np.sort(np.random.default_rng(0).uniform(0.5, 3, (30, 2, 5)), axis=-1)
    boxes = np.full((30, 2, 4), 0.3)
    boxes[::3, 1] = np.nan
    with DatasetWriter(tmp_path / "d.zarr", Layout((8, 8), 0, 2, {"depth": 5})) as writer:
        columns = {"actions": np.zeros((30, 0)), "boxes": boxes, "depth": depth}
        writer.add(Take("a", 0, [np.zeros((30, 8, 8, 3), np.uint8)], columns, np.arange(2), np.arange(2)))
        data = writer.finish("deep", [], Split())
    seen = np.log(depth[np.isfinite(boxes[..., 0])])
    np.testing.assert_allclose(data.statistics["log_depth"].mean, seen.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(data.statistics["log_depth"].std, seen.std(axis=0), rtol=1e-5)
    assert next(Windows(data, batch=4).batches(0)).depth.shape == (4, 4, 2, 5)


def test_a_refused_take_leaves_no_row_behind(tmp_path):
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (3000, 8, 8, 3), dtype=np.uint8)  # several chunks

    def take(rows, shown, name):
        blocks = (frames[low : low + 100] for low in range(0, shown, 100))
        columns = {"actions": np.zeros((rows, 0)), "boxes": np.full((rows, 1, 4), 0.5)}
        return Take(name, 0, blocks, columns, np.zeros(1, int), np.zeros(1, int))

    with DatasetWriter(tmp_path / "d.zarr", Layout((8, 8), 0, 1)) as writer:
        writer.add(take(1500, 1500, "good"))
        with pytest.raises(DatasetError, match="bad has 2500 frames"):
            writer.add(take(3000, 2500, "bad"))
        writer.add(take(700, 700, "good too"))
        data = writer.finish("d", [], Split())
    expected = np.concatenate([frames[:1500], frames[:700]])
    np.testing.assert_array_equal(data.array("frames")[:], expected)
    assert data.episode_length.tolist() == [1500, 700]


@pytest.mark.slow
def test_a_long_take_needs_no_more_memory_than_a_short_one(tmp_path):
    rows = 20_000  # 245 MB
    boxes = np.full((rows, 1, 4), 0.5)
    columns = {"actions": np.zeros((rows, 0)), "boxes": boxes}
    pictures = (np.full((100, 64, 64, 3), number % 256, np.uint8) for number in range(rows // 100))
    process, most = psutil.Process(), 0

    def watched():
        nonlocal most
        for block in pictures:
            most = max(most, process.memory_info().rss)
            yield block

    with DatasetWriter(tmp_path / "d.zarr", Layout((64, 64), 0, 1)) as writer:
        before = process.memory_info().rss
        writer.add(Take("long", 0, watched(), columns, np.zeros(1, int), np.zeros(1, int)))
        assert writer.finish("long", [], Split()).frames == rows
    assert most - before < 60_000_000


INSIDE = np.full((6, 2, 4), [0.5, 0.5, 0.2, 0.2])


@pytest.mark.parametrize(
    ("box", "words"),
    [
        ([0.95, 0.5, 0.2, 0.2], "object 8 at frame 103"),
        ([0.5, -0.2, 0.2, 0.2], "outside the frame"),
        ([0.5, 0.5, -0.2, 0.2], "outside the frame"),
    ],
)
def test_boxes_outside_the_frame_are_refused_with_object_and_frame(box, words):
    boxes = INSIDE.copy()
    boxes[3, 1] = box
    with pytest.raises(DatasetError, match=words) as error:
        checked(take_of(boxes), Layout((8, 8), 2, 2))
    assert "clip.mp4" in str(error.value)


def test_boxes_a_hair_outside_are_cut_to_the_frame():
    boxes = INSIDE.copy()
    boxes[0, 0] = [0.905, 0.5, 0.2, 0.2]
    written = checked(take_of(boxes), Layout((8, 8), 2, 2))["boxes"]
    np.testing.assert_allclose(written[0, 0], [0.9025, 0.5, 0.195, 0.2], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"actions": np.full((6, 2), np.nan)}, "actions that are NaN or infinite, first at frame 100"),
        ({"actions": np.zeros((5, 2))}, "5 rows of actions for 6 frames"),
        ({"state": np.full((6, 1), np.inf)}, "state that are NaN"),
        ({"mass": np.full((6, 2, 2), np.nan)}, "mass that are NaN"),
    ],
)
def test_columns_that_cannot_be_right_are_refused(changes, words):
    with pytest.raises(DatasetError, match=words):
        checked(take_of(INSIDE, **changes), Layout((8, 8), 2, 2, {"state": 1, "mass": 2}))


def test_an_empty_take_and_one_with_too_many_objects_are_refused():
    with pytest.raises(DatasetError, match="empty episode at frame 100"):
        checked(take_of(np.zeros((0, 2, 4))), Layout((8, 8), 2, 2))
    with pytest.raises(DatasetError, match="2 objects, the dataset room for 1"):
        checked(take_of(INSIDE), Layout((8, 8), 2, 1))


def test_frames_of_another_size_are_refused(tmp_path):
    with DatasetWriter(tmp_path / "d.zarr", Layout((8, 8), 2, 2)) as writer:
        wrong = take_of(INSIDE)
        wrong = Take(wrong.source, 0, [np.zeros((6, 9, 8, 3), np.uint8)], wrong.columns, wrong.category, wrong.instance)
        with pytest.raises(DatasetError, match=r"clip.mp4: frames are \(9, 8, 3\)"):
            writer.add(wrong)
        with pytest.raises(DatasetError, match="not one usable episode"):
            writer.finish("d", [], Split())
    assert list(tmp_path.iterdir()) == []
