"""A review of a store in a bucket: the same edits, and nobody writes over another's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labeling import open_store
from labeling.locks import locked
from labeling.places import place
from labeling.review.desk import Desk
from labeling.review.edits import EDIT
from labeling.review.frames import Pictures
from labeling.review.log import Busy
from labeling.store import Store
from tests.object_storage import Bucket, s3_server

V = "squares.mp4"
URL = "s3://bucket/labels.zarr"
DROP = EDIT.validate_python({"kind": "drop-tracks", "video": V, "tracks": [1]})


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as patch, s3_server(patch, tmp_path / "log") as server:
        yield server


@pytest.mark.slow
def test_a_store_in_a_bucket_is_reviewed_like_one_on_a_disk(
    bucket: Bucket, make_store: Callable[..., Store], tmp_path: Path
) -> None:
    make_store()
    bucket.upload(tmp_path / "labels.zarr", "labels.zarr")
    bucket.upload(tmp_path / "videos", "clips")
    before = bucket.contents("labels.zarr")
    desk, other = Desk(URL, "s3://bucket/clips", "Ada"), Desk(URL, author="Bo")
    desk.edit(DROP, desk.version)
    other.refresh()
    other.edit(EDIT.validate_python({"kind": "check-video", "video": V}), other.version)
    opened = open_store(URL)
    assert opened[V].tracks.instance.tolist() == [2]
    assert opened[V].checked.endswith("by Bo")
    after = bucket.contents("labels.zarr")
    assert {name: content for name, content in after.items() if not name.startswith("review")} == before
    assert not [name for name in after if name.endswith(".lock")], "the lock goes with the edit"
    with locked(place(URL)), pytest.raises(Busy, match="is being labeled right now"):
        desk.undo(desk.refresh())
    desk.undo(desk.refresh())
    assert open_store(URL)[V].checked == ""
    wanted = desk.wanted(V)
    assert wanted is not None
    pictures = Pictures(desk.videos_folder)
    assert len(list(pictures.stretch(wanted, 3, 6, 160))) == 3
    pictures.close()
