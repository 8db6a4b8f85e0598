"""What is there of an array is counted by its files."""

from __future__ import annotations

from pathlib import Path

import pytest
import zarr

from labeling.zarr_io import missing_chunks


@pytest.mark.parametrize("shards", [None, (4, 2)])
@pytest.mark.parametrize("inside", ["", "videos/clip"])
def test_chunks_that_were_never_written_are_missing(
    tmp_path: Path, shards: tuple[int, int] | None, inside: str
) -> None:
    home = zarr.open_group(tmp_path / "store.zarr", mode="w")
    group = home.create_group(inside) if inside else home
    array = group.create_array("boxes", shape=(11, 3), chunks=(2, 1), shards=shards, dtype="f4")
    files = 6 * 3 if shards is None else 3 * 2
    assert missing_chunks(array) == files
    array[:4, 0] = 1
    assert missing_chunks(array) == files - (2 if shards is None else 1)
    array[:] = 1
    assert missing_chunks(array) == 0


def test_an_array_that_claims_more_than_could_be_counted_is_told_at_once(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "claims.zarr", shape=(10**15,), chunks=(1,), dtype="f4")
    assert missing_chunks(array) == 10**15
