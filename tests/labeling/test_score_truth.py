"""What may be found or not, and truth in every form that is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

from labeling.export import ExportConfig, export
from labeling.importing import import_labels
from labeling.scoring import ClipScore, score
from labeling.store import Store, StoreError
from tests.labeling.conftest import build_store
from tests.labeling.scored_clips import box, only, store_with, thing, truth_beside

BALL, ROBOT = box(5, 5), box(30, 20, 40, 25)
LINK = box(34, 24, 12, 8)
LAMP = box(80, 2, speed=0)


def judged(folder: Path, found: list[np.ndarray], things: list[dict], **more: object) -> ClipScore:
    """The score of one clip."""
    store = store_with(folder / "labels.zarr", {"a.mp4": found})
    return score(store, truth_beside(folder / "truth", "a", things, **more)).clips[0]


@pytest.mark.parametrize("role", ["part", "static"])
def test_links_of_a_robot_and_goals_may_be_found_or_not(tmp_path: Path, role: str) -> None:
    things = [thing(ROBOT, "robot", group="robot"), thing(LINK, "hand", role=role, group="robot")]
    for found, aside in (([ROBOT], 0), ([ROBOT, LINK], 1)):
        clip = judged(tmp_path, found, things)
        assert (clip.figures.hota, clip.figures.precision, clip.aside) == (1, 1, aside)
    assert judged(tmp_path, [LINK], things).figures.recall == 0


def test_a_track_that_follows_an_object_more_than_a_link_is_judged(tmp_path: Path) -> None:
    larger = LINK + np.array([-1, -1, 1, 1])
    clip = judged(tmp_path, [larger], [thing(larger, "robot"), thing(LINK, "hand", role="part")])
    assert (clip.aside, clip.figures.recall) == (0, 1)


def test_what_is_all_but_hidden_may_be_found_or_not(tmp_path: Path) -> None:
    seen = [1.0] * 6 + [0.05] * 4
    for found in (BALL, only(BALL, slice(0, 6))):
        clip = judged(tmp_path, [found], [thing(BALL, visibility=seen)])
        assert (clip.figures.hota, clip.figures.recall, clip.figures.precision) == (1, 1, 1)
    elsewhere = np.concatenate([BALL[:6], BALL[6:] + np.array([0, 25, 0, 25])])
    assert judged(tmp_path, [elsewhere], [thing(BALL, visibility=seen)]).figures.precision == 0.6


def test_what_stands_still_is_imprecise_where_only_moving_things_are_listed(tmp_path: Path) -> None:
    for kind, hota in (("all-moving", 1.0), ("all", 0.5**0.5)):
        clip = judged(tmp_path, [BALL, LAMP], [thing(BALL)], kind=kind)
        assert clip.figures.hota == pytest.approx(hota)
        assert clip.figures.precision == 0.5
        assert clip.standing == (kind == "all-moving")
    clip = judged(tmp_path, [LAMP], [thing(LAMP)], kind="all-moving")
    assert (clip.standing, clip.figures.hota) == (0, 1), "it is one of the true objects"


def test_of_a_single_foreground_other_things_are_not_annotated(tmp_path: Path) -> None:
    things = [thing(ROBOT, "foreground")]
    clip = judged(tmp_path, [ROBOT, BALL], things, kind="single-foreground")
    assert (clip.figures.hota, clip.aside) == (1, 1)
    clip = judged(tmp_path, [ROBOT, LINK], things, kind="single-foreground")
    assert (clip.figures.precision, clip.aside) == (0.5, 0), "a part of it is not it"
    wide = ROBOT + np.array([-20, -20, 10, 5])
    clip = judged(tmp_path, [wide, BALL], things, kind="single-foreground")
    assert (clip.tracks, clip.aside) == (1, 1), "the track that fits best is judged, however badly it fits"
    assert clip.figures.category_ari is None


def test_a_clip_without_truth_is_said_and_not_judged(tmp_path: Path) -> None:
    folder = truth_beside(tmp_path / "truth", "a", [thing(BALL)])
    truth_beside(folder, "b", [], kind="none")
    scores = score(store_with(tmp_path / "labels.zarr", {"a.mp4": [BALL], "b.mp4": [BALL]}), folder)
    assert [clip.name for clip in scores.clips] == ["a"]
    assert scores.notes == ["1 clip (b) of the truth: said to have no true boxes, so not judged."]


def test_a_store_judged_by_itself_is_told_so(tmp_path: Path) -> None:
    store = store_with(tmp_path / "labels.zarr", {"a.mp4": [BALL]})
    assert score(store, store).notes == ["Labels and truth are the same store, so they agree in everything."]


def test_json_that_is_something_else_is_passed_over_and_broken_json_is_named(tmp_path: Path) -> None:
    folder = truth_beside(tmp_path / "truth", "a", [thing(BALL)])
    (folder / "settings.json").write_text('{"learning": 1}')
    (folder / "cut.json").write_text('{"video": "cut.mp4", "obj')
    store_with(folder / "other.zarr", {"x.mp4": [BALL]})  # thousands of zarr.json are not looked into
    scores = score(store_with(tmp_path / "labels.zarr", {"a.mp4": [BALL]}), folder)
    assert scores.mean.hota == 1
    assert list(scores.problems) == ["cut"]
    assert "cut.json cannot be read: Unterminated string" in scores.problems["cut"]


def test_clips_of_the_same_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    store = store_with(tmp_path / "labels.zarr", {"left__a.mp4": [BALL], "right__a.mp4": []})
    root = zarr.open_group(str(store.path), mode="r+")
    for name in ("left", "right"):
        root[f"videos/{name}__a.mp4"].attrs["source"] = f"{name}/a.mp4"
        truth_beside(tmp_path / "truth" / name, "a", [thing(BALL)])
    scores = score(store.path, tmp_path / "truth")
    assert {clip.name: clip.figures.recall for clip in scores.clips} == {"left/a": 1, "right/a": 0}
    truth_beside(tmp_path / "flat", "a", [thing(BALL)])
    with pytest.raises(StoreError, match=r"may be any of left/a.mp4, right/a.mp4"):
        score(store.path, tmp_path / "flat")


@pytest.mark.parametrize("given", ["nowhere", "empty"])
def test_no_truth_at_all_is_an_error(tmp_path: Path, given: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match=given):
        score(store_with(tmp_path / "labels.zarr", {"a.mp4": [BALL]}), tmp_path / given)


@pytest.fixture(scope="module")
def labeled(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with its video: two squares."""
    return build_store(tmp_path_factory.mktemp("labeled"))


@pytest.mark.parametrize("format", ["mot", "coco", "youtube-vis"])
def test_truth_of_other_tools_is_read_as_it_is_or_imported(labeled: Store, tmp_path: Path, format: str) -> None:
    made = export(labeled, format, tmp_path / ("t.json" if format == "youtube-vis" else "t"), ExportConfig()).path
    imported = import_labels(made, labeled.videos_folder, tmp_path / "truth.zarr").path
    scores = [score(labeled, truth) for truth in (made, imported, labeled)]
    for found in scores:
        assert found.mean.hota == pytest.approx(1)
        assert found.mean.edge_error == pytest.approx(0, abs=1e-3)
        assert found.mean.category_ari == 1
    assert [found.notes for found in scores[:2]] == [[], []]


def test_boxes_of_motchallenge_that_are_not_considered_may_be_found_or_not(labeled: Store, tmp_path: Path) -> None:
    export(labeled, "mot", tmp_path / "mot", ExportConfig())
    file = next((tmp_path / "mot").rglob("gt.txt"))
    rows = [line.split(",") for line in file.read_text().splitlines()]
    file.write_text("".join(",".join([*row[:6], str(int(row[1] == "1")), *row[7:]]) + "\n" for row in rows))
    clip = score(labeled, tmp_path / "mot").clips[0]
    assert (clip.objects, clip.figures.recall, clip.figures.precision) == (1, 1, 1)
    file.write_text("".join(",".join(row) + "\n" for row in rows if row[1] == "1"))
    assert score(labeled, tmp_path / "mot").clips[0].figures.precision == pytest.approx(24 / 40)


def test_boxes_reach_as_far_as_the_picture(labeled: Store, tmp_path: Path) -> None:
    export(labeled, "mot", tmp_path / "mot", ExportConfig())
    file = next((tmp_path / "mot").rglob("gt.txt"))
    first, *others = file.read_text().splitlines()
    assert first.startswith("1,1,1"), "the first square begins at the left edge"
    beyond = ",".join(["1,1,-99", first.split(",")[3], "116", *first.split(",")[5:]])
    file.write_text("\n".join([beyond, *others, "3,9,500,5,10,10,1,1,1"]) + "\n")
    clip = score(labeled, tmp_path / "mot").clips[0]
    assert (clip.objects, clip.figures.recall) == (2, 1)
    assert clip.figures.edge_error == pytest.approx(0, abs=1e-3)


def test_crowds_of_coco_may_be_found_or_not(labeled: Store, tmp_path: Path) -> None:
    made = export(labeled, "youtube-vis", tmp_path / "truth.json", ExportConfig()).path
    data = json.loads(made.read_text())
    data["annotations"][1]["iscrowd"] = 1
    made.write_text(json.dumps(data))
    assert score(labeled, made).clips[0].figures.precision == 1


@pytest.mark.parametrize(
    ("row", "fault"),
    [("1,1,x,1,9,9", "could not convert"), ("1700000000000,1,1,1,9,9", "frame 1700000000000 is no frame of a video")],
)
def test_a_fault_in_a_file_of_truth_is_named_with_its_line(
    labeled: Store, tmp_path: Path, row: str, fault: str
) -> None:
    export(labeled, "mot", tmp_path / "mot", ExportConfig())
    file = next((tmp_path / "mot").rglob("gt.txt"))
    file.write_text(f"{row}\n")
    with pytest.raises(StoreError, match=rf"gt.txt:1: {fault}"):
        score(labeled, tmp_path / "mot")
