"""What a video costs does not depend on how many others there are: a store may have a million."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from zarr.storage import LocalStore

from labeling.config import LabelConfig
from labeling.folder import Source
from labeling.locks import writing
from labeling.pipeline import label_video
from labeling.run import LabelRun, label_folder
from labeling.store import Store
from labeling.tally import tally

COPIES = 20
CALLS = ("get", "set", "set_if_not_exists", "delete", "delete_dir", "exists", "list", "list_prefix", "list_dir")

Asked = list[tuple[str, str]]  # what was asked of the store, and of which of its files


@pytest.fixture(scope="module")
def small(videos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("small") / "labels.zarr"
    assert not label_folder(videos, out, workers=1).failed
    return out


@pytest.fixture(scope="module")
def large(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same store with more videos, all like the first."""
    out = tmp_path_factory.mktemp("large") / "labels.zarr"
    shutil.copytree(small, out)
    for number in range(COPIES):
        for kind in ("stages", "videos"):
            copy = out / kind / f"copy-{number}.mp4"
            shutil.copytree(out / kind / "one.mp4", copy)
            facts = json.loads((copy / "zarr.json").read_text())
            facts["attributes"]["source"] = copy.name
            (copy / "zarr.json").write_text(json.dumps(facts))
    return out


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """All that zarr asks of files from now on."""
    seen: Asked = []

    def watch(name: str) -> None:
        method = getattr(LocalStore, name)

        def noted(self: LocalStore, *arguments: Any, **options: Any) -> Any:
            seen.append((name, str(arguments[0]) if arguments else str(options)))
            return method(self, *arguments, **options)

        monkeypatch.setattr(LocalStore, name, noted)

    for name in CALLS:
        watch(name)
    return seen


def test_labeling_a_video_asks_the_same_of_the_disk_however_many_others_there_are(
    videos: Path, small: Path, large: Path, asked: Asked
) -> None:
    def labeled_in(out: Path) -> Asked:
        asked.clear()
        with writing(out):
            store = Store(out, mode="a")
            words = store.vocabulary
            assert words is not None
            label_video(store, Source("one.mp4", "one.mp4", videos / "one.mp4"), LabelConfig(), words)
        return sorted(asked)

    few = labeled_in(small)
    assert few == labeled_in(large)
    assert len(few) > 10, "this is where zarr reads and writes"
    assert not [key for name, key in few if name.startswith("list") and key in ("", "videos", "stages")]


def test_a_run_that_closes_looks_once_at_each_video(videos: Path, small: Path, large: Path, asked: Asked) -> None:
    def closed(out: Path) -> Asked:
        with LabelRun(videos, out) as run:
            run.fit()
            asked.clear()
            run.close()
            return list(asked)

    few, many = closed(small), closed(large)
    of_one = [key for name, key in many if name == "get" and key.startswith("videos/copy-7.mp4/")]
    assert "videos/copy-7.mp4/zarr.json" in of_one
    assert len(set(of_one)) == len(of_one), f"read again: {of_one}"
    assert (len(many) - len(few)) / COPIES <= 8, "files that are asked for, of each video"


def test_a_run_that_begins_asks_for_its_own_videos_alone(videos: Path, small: Path, large: Path, asked: Asked) -> None:
    counts = []
    for out in (small, large):
        asked.clear()
        with LabelRun(videos, out) as run:
            counts.append(len(asked))
            assert not run.todo
    assert counts[0] == counts[1]


def test_a_tally_counts_what_readers_see(small: Path, large: Path) -> None:
    for out in (small, large):
        store, found = Store(out), tally(Store(out))
        assert list(found) == store.ids
        for id, figures in found.items():
            labels = store[id]
            assert (figures.source, figures.frames) == (labels.source, labels.frames)
            assert figures.kinds == tuple(labels.tracks.category.tolist())
            assert figures.dropped == len(labels.reasons)
            assert (figures.tracks, figures.categories) == (len(figures.kinds), len(set(figures.kinds)))


def test_videos_that_are_not_complete_do_not_count(large: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"
    shutil.copytree(large, out)
    Store(out, mode="a").root["videos/copy-3.mp4"].update_attributes({"complete": False})
    assert set(tally(Store(large))) - set(tally(Store(out))) == {"copy-3.mp4"}
