"""A sound store passes; damage is named, wherever it is."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

from labeling.store import Store
from labeling.validate import validate

MakeStore = Callable[..., Store]
HOME = "videos/squares.mp4"


@pytest.fixture
def store(sound_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound_store, tmp_path / "labels.zarr"))


def root_of(store: Path) -> zarr.Group:
    return zarr.open_group(str(store), mode="r+")


@pytest.mark.parametrize("options", [{}, {"masks": False}, {"shrink": 2}, {"category": (0, -1)}])
def test_a_sound_store_is_valid(make_store: MakeStore, options: dict) -> None:
    assert validate(make_store(videos=False, **options).path) == []


def set_cell(name: str, cell: object, value: object) -> Callable[[zarr.Group], None]:
    def damage(root: zarr.Group) -> None:
        root[f"{HOME}/{name}"][cell] = value

    return damage


def set_attribute(group: str, name: str, value: object) -> Callable[[zarr.Group], None]:
    def damage(root: zarr.Group) -> None:
        root[group].attrs[name] = value

    return damage


def remove(name: str) -> Callable[[zarr.Group], None]:
    def damage(root: zarr.Group) -> None:
        del root[name]

    return damage


def replace(name: str, data: np.ndarray) -> Callable[[zarr.Group], None]:
    def damage(root: zarr.Group) -> None:
        root.create_array(f"{HOME}/{name}", data=data, overwrite=True)

    return damage


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (remove(f"{HOME}/boxes"), "boxes is missing"),
        (remove(f"{HOME}/dropped"), "dropped is missing"),
        (remove(f"{HOME}/masks/offsets"), "offsets is missing"),
        (replace("score", np.zeros((24, 3), np.float32)), r"score has shape \(24, 3\), expected \(24, 2\)"),
        (replace("category", np.zeros(2, np.int64)), "category has type int64, expected int32"),
        (set_cell("score", (2, 0), np.nan), "score is not a number where there is a box .*frame 2, instance 1"),
        (set_cell("mass", (9, 1), 3), "mass has values where there is no box .*frame 9, instance 2"),
        (set_cell("boxes", (3, 0, 2), 0), "x2 is not beyond x1"),
        (set_cell("boxes", (3, 0, 3), 900), "leaves the frame of 96 x 64"),
        (set_cell("oriented", (3, 0, 3), 50), "h is larger than w"),
        (set_cell("oriented", (slice(0, 5), 0, 4), 2), "theta leaves .*5 times, first at frame 0"),
        (set_cell("score", (3, 0), 7), "score leaves 0 to 1"),
        (set_cell("instance", 0, 2), "instance 2 is there 2 times"),
        (set_cell("instance", 0, 7), "instance 7 is there 2 times"),
        (set_cell("category", 0, 9), "category 9 is not in"),
        (set_cell("prominence", 1, 0.9), "not sorted by prominence"),
        (set_cell("time", 3, 0), "time does not go forward"),
        (set_cell("masks/offsets", 4, 1), "offsets goes backwards"),
        (set_cell("masks/offsets", -1, 3), "offsets goes backwards"),
        (set_cell("masks/counts", 0, 1), "run lengths do not add up to 64 x 96"),
        (set_attribute(f"{HOME}/masks", "size", [3]), "attribute size"),
        (set_attribute(HOME, "height", "tall"), "attribute height has the value 'tall'"),
        (set_attribute(HOME, "dropped", []), "list different tracks"),
        (set_attribute(HOME, "source", "../../squares.mp4"), "source leads out of the folder"),
        (set_attribute(HOME, "source", "/etc/squares.mp4"), "source leads out of the folder"),
        (
            set_attribute(HOME, "complete", False),
            "interrupted. Run spectrabox label again",
        ),
        (set_attribute("/", "schema", 99), "schema 99"),
        (set_attribute("/", "profile", None), "attribute profile is missing"),
        (
            set_attribute("/", "categories", [{"id": 0, "name": "a", "colour": "#fff;}", "size": 1, "kept": True}]),
            "category 0 has the colour '#fff;}', which is none",
        ),
        (remove("vocabulary/radius"), "vocabulary: radius is missing"),
    ],
)
def test_damage_is_named(store: Path, damage: Callable[[zarr.Group], None], words: str) -> None:
    damage(root_of(store))
    found = validate(store)
    assert any(re.search(words, problem) for problem in found), found


@pytest.mark.parametrize("name", ["boxes", "instance", "masks/counts", "masks/offsets", "dropped/score"])
def test_broken_bytes_are_named_not_raised(store: Path, name: str) -> None:
    chunk = next(path for path in (store / HOME / name / "c").rglob("*") if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[:7])
    found = validate(store)
    assert any(name.split("/")[-1] in problem and "cannot be read" in problem for problem in found), found


@pytest.mark.parametrize("where", [HOME, f"{HOME}/boxes", f"{HOME}/masks", f"{HOME}/dropped", "vocabulary"])
def test_broken_metadata_is_named_not_raised(store: Path, where: str) -> None:
    (store / where / "zarr.json").write_text('{"zarr_format": 3, ')
    found = validate(store)
    assert any(where.split("/")[-1] in problem and "cannot be opened" in problem for problem in found), found


def test_what_is_no_store_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "note.txt", tmp_path / "nowhere"):
        (problem,) = validate(path)
        assert "is not a label store" in problem
