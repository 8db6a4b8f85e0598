"""Batches of windows: every window once, the same for the same seed, whether in memory or streamed."""

import dataclasses

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.dataset import Batch, Windows, open_dataset
from training.dataset_format import DatasetError
from training.dataset_writer import DatasetWriter
from training.manifest import Split
from training.takes import Layout, Take

SIZE = 16


def made(path, lengths, actions=2, size=SIZE, objects=2, validation=0.0):
    """A dataset whose every value says where it comes from: frames hold their row, actions the row and component."""
    row = 0
    with DatasetWriter(path, Layout((size, size), actions, objects, {"state": 1})) as writer:
        for episode, length in enumerate(lengths):
            rows = np.arange(row, row + length)
            frames = np.zeros((length, size, size, 3), np.uint8)
            frames[:, 0, 0] = np.stack([rows % 251, rows // 251 % 251, rows // 251**2], axis=1)
            boxes = np.full((length, objects, 4), 0.25)
            boxes[..., 0] = 0.3 + 0.1 * (rows[:, None] % 5)
            boxes[::2, 1] = np.nan
            number = rows[:, None].astype(float)
            columns = {"actions": number + np.arange(actions) / 10, "boxes": boxes, "state": number}
            writer.add(Take(f"clip-{episode}", 0, [frames], columns, np.array([0, 1]), np.array([4, 7])))
            row += length
        return writer.finish("made", [], Split(validation=validation))


def rows_of(frames):
    """The rows that frames (..., H, W, 3) come from."""
    mark = frames[..., 0, 0, :].long()
    return mark[..., 0] + 251 * mark[..., 1] + 251**2 * mark[..., 2]


def equal(first: Batch, second: Batch):
    for field in dataclasses.fields(Batch):
        a, b = getattr(first, field.name), getattr(second, field.name)
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Episodes of many lengths, some shorter than a window, over several chunks of 1024 frames."""
    lengths = np.random.default_rng(0).integers(1, 60, 600).tolist()
    return made(tmp_path_factory.mktemp("data") / "made.zarr", lengths, validation=0.2)


STREAMED = 6_000_000  # bytes: less than half of the dataset


@pytest.mark.parametrize("memory", [1 << 30, STREAMED])
@pytest.mark.parametrize("skip", [1, 5])
def test_an_epoch_has_every_window_once_and_none_crosses_an_episode(dataset, memory, skip):
    count = Windows(dataset, "train", skip=skip).windows
    windows = Windows(dataset, "train", skip=skip, batch=count, memory_limit=memory)
    assert windows.in_memory == (memory == 1 << 30)
    expected = [
        start
        for episode in dataset.split("train")
        for start in range(
            dataset.episode_offset[episode],
            dataset.episode_offset[episode] + dataset.episode_length[episode] - 4 * skip + 1,
        )
    ]
    starts = []
    for batch in windows.batches(0):
        rows = rows_of(batch.frames)
        assert torch.equal(rows, batch.rows[:, None] + torch.arange(4) * skip)
        starts += batch.rows.tolist()
    assert sorted(starts) == expected
    assert windows.windows == len(expected)


@pytest.mark.parametrize("memory", [1 << 30, STREAMED])
def test_actions_of_a_skip_stand_side_by_side_and_other_columns_follow_the_frames(dataset, memory):
    windows = Windows(dataset, "train", length=3, skip=4, batch=16, memory_limit=memory)
    batch = next(windows.batches(3))
    rows = rows_of(batch.frames)
    expected = (rows[..., None] + torch.arange(4))[..., None] + torch.arange(2) / 10
    assert torch.equal(batch.actions, expected.flatten(2).float())
    assert batch.actions.shape == (16, 3, 8)
    assert torch.equal(batch.state[..., 0], rows.float())
    assert torch.allclose(batch.boxes[..., 0, 0], 0.3 + 0.1 * (rows % 5))
    within = (
        rows
        - torch.from_numpy(
            dataset.episode_offset[np.searchsorted(dataset.episode_offset, rows[:, 0].numpy(), "right") - 1]
        )[:, None]
    )
    assert torch.equal(batch.present[..., 1], within % 2 == 1)
    assert batch.boxes[~batch.present].abs().max() == 0
    assert batch.category.tolist() == [[0, 1]] * 16
    assert batch.frames.dtype == torch.uint8
    assert batch.oriented is None


@pytest.mark.parametrize("memory", [1 << 30, STREAMED])
def test_the_same_seed_gives_the_same_batches_another_epoch_others(dataset, memory):
    first, second = (Windows(dataset, "train", batch=32, seed=5, memory_limit=memory) for _ in range(2))
    for one, other in zip(first.batches(2), second.batches(2), strict=True):
        equal(one, other)
    other_epoch, other_seed = next(first.batches(3)), next(Windows(dataset, batch=32, seed=6).batches(2))
    assert not torch.equal(next(first.batches(2)).rows, other_epoch.rows)
    assert not torch.equal(next(first.batches(2)).rows, other_seed.rows)
    assert first.order == second.order


@pytest.mark.parametrize("memory", [1 << 30, STREAMED])
def test_an_epoch_goes_on_from_any_batch(dataset, memory):
    windows = Windows(dataset, "train", batch=48, seed=1, memory_limit=memory)
    whole = list(windows.batches(4))
    assert len(whole) == len(windows)
    for start in (0, 1, len(whole) // 2, len(whole) - 1, len(whole)):
        rest = list(Windows(dataset, "train", batch=48, seed=1, memory_limit=memory).batches(4, start))
        assert len(rest) == len(whole) - start
        for one, other in zip(rest, whole[start:], strict=True):
            equal(one, other)


def test_a_batch_that_is_kept_is_not_overwritten_by_later_ones(dataset):
    windows = Windows(dataset, "train", batch=16)
    batches = windows.batches(0)
    kept = next(batches).frames[2:5]
    copy = kept.clone()
    for _ in range(10):
        next(batches)
    assert torch.equal(kept, copy)


def test_going_on_reads_only_what_is_left(dataset, monkeypatch):
    windows = Windows(dataset, "train", batch=48, memory_limit=STREAMED)
    read = []
    fill = windows._reader.fill
    monkeypatch.setattr(windows._reader, "fill", lambda blocks, *rest: read.append(len(blocks)) or fill(blocks, *rest))
    list(windows.batches(0))
    everything = sum(read)
    read.clear()
    list(windows.batches(0, len(windows) - 1))
    assert 0 < sum(read) < everything / 2


def test_labels_that_take_too_much_memory_are_streamed_like_the_frames(dataset, monkeypatch):
    monkeypatch.setattr("training.blocks.LABELS", 0.0)
    count = Windows(dataset, "train").windows
    batch = next(Windows(dataset, "train", batch=count, memory_limit=STREAMED).batches(0))
    assert len(set(batch.rows.tolist())) == count
    rows = rows_of(batch.frames)
    assert torch.equal(batch.state[..., 0], rows.float())
    assert torch.equal(batch.actions[..., 0], rows.float())


def test_windows_of_a_streamed_batch_come_from_all_over(dataset):
    batch = next(Windows(dataset, "train", batch=64, memory_limit=STREAMED).batches(0))
    assert len(set((batch.rows // 1024).tolist())) > 1


def test_the_parts_of_processes_make_up_the_batch_of_one(dataset):
    whole = next(Windows(dataset, "train", batch=32).batches(0))
    parts = [next(Windows(dataset, "train", batch=32, part=(rank, 2)).batches(0)) for rank in range(2)]
    assert torch.equal(torch.cat([part.frames for part in parts]), whole.frames)
    assert torch.equal(torch.cat([part.actions for part in parts]), whole.actions)


def test_validation_windows_lie_in_validation_episodes(dataset):
    held_out = dataset.split("validation")
    assert 0 < len(held_out) < dataset.episodes / 2
    offsets, lengths = dataset.episode_offset[held_out], dataset.episode_length[held_out]
    for batch in Windows(dataset, "validation", batch=16).batches(0):
        starts = batch.rows.numpy()
        place = np.searchsorted(offsets, starts, "right") - 1
        assert (starts + 4 <= offsets[place] + lengths[place]).all()


def test_without_actions_a_window_needs_only_its_frames(tmp_path):
    data = made(tmp_path / "d.zarr", [16, 4], actions=0)
    windows = Windows(data, skip=5, batch=8)
    assert windows.windows == 1
    batch = next(windows.batches(0))
    assert batch.actions.shape == (1, 4, 0)
    assert rows_of(batch.frames).tolist() == [[0, 5, 10, 15]]


def test_a_lone_batch_that_is_not_full_is_handed_out(tmp_path):
    windows = Windows(made(tmp_path / "d.zarr", [6]), batch=128)
    assert [len(batch) for batch in windows.batches(0)] == [3]


def test_too_long_windows_are_refused_with_the_longest_episode(tmp_path):
    data = made(tmp_path / "d.zarr", [12, 19])
    with pytest.raises(DatasetError, match=r"20 frames.*the longest has 19"):
        Windows(data, skip=5)


def test_too_little_memory_is_refused_with_what_is_needed(dataset):
    with pytest.raises(DatasetError, match=r"--set memory="):
        Windows(dataset, memory_limit=10_000)


def test_a_dataset_without_objects_gives_empty_boxes(tmp_path):
    with DatasetWriter(tmp_path / "d.zarr", Layout((8, 8), 0, 0)) as writer:
        columns = {"actions": np.zeros((9, 0)), "boxes": np.zeros((9, 0, 4))}
        writer.add(Take("a", 0, [np.zeros((9, 8, 8, 3), np.uint8)], columns, np.zeros(0, int), np.zeros(0, int)))
        data = writer.finish("none", [], Split())
    batch = next(Windows(data, batch=2).batches(0))
    assert batch.boxes.shape == (2, 4, 0, 4)
    assert batch.category.shape == (2, 0)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    length=st.integers(1, 4), skip=st.integers(1, 4), batch=st.integers(1, 9), seed=st.integers(0, 99),
)  # fmt: skip
def test_whatever_the_episodes_no_window_is_lost_or_twice(tmp_path_factory, lengths, length, skip, batch, seed):
    data = made(tmp_path_factory.mktemp("any") / "d.zarr", lengths)
    expected = sum(max(0, n - length * skip + 1) for n in lengths)
    if not expected:
        with pytest.raises(DatasetError):
            Windows(data, length=length, skip=skip)
        return
    windows = Windows(data, length=length, skip=skip, batch=batch, seed=seed)
    starts = [row for found in windows.batches(seed) for row in found.rows.tolist()]
    assert len(starts) == len(set(starts)) == min(expected, max(1, expected // batch) * batch)


@pytest.mark.slow
def test_streaming_takes_no_more_memory_than_its_limit(tmp_path):
    made(tmp_path / "d.zarr", [500] * 40, size=64, objects=2)  # 250 MB
    data = open_dataset(tmp_path / "d.zarr")
    limit = 60_000_000
    windows = Windows(data, batch=32, memory_limit=limit)
    list(zip(range(2), windows.batches(0), strict=False))
    process = psutil.Process()
    before = most = process.memory_info().rss
    for number, _ in enumerate(windows.batches(1)):
        if number % 10 == 0:
            most = max(most, process.memory_info().rss)
    assert not windows.in_memory
    assert most - before < 1.3 * limit
