"""A store of version 1, as the first Spectrabox wrote it, becomes one of today: labels and all that was tracked stay.

The fixture was labeled by the code of that time: two clips, three kept tracks, one that was dropped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr

from labeling import open_store
from labeling.migrations import STEPS, migrate
from labeling.observations import COLUMNS, Observations
from labeling.run import RunError, label_folder
from labeling.schema import SCHEMA
from labeling.store import StoreError
from labeling.validate import validate
from tests.conftest import Command
from tests.labeling.test_run import contents

FIXTURE = Path(__file__).parents[1] / "fixtures" / "stores" / "version-1.zip"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of version 1, with its videos beside it."""
    with zipfile.ZipFile(FIXTURE) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "labels.zarr"


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def arrays_of(group: zarr.Group) -> dict[str, bytes]:
    """All arrays of a group and below."""
    return {name: np.asarray(array).tobytes() for name, array in group.members(None) if isinstance(array, zarr.Array)}


def test_labels_are_the_same_bit_for_bit_after_a_migration(old: Path) -> None:
    files, labels = files_of(old / "videos"), arrays_of(zarr.open_group(str(old / "videos"), mode="r"))
    assert migrate(old).before == 1
    after = files_of(old / "videos")
    assert {name: after.get(name) for name in files} == files, "what was there is there as it was"
    assert arrays_of(zarr.open_group(str(old / "videos"), mode="r")) == labels
    assert validate(old) == []
    store = open_store(old)
    assert [(id, labels.boxes.shape, len(labels.dropped)) for id, labels in store.items()] == [
        ("one.mp4", (20, 2, 4), 1),
        ("two.mp4", (16, 1, 4), 0),
    ]
    assert store["one"].mask(5, 0).any()


def test_what_was_tracked_is_the_same_bit_for_bit_after_a_migration(old: Path) -> None:
    stages = zarr.open_group(str(old), mode="r")["stages"]
    names = [*COLUMNS, "time", "embedding", "embedding_track"]
    before = {(id, name): np.asarray(group[name]) for id, group in stages.groups() for name in names}
    runs = {id: np.asarray(group["counts"]) for id, group in stages.groups()}
    migrate(old)
    for id, group in zarr.open_group(str(old), mode="r")["stages"].groups():
        seen = Observations.read(group)
        for name in names:
            now = seen.columns[name] if name in COLUMNS else getattr(seen, name)
            assert now.dtype == before[id, name].dtype
            np.testing.assert_array_equal(now, before[id, name])
        np.testing.assert_array_equal(seen.mask_counts(0, len(seen.columns["frame"])), runs[id])
        assert not set(COLUMNS) & set(group.array_keys())


def test_overlaps_of_pairs_survive_a_migration(old: Path) -> None:
    group = zarr.open_group(str(old), mode="r+")["stages/one.mp4"]
    group.create_array("overlap_pair", data=np.array([[0, 1], [0, 2]], np.int32), overwrite=True)
    group.create_array("overlap", data=np.array([[3, 1.5], [1, 0.25]]), overwrite=True)
    migrate(old)
    seen = Observations.read(zarr.open_group(str(old), mode="r")["stages/one.mp4"])
    assert {pair: (found.frames, found.share) for pair, found in seen.overlaps.items()} == {
        (0, 1): (3, 0.5),
        (0, 2): (1, 0.25),
    }


@pytest.mark.slow
def test_a_migration_that_is_killed_again_and_again_ends_in_the_same_store(old: Path, tmp_path: Path) -> None:
    """A kill after every write and every removal that a migration does."""
    migrate(shutil.copytree(old, tmp_path / "undisturbed.zarr"))
    code = f"""
import os, sys
from zarr.storage import LocalStore
left = [int(sys.argv[1])]
def counted(name):
    whole = getattr(LocalStore, name)
    async def once(self, *given, **named):
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)
        return await whole(self, *given, **named)
    setattr(LocalStore, name, once)
for name in ("set", "delete", "delete_dir"):
    counted(name)
from labeling.migrations import migrate
migrate({str(old)!r})
"""
    kills = 0
    while subprocess.run([sys.executable, "-c", code, str(4 + 6 * kills)], check=False, timeout=120).returncode == 9:
        kills += 1
        with pytest.raises(StoreError, match=r"has schema 1, this version reads 2.*spectrabox migrate"):
            open_store(old)
    assert kills > 3
    assert files_of(old) == files_of(tmp_path / "undisturbed.zarr")


@pytest.mark.slow
def test_a_run_brings_an_older_store_up_to_date_and_labels_as_today(old: Path, tmp_path: Path) -> None:
    root = zarr.open_group(str(old), mode="r+")
    root.attrs["videos"] = str(tmp_path / "videos")
    assert not label_folder(tmp_path / "videos", old, workers=1, refit=True).failed
    label_folder(tmp_path / "videos", tmp_path / "new.zarr", workers=1)
    made, new = contents(old), contents(tmp_path / "new.zarr")
    assert json.loads(made.pop("zarr.json")) == json.loads(new.pop("zarr.json"))  # in whichever order
    assert made == new
    assert validate(old) == []


def test_an_older_store_is_refused_by_readers_who_say_what_to_do(old: Path, spectrabox: Command) -> None:
    words = f"{old} has schema 1, this version reads 2. Bring it up to date, labels and all: spectrabox migrate {old}"
    with pytest.raises(StoreError) as refused:
        open_store(old)
    assert str(refused.value) == words
    assert validate(old) == [words]
    done = spectrabox("migrate", old)
    assert done.returncode == 0
    assert "from schema 1 to 2" in done.stdout
    again = spectrabox("migrate", old)
    assert again.returncode == 0
    assert "is up to date" in again.stdout


@pytest.mark.parametrize("schema", [99, 0, -1, True, "2", None, 1.0])
def test_a_store_of_another_version_is_refused_and_left_alone(old: Path, schema: object) -> None:
    zarr.open_group(str(old), mode="r+").attrs["schema"] = schema
    before = files_of(old)
    with pytest.raises(StoreError, match=f"has schema {schema}"):
        migrate(old)
    assert files_of(old) == before


def test_a_store_from_a_newer_version_says_so(old: Path) -> None:
    zarr.open_group(str(old), mode="r+").attrs["schema"] = SCHEMA + 1
    for opened in (open_store, migrate):
        with pytest.raises(StoreError, match="a newer Spectrabox made it"):
            opened(old)
    with pytest.raises(StoreError, match="a newer Spectrabox made it"):
        label_folder(old.parent / "videos", old)


def test_what_is_no_store_is_not_made_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a label store"):
        migrate(tmp_path / "nothing.zarr")
    assert not list(tmp_path.iterdir())
    zarr.create_group(str(tmp_path / "data.zarr"), attributes={"kind": "spectrabox dataset", "schema": 1})
    with pytest.raises(StoreError, match="is a spectrabox dataset, not a label store"):
        migrate(tmp_path / "data.zarr")


def test_nobody_migrates_a_store_that_is_being_labeled(old: Path) -> None:
    import fcntl

    handle = os.open(old, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another run is writing to"):
            migrate(old)
    finally:
        os.close(handle)
    assert json.loads((old / "zarr.json").read_text())["attributes"]["schema"] == 1


def test_there_is_a_step_from_every_version_to_the_next() -> None:
    assert sorted(STEPS) == list(range(1, SCHEMA))
