"""Categories that are found anew: what persists is called what it was called, and no id ever means something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

from labeling import open_store, stored_vocabulary
from labeling.config import load_config
from labeling.run import label_folder
from labeling.store import Store
from labeling.stored_vocabulary import NEXT, finish_vocabulary, read_vocabulary, write_vocabulary
from labeling.validate import validate
from labeling.vocabulary import Vocabulary
from tests.labeling.coloured_clips import clip
from tests.labeling.review.editing import edit
from tests.labeling.test_run import contents


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two kinds of things, one of them twice as often."""
    clip(tmp_path / "videos" / "red.mp4", "red", discs=2)
    clip(tmp_path / "videos" / "blue.mp4", "blue")
    return tmp_path / "videos"


def kinds(store: Store) -> dict[str, list[int]]:
    """The categories of each video's tracks."""
    return {labels.source: sorted(set(labels.tracks.category.tolist())) for labels in store.values()}


def change_table(store: Path, id: int, **values: object) -> None:
    """As whoever looks after the store may do."""
    root = zarr.open_group(str(store), mode="r+")
    root.attrs["categories"] = [row | values if row["id"] == id else row for row in root.attrs["categories"]]


@pytest.mark.slow
def test_ids_names_colours_and_what_is_not_wanted_persist(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"
    assert label_folder(folder, out).pile(least=1) == ""
    assert kinds(open_store(out)) == {"red.mp4": [0], "blue.mp4": [1]}
    change_table(out, 0, name="ripe")
    change_table(out, 1, colour="#0000ff", kept=False)
    edit(open_store(out), {"kind": "rename-category", "category": 1, "name": "by a reviewer"})
    for number in range(3):
        clip(folder / f"green{number}.mp4", "green", discs=2, start=12 + 3 * number)
    summary = label_folder(folder, out)
    assert (summary.unassigned, summary.tracks) == (6, 9)
    assert summary.pile() == "", "six are not many"
    assert summary.pile(least=6).startswith("6 of 9 tracks fit no category")
    assert "--refit" in summary.pile(least=6)
    assert summary.pile(least=6, share=0.8) == ""
    refitted = label_folder(folder, out, refit=True)
    assert ", 1 new" in refitted.note
    assert refitted.unassigned == 0
    store = open_store(out)
    assert kinds(store) == {"red.mp4": [0], "blue.mp4": [1], **{f"green{n}.mp4": [2] for n in range(3)}}
    automatic = open_store(out, reviewed=False).categories
    assert [(row.name, row.size, row.kept) for row in automatic] == [
        ("ripe", 2, True), ("object-2", 1, False), ("object-3", 6, True),
    ]  # fmt: skip
    assert automatic[1].colour == "#0000ff"
    assert [row.name for row in store.categories] == ["ripe", "by a reviewer", "object-3"]
    label_folder(folder, out, refit=True)
    assert [row.name for row in open_store(out).categories] == ["ripe", "by a reviewer", "object-3"], "and once more"
    assert validate(out) == []


@pytest.mark.slow
def test_a_category_that_is_gone_leaves_its_id_to_nobody(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"
    label_folder(folder, out)
    change_table(out, 1, name="sky")
    (folder / "blue.mp4").unlink()
    assert label_folder(folder, out, prune=True).pruned == ["blue.mp4"]
    assert ", 1 gone" in label_folder(folder, out, refit=True).note
    assert [(row.name, row.size) for row in open_store(out).categories] == [("object-1", 2), ("sky", 0)]
    clip(folder / "green.mp4", "green", discs=2)
    label_folder(folder, out, refit=True)
    assert kinds(open_store(out)) == {"red.mp4": [0], "green.mp4": [2]}
    clip(folder / "blue.mp4", "blue")
    label_folder(folder, out, refit=True)
    assert kinds(open_store(out)) == {"red.mp4": [0], "green.mp4": [2], "blue.mp4": [1]}
    assert [row.name for row in open_store(out).categories] == ["object-1", "sky", "object-3"]
    assert validate(out) == []


def test_other_settings_without_refit_give_the_store_that_they_always_give(folder: Path, tmp_path: Path) -> None:
    out, config = tmp_path / "labels.zarr", load_config(settings=["vocabulary.min_cluster_size=5"])
    label_folder(folder, out)
    change_table(out, 0, name="of other settings")
    label_folder(folder, out, config)
    label_folder(folder, tmp_path / "fresh.zarr", config)
    assert contents(out) == contents(tmp_path / "fresh.zarr")


class Killed(BaseException):
    """In the place of a signal that nothing can catch."""


def killed_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Have writing a vocabulary end after so many arrays and attributes; returns how many there were."""
    done = 0

    def counted(write: Callable[..., None]) -> Callable[..., None]:
        def one(*arguments: object, **options: object) -> None:
            nonlocal done
            if done == steps:
                raise Killed
            done += 1
            write(*arguments, **options)

        return one

    monkeypatch.setattr(stored_vocabulary, "write_array", counted(stored_vocabulary.write_array))
    monkeypatch.setattr(zarr.Group, "update_attributes", counted(zarr.Group.update_attributes))
    return lambda: done


def words(kinds: int) -> Vocabulary:
    some = np.eye(kinds, dtype=np.float32)
    return Vocabulary(some, np.full(kinds, 0.1, np.float32), np.arange(kinds), some[0], some, f"{kinds} categories")


def test_a_kill_at_any_step_leaves_the_old_ids_or_the_new_ones(tmp_path: Path) -> None:
    seen, steps = set(), 0
    while True:
        root = zarr.open_group(str(tmp_path / f"{steps}.zarr"), mode="w", zarr_format=3)
        write_vocabulary(root, words(2), "old")
        with pytest.MonkeyPatch.context() as patch:
            done = killed_after(steps, patch)
            try:
                write_vocabulary(root, words(3), "new")
            except Killed:
                assert done() == steps
            else:
                break
        finish_vocabulary(root)
        found = read_vocabulary(root)
        assert found is not None
        assert root["vocabulary"].attrs["recipe"] == {2: "old", 3: "new"}[len(found.prototypes)]
        assert found.note == f"{len(found.prototypes)} categories"
        assert NEXT not in root
        seen.add(len(found.prototypes))
        steps += 1
    assert steps > 10, "it was killed at every step"
    assert seen == {2, 3}
