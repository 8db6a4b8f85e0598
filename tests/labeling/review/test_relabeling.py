"""Edits and labels that change: by other settings, other videos, imports; on a disk and in a bucket."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

from labeling import open_store
from labeling.config import LabelConfig
from labeling.export import export
from labeling.importing import import_labels
from labeling.report import write_report
from labeling.review import log as logs
from labeling.review.desk import Desk
from labeling.review.edits import EDIT
from labeling.review.log import ReviewError, read_log
from labeling.run import label_folder
from labeling.show import misfits, summary
from labeling.store import Store
from labeling.validate import validate
from tests.labeling.review.editing import edit, same
from training.envs import make
from training.envs.video import record, write_episode
from training.manifest import PrepareConfig
from training.sources.store import LabeledVideos

MakeStore = Callable[..., Store]
V = "squares.mp4"


def printed(store: Store) -> str:
    from rich.console import Console

    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(summary(store))
    return console.export_text()


@pytest.fixture(scope="module")
def balls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("balls")
    write_episode(folder / "three.mp4", record(make("nball", balls=2), 30, seed=2))
    label_folder(folder, folder / "labels.zarr", workers=1)
    return folder


@pytest.fixture
def labeled(balls: Path, tmp_path: Path) -> Path:
    """A folder with a labeled video, as a copy."""
    shutil.copytree(balls, tmp_path / "balls")
    (tmp_path / "balls" / "labels.zarr").rename(tmp_path / "labels.zarr")
    zarr.open_group(str(tmp_path / "labels.zarr")).attrs["videos"] = str(tmp_path / "balls")
    return tmp_path


@pytest.mark.slow
def test_after_relabeling_edits_that_no_longer_fit_are_listed_and_the_others_hold(labeled: Path) -> None:
    store, videos = labeled / "labels.zarr", labeled / "balls"
    found = open_store(store)["three"].tracks
    first, second = found.instance.tolist()[:2]
    edit(
        Store(store), {"kind": "rename-category", "category": 0, "name": "ball"},
        {"kind": "drop-tracks", "video": "three.mp4", "tracks": [first]},
        {"kind": "check-video", "video": "three.mp4"}, author="Ada",
    )  # fmt: skip
    label_folder(videos, store, workers=1)
    assert misfits(open_store(store)) == [], "a run that changes nothing changes nothing"
    # Another filter: the tracks are where they were, so the edit of one holds. What was checked is labeled anew.
    label_folder(videos, store, LabelConfig.model_validate({"filters": {"min_frames": 3}}), workers=1)
    opened = open_store(store)
    assert first not in opened["three"].tracks.instance
    assert opened["three"].checked == ""
    assert [str(one).partition(" (")[0] for one in misfits(opened)] == ["three.mp4: marked as checked"]
    assert opened.categories[0].name == "ball"
    # Other tracks: none of it fits, all of it is still there, and said.
    label_folder(videos, store, LabelConfig.model_validate({"longest_side": 48}), workers=1)
    opened = open_store(store)
    assert first in opened["three"].tracks.instance
    lost = {str(one).partition(" (")[0]: one.why for one in misfits(opened)}
    assert (
        lost[f"three.mp4: track {first} dropped"] == f"it was labeled anew since, and track {first} is another one now"
    )
    assert "by Ada" in printed(opened)
    assert "no longer fits" in printed(opened)
    assert len(read_log(opened.root).done) == 3, "nothing is lost"
    # Back to what it was: the edits fit again.
    label_folder(videos, store, workers=1)
    opened = open_store(store)
    assert misfits(opened) == []
    assert opened["three"].checked.endswith("by Ada")
    assert opened["three"].tracks.instance.tolist() == [n for n in found.instance.tolist() if n != first]
    assert second in opened["three"].tracks.instance
    assert validate(store) == []


def test_edits_of_a_video_that_is_gone_are_listed(make_store: MakeStore) -> None:
    store = make_store("a.mp4", "b.mp4", videos=False)
    edit(store, {"kind": "drop-tracks", "video": "b.mp4", "tracks": [1]})
    del zarr.open_group(str(store.path), mode="r+")["videos/b.mp4"]
    (lost,) = misfits(open_store(store.path))
    assert lost.why == "the store has no labels of this video any more"
    assert Desk(store.path).overview()["misfits"] == [str(lost)]


def test_categories_that_were_found_anew_are_not_renamed(make_store: MakeStore) -> None:
    store = make_store(videos=False)
    edit(
        store, {"kind": "rename-category", "category": 0, "name": "ball"},
        {"kind": "assign-tracks", "video": V, "tracks": [2], "category": 0},
    )  # fmt: skip
    root = zarr.open_group(str(store.path), mode="r+")
    root["vocabulary/prototypes"][:] = np.asarray(root["vocabulary/prototypes"])[::-1]
    opened = open_store(store.path)
    assert opened.names[0] == "object-1"
    assert opened[V].tracks.category.tolist() == [0, 1]
    assert [one.why for one in misfits(opened)] == ["the categories were found anew since"] * 2


def test_a_review_of_imported_labels_outlives_another_import(tmp_path: Path, write_video: Callable[..., None]) -> None:
    write_video(tmp_path / "videos" / V)
    rows = [f"{frame},{track},{2 * frame},{20 * track},16,16,1,1,1" for track in (1, 2) for frame in range(1, 20)]
    (tmp_path / "mot/squares/gt").mkdir(parents=True)
    (tmp_path / "mot/squares/gt/gt.txt").write_text("\n".join(rows))
    out = import_labels(tmp_path / "mot", tmp_path / "videos", tmp_path / "labels.zarr").path
    edit(Store(out), {"kind": "drop-tracks", "video": V, "tracks": [1]}, {"kind": "check-video", "video": V})
    import_labels(tmp_path / "mot", tmp_path / "videos", out, force=True)
    assert open_store(out)[V].tracks.instance.tolist() == [2]
    assert open_store(out)[V].checked
    (tmp_path / "mot/squares/gt/gt.txt").write_text("\n".join(rows).replace("1,1,2,20,", "1,1,2,21,"))
    import_labels(tmp_path / "mot", tmp_path / "videos", out, force=True)
    opened = open_store(out)
    assert sorted(opened[V].tracks.instance.tolist()) == [1, 2]
    assert len(misfits(opened)) == 2


def test_show_says_how_far_a_review_is(make_store: MakeStore) -> None:
    store = make_store("a.mp4", "b.mp4", videos=False)
    assert "reviewed" not in printed(open_store(store.path))
    edit(
        store, {"kind": "drop-category", "category": 1}, {"kind": "check-video", "video": "a.mp4"},
        {"kind": "rename-category", "category": 0, "name": "red thing"},
    )  # fmt: skip
    text = printed(open_store(store.path))
    assert "reviewed: 3 edits, 1 of 2 videos checked" in text
    assert "red thing" in text
    assert "1 dropped in review" in text


def test_exports_and_tables_hold_the_reviewed_labels(make_store: MakeStore, tmp_path: Path) -> None:
    import json

    store = make_store(videos=False)
    edit(
        store,
        {"kind": "rename-category", "category": 0, "name": "<script>"},
        {"kind": "merge-tracks", "video": V, "tracks": [2, 1]},
    )
    export(open_store(store.path), "youtube-vis", tmp_path / "labels.json")
    made = json.loads((tmp_path / "labels.json").read_text())
    assert [kind["name"] for kind in made["categories"]] == ["<script>", "object-2"]
    (annotation,) = made["annotations"]
    assert annotation["instance_id"] == 2
    assert len(annotation["segmentations"]) == 24
    export(open_store(store.path), "coco", tmp_path / "coco")
    rows = json.loads((tmp_path / "coco/annotations/instances_train.json").read_text())["annotations"]
    assert {row["instance_id"] for row in rows} == {2}
    assert set(open_store(store.path).to_pandas()["instance"]) == {2}


def test_datasets_are_made_of_the_reviewed_labels(make_store: MakeStore) -> None:
    store = make_store()
    found = LabeledVideos(store.path, PrepareConfig())
    edit(store, {"kind": "rename-category", "category": 0, "name": "red"}, {"kind": "drop-category", "category": 1})
    made = LabeledVideos(store.path, PrepareConfig())
    assert [kind.name for kind in found.categories] == ["object-1", "object-2"]
    assert [kind.name for kind in made.categories] == ["red"]
    assert made.recipe != found.recipe, "prepare sees that it has to be made anew"


def test_the_report_shows_the_reviewed_labels(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    edit(
        store, {"kind": "merge-categories", "categories": [1], "into": 0},
        {"kind": "rename-category", "category": 0, "name": "square"},
        {"kind": "drop-tracks", "video": V, "tracks": [2]},
    )  # fmt: skip
    text = write_report(open_store(store.path), tmp_path / "report").read_text()
    assert "square" in text
    assert "object-1" not in text
    assert "object-2" not in text
    assert "dropped in review" in text


def test_a_long_log_is_kept_in_pages(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PAGE", 4)
    store = make_store(videos=False)
    desk = Desk(store.path)
    for turn in range(10):
        desk.edit(
            EDIT.validate_python({"kind": "rename-category", "category": 0, "name": f"name {turn}"}), desk.version
        )
    assert sorted(name for name, _ in Store(store.path).root["review"].groups()) == ["0", "1", "2"]
    assert open_store(store.path).names[0] == "name 9"
    assert len(read_log(Store(store.path).root)) == 10


@pytest.mark.parametrize(
    "damage",
    [b"{", b'{"zarr_format": 3, "node_type": "group", "attributes": {"complete": true, "entries": [{"at": 1}]}}'],
)
def test_a_log_that_cannot_be_read_is_named_and_the_automatic_labels_are_there(
    make_store: MakeStore, damage: bytes
) -> None:
    store = make_store(videos=False)
    found = open_store(store.path)[V].tracks
    edit(store, {"kind": "drop-tracks", "video": V, "tracks": [1]})
    (Path(str(store.path)) / "review/0/zarr.json").write_bytes(damage)
    with pytest.raises(ReviewError, match=r"review/0 in .* cannot be read"):
        open_store(store.path)[V].tracks  # noqa: B018
    same(open_store(store.path, reviewed=False)[V].tracks, found)
    assert any("review/0" in problem for problem in validate(store.path))


def test_a_read_only_store_says_so(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    from labeling.run import RunError

    store = make_store(videos=False)
    desk = Desk(store.path)

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(store.path))

    monkeypatch.setattr(zarr.Group, "require_group", refuse)
    with pytest.raises(RunError, match="the disk is read-only"):
        desk.edit(EDIT.validate_python({"kind": "check-video", "video": V}), desk.version)


def test_edits_of_what_was_relabeled_since_are_refused_and_old_frames_not_shown(labeled: Path) -> None:
    """With as many tracks of each category as before, the page did not notice."""
    desk = Desk(labeled / "labels.zarr", None, "")
    before, old = desk.version, desk.wanted("three.mp4")
    write_episode(labeled / "balls" / "three.mp4", record(make("nball", balls=2), 40, seed=2))
    label_folder(labeled / "balls", labeled / "labels.zarr", workers=1)
    assert desk.refresh() != before
    new = desk.wanted("three.mp4")
    assert new is not None
    assert old is not None
    assert (old.frames, new.frames) == (30, 40)
    assert new != old
