"""Files of stable-worldmodel and LeWM become datasets."""

import numpy as np
import pytest

from training.dataset import Windows
from training.dataset_format import DatasetError, open_dataset
from training.manifest import PrepareConfig
from training.prepare import prepare

h5py = pytest.importorskip("h5py")
LENGTHS = [25, 30, 21, 24, 22, 26, 23, 25, 27, 21, 22, 24]


def write(path, lengths=LENGTHS, channels_first=False, **changes):
    """A file as `World.record_dataset` writes it; `changes` replace columns, None removes them."""
    rng = np.random.default_rng(0)
    rows = sum(lengths)
    offset = np.cumsum([0, *lengths[:-1]])
    action = rng.normal(size=(rows, 2)).astype(np.float32)
    action[offset + lengths - 1] = np.nan
    pixels = rng.integers(0, 255, (rows, 16, 16, 3), dtype=np.uint8)
    columns = {
        "pixels": pixels.transpose(0, 3, 1, 2) if channels_first else pixels, "action": action,
        "state": rng.normal(size=(rows, 5)), "ep_len": np.array(lengths, np.int32), "ep_offset": offset,
        "ep_idx": np.repeat(np.arange(len(lengths)), lengths),
    } | changes  # fmt: skip
    with h5py.File(path, "w") as file:
        for name, values in columns.items():
            if values is not None:
                file.create_dataset(name, data=values, compression="gzip" if name == "pixels" else None)
    return columns | {"pixels": pixels}


@pytest.mark.parametrize("channels_first", [False, True])
def test_frames_actions_and_states_are_taken_over(tmp_path, channels_first):
    columns = write(tmp_path / "pusht.h5", channels_first=channels_first)
    made = prepare(tmp_path / "pusht.h5", tmp_path / "d.zarr", config=PrepareConfig(size=16))
    data = open_dataset(made.path)
    np.testing.assert_array_equal(data.array("frames")[:], columns["pixels"])
    np.testing.assert_array_equal(data.array("actions")[:], np.nan_to_num(columns["action"]))
    np.testing.assert_allclose(data.array("state")[:], columns["state"], rtol=1e-6)
    np.testing.assert_array_equal(data.episode_length, LENGTHS)
    assert made.problems == {}
    assert made.name == "pusht"
    assert any("no boxes" in note for note in made.notes)


def test_windows_are_counted_as_lewm_counts_them(tmp_path):
    write(tmp_path / "pusht.h5")
    data = open_dataset(prepare(tmp_path / "pusht.h5", tmp_path / "d.zarr", config=PrepareConfig(size=16)).path)
    train, held_out = (Windows(data, split, skip=5) for split in ("train", "validation"))
    assert train.windows + held_out.windows == sum(length - 20 + 1 for length in LENGTHS)
    batch = next(train.batches(0))
    assert batch.actions.shape[1:] == (4, 10)
    assert batch.boxes.shape[2:] == (0, 4)


def test_statistics_leave_out_the_actions_that_are_not_known(tmp_path):
    columns = write(tmp_path / "a.h5")
    data = open_dataset(prepare(tmp_path / "a.h5", tmp_path / "d.zarr", config=PrepareConfig(size=16)).path)
    rows = np.concatenate(
        [
            np.arange(data.episode_offset[e], data.episode_offset[e] + data.episode_length[e])
            for e in data.split("train")
        ]
    )
    known = columns["action"][rows]
    np.testing.assert_allclose(data.statistics["actions"].mean, np.nanmean(known, axis=0), atol=1e-6)
    np.testing.assert_allclose(data.statistics["actions"].std, np.nanstd(known, axis=0), rtol=1e-5)


def test_boxes_in_the_file_are_taken_over(tmp_path):
    boxes = np.full((sum(LENGTHS), 2, 4), [2.0, 4, 6, 12])
    boxes[::5, 1] = np.nan
    write(tmp_path / "a.h5", boxes=boxes)
    data = open_dataset(prepare(tmp_path / "a.h5", tmp_path / "d.zarr", config=PrepareConfig(size=32)).path)
    assert data.size == (32, 32)
    np.testing.assert_array_equal(data.array("present")[:], np.isfinite(boxes[..., 0]))
    np.testing.assert_allclose(data.array("boxes")[1, 0], [4 / 16, 8 / 16, 4 / 16, 8 / 16])
    assert len(data.categories) == 2


def test_faulty_episodes_are_named_and_the_rest_goes_on(tmp_path):
    lengths = np.array(LENGTHS)
    columns = write(tmp_path / "a.h5")
    action = columns["action"]
    action[columns["ep_offset"][4] + 3, 1] = np.nan
    lengths[7], lengths[11] = 0, 99
    write(tmp_path / "a.h5", action=action, ep_len=lengths)
    made = prepare(tmp_path / "a.h5", tmp_path / "d.zarr", config=PrepareConfig(size=16))
    assert list(made.problems) == ["a.h5 episode 4", "a.h5 episode 7", "a.h5 episode 11"]
    assert "NaN or infinite, first at frame 3" in made.problems["a.h5 episode 4"]
    assert "is empty" in made.problems["a.h5 episode 7"]
    assert "should end at row" in made.problems["a.h5 episode 11"]
    assert open_dataset(made.path).episodes == 9


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ep_len": None}, "no column ep_len"),
        ({"pixels": None}, "choose the column of pictures"),
        ({"pixels": np.zeros((5, 16, 16, 4), np.uint8)}, "three colours"),
    ],
)
def test_another_kind_of_file_is_refused(tmp_path, changes, words):
    write(tmp_path / "a.h5", **changes)
    with pytest.raises(DatasetError, match=words):
        prepare(tmp_path / "a.h5", tmp_path / "d.zarr")


ROWS = sum(LENGTHS)
BOXES = np.full((ROWS, 2, 4), [2.0, 4, 6, 12])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"action": np.zeros((ROWS - 1, 2))}, f"the column action has {ROWS - 1} rows, the pictures have {ROWS}"),
        ({"state": np.zeros((3, 5))}, f"the column state has 3 rows, the pictures have {ROWS}"),
        ({"boxes": BOXES[:, 0]}, rf"boxes has the shape \({ROWS}, 4\), it should be \({ROWS}, objects, 4\)"),
        ({"boxes": BOXES[..., :3]}, rf"boxes has the shape \({ROWS}, 2, 3\)"),
        ({"boxes": BOXES, "mass": np.zeros((ROWS, 3, 2))}, rf"mass has .* it should be \({ROWS}, 2, 2\)"),
        ({"boxes": BOXES[:-4]}, f"boxes has {ROWS - 4} rows"),
        ({"ep_len": np.array(LENGTHS[:-1])}, "ep_len has 11 episodes, ep_offset 12"),
        ({"ep_len": np.array(LENGTHS)[None]}, r"ep_len has the shape \(1, 12\)"),
        ({"ep_len": np.array([b"long"] * 12)}, "ep_len is of type .*S4, a column of numbers"),
        ({"action": np.array([b"left"] * ROWS)}, "action is of type .*S4, a column of numbers"),
    ],
)
def test_columns_that_do_not_fit_are_named_with_their_file_when_it_is_opened(tmp_path, changes, words):
    write(tmp_path / "a.h5", **changes)
    with pytest.raises(DatasetError, match=words) as error:
        prepare(tmp_path / "a.h5", tmp_path / "d.zarr")
    assert "a.h5" in str(error.value)
    assert not (tmp_path / "d.zarr").exists()


def test_a_group_in_the_place_of_a_column_is_named(tmp_path):
    write(tmp_path / "a.h5", action=None)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file.create_group("action")
    with pytest.raises(DatasetError, match="action is a group, a column of numbers is needed"):
        prepare(tmp_path / "a.h5", tmp_path / "d.zarr")


def test_rows_of_two_episodes_at_once_never_reach_both_splits(tmp_path):
    write(tmp_path / "a.h5", lengths=[20, 20], ep_offset=np.array([0, 10]))
    with pytest.raises(DatasetError, match="row 10 belongs to the episodes 0 and 1"):
        prepare(tmp_path / "a.h5", tmp_path / "d.zarr", config=PrepareConfig(size=16))


def test_episodes_may_stand_in_any_order(tmp_path):
    write(tmp_path / "a.h5", lengths=[20, 20], ep_offset=np.array([20, 0]))
    assert prepare(tmp_path / "a.h5", tmp_path / "d.zarr", config=PrepareConfig(size=16)).frames == 40


def test_a_file_that_is_no_hdf5_is_refused(tmp_path):
    (tmp_path / "a.h5").write_text("not at all")
    with pytest.raises(DatasetError, match="cannot be opened as HDF5"):
        prepare(tmp_path / "a.h5", tmp_path / "d.zarr")


def test_files_that_were_compressed_with_lz4_or_blosc_are_read(tmp_path):
    plugin = pytest.importorskip("hdf5plugin")
    columns = write(tmp_path / "a.h5", pixels=None)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file.create_dataset("pixels", data=columns["pixels"], chunks=(10, 16, 16, 3), **plugin.Blosc())
    data = open_dataset(prepare(tmp_path / "a.h5", tmp_path / "d.zarr", config=PrepareConfig(size=16)).path)
    np.testing.assert_array_equal(data.array("frames")[:], columns["pixels"])


def test_options_that_a_file_does_not_read_are_refused(tmp_path):
    write(tmp_path / "a.h5")
    with pytest.raises(DatasetError, match="--videos and --store cannot be used with an HDF5 file"):
        prepare(tmp_path / "a.h5", tmp_path / "d.zarr", videos=tmp_path, store=tmp_path)


def test_a_camera_can_be_chosen(tmp_path):
    front = np.full((sum(LENGTHS), 8, 8, 3), 7, np.uint8)
    write(tmp_path / "a.h5", front=front)
    made = prepare(tmp_path / "a.h5", tmp_path / "d.zarr", config=PrepareConfig(size=8, camera="front"))
    assert (open_dataset(made.path).array("frames")[:] == 7).all()


def test_a_damaged_column_costs_its_episode(tmp_path):
    columns = write(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["action"]
        action = file.create_dataset("action", data=columns["action"], chunks=(25, 2), compression="gzip")
        place = action.id.get_chunk_info(0).byte_offset
    with (tmp_path / "a.h5").open("r+b") as file:
        file.seek(place)
        file.write(b"\0" * 40)
    made = prepare(tmp_path / "a.h5", tmp_path / "d.zarr", config=PrepareConfig(size=16))
    assert list(made.problems) == ["a.h5 episode 0"]
    assert "a.h5 cannot be read from row 0 on" in made.problems["a.h5 episode 0"]


def test_names_of_kinds_may_be_stored_as_bytes(tmp_path):
    boxes = np.tile([2.0, 2.0, 8.0, 8.0], (sum(LENGTHS), 1, 1))
    write(tmp_path / "a.h5", boxes=boxes)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["boxes"].attrs["category"] = np.array([b"ball"])
    data = open_dataset(prepare(tmp_path / "a.h5", tmp_path / "d.zarr", config=PrepareConfig(size=16)).path)
    assert [row.name for row in data.categories] == ["ball"]
