"""The page of a score, opened in a real browser."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from labeling.scoring import score
from labeling.scoring.page import write_score
from labeling.store import Store, StoreError
from labeling.video import VideoError
from tests.labeling.conftest import build_store
from tests.labeling.scored_clips import box, store_with
from tests.layout import WIDTHS, faint, faults, looks, on_paper

NASTY = "<script>document.title='owned'<_script> & \"quotes\".mp4"


@pytest.fixture
def labeled(tmp_path: Path) -> Store:
    """A store with two videos of two squares, one of which has a nasty name."""
    return build_store(tmp_path, "squares.mp4", NASTY)


def truth_of(store: Store, path: Path, kind: str = "square") -> Store:
    """The same labels, but for the first square, which is 4 pixels higher, and the second, which never goes away."""
    shutil.copytree(str(store.path), path)
    root = zarr.open_group(str(path), mode="r+")
    for id in store:
        boxes = root[f"videos/{id}/boxes"]
        moved = np.asarray(boxes[...])
        moved[:, 0, [1, 3]] -= 4
        moved[8:16, 1] = np.array([20, 40, 36, 56])
        boxes[...] = moved
    root.attrs["categories"] = [row | {"name": kind} for row in root.attrs["categories"]]
    return Store(path)


def test_the_page_shows_both_boxes_and_needs_nothing_else(labeled: Store, opened, tmp_path: Path) -> None:
    page = opened(write_score(score(labeled, truth_of(labeled, tmp_path / "truth.zarr")), tmp_path / "out"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["index.html", "score.json"]
    assert page.title() == "labels.zarr · Spectrabox score"
    assert sorted(page.locator("details.video h3").all_inner_texts()) == sorted(["squares.mp4", NASTY])
    clip = page.locator("[id='video-squares.mp4']")
    assert clip.locator("img").count() == 3
    for picture in clip.locator("img").all():
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("it => it.decode().then(() => it.naturalWidth)") == 96
    assert clip.locator("img").first.get_attribute("alt") == "Frame 8 of squares.mp4: 1 found, 1 missed"
    frame = clip.locator("figure").first
    assert "1 found, 1 missed" in frame.inner_text()
    whole = frame.locator(".frame").bounding_box()
    for fate, top in (("true", 4), ("found", 8)):
        shown = frame.locator(f".box.{fate}").bounding_box()
        assert (shown["y"] - whole["y"]) / whole["height"] == pytest.approx(top / 64, abs=0.01)
        assert shown["width"] / whole["width"] == pytest.approx(16 / 96, abs=0.01)
    assert page.locator(".key li").count() == 5
    assert page.trouble == []


def test_nothing_is_cut_or_faint_on_a_phone_a_desktop_or_paper(opened, tmp_path: Path) -> None:
    store = build_store(tmp_path, "second camera, door half open.mp4", "a" * 90 + ".mp4")
    page = opened(write_score(score(store, truth_of(store, tmp_path / "truth.zarr")), tmp_path / "out"))
    page.locator(".drops summary").click()
    for look in looks(page, (320, *WIDTHS)):
        assert faults(page, ".frame") + faint(page, ".frame") == [], look
    on_paper(page)
    assert faults(page, ".frame") + faint(page, ".frame") == []
    assert page.locator("details.video[open]").count() == 2


def test_names_stay_text_whoever_wrote_them(labeled: Store, opened, tmp_path: Path) -> None:
    truth = truth_of(labeled, tmp_path / "truth.zarr", kind="<img src=x onerror=\"document.title='owned'\">")
    scores = score(labeled, truth)
    scores.problems["<b>clip</b>"] = "<i>broken</i>"
    scores.notes.append("<u>note</u>")
    page = opened(write_score(scores, tmp_path / "out"))
    assert page.trouble == []
    assert page.title() == "labels.zarr · Spectrabox score"
    assert page.locator("script").count() == 1
    assert page.locator("main img[src=x], main u, main i:not(.box), .failures b").count() == 0
    assert page.locator(".failures").inner_text() == "<b>clip</b>\n<i>broken</i>"
    assert page.locator(".notice").inner_text() == "<u>note</u>"
    assert "<img src=x onerror" in page.locator(".frame .box.true").first.get_attribute("title")


def test_without_the_videos_boxes_are_shown_on_empty_frames(opened, tmp_path: Path) -> None:
    store = store_with(tmp_path / "labels.zarr", {"a.mp4": [box(5)]})
    truth = store_with(tmp_path / "truth.zarr", {"a.mp4": [box(5), box(40)], "b.mp4": [box(5)]})
    page = opened(write_score(score(store, truth), tmp_path / "out"))
    assert page.locator("img").count() == 0
    assert "is not there any more" in page.locator("details.video").inner_text()
    assert page.locator(".box.missed").first.is_visible()
    assert page.locator(".scores em").all_inner_texts() == ["missing"]
    assert page.locator("details.video").count() == 1


def test_a_perfect_score_has_no_worst_frame(opened, tmp_path: Path) -> None:
    store = store_with(tmp_path / "labels.zarr", {"a.mp4": [box(5)]})
    page = opened(write_score(score(store, store), tmp_path / "out"))
    assert page.locator("details.video").count() == 0
    assert "There is no frame" in page.locator("#worst").inner_text()
    assert page.locator(".figures dd").all_inner_texts() == ["1.00"] * 6


def test_the_json_says_the_same_as_the_score(tmp_path: Path) -> None:
    store = store_with(tmp_path / "labels.zarr", {"a.mp4": [box(5)]})
    scores = score(store, store_with(tmp_path / "truth.zarr", {"a.mp4": [box(5), box(40)], "b.mp4": [box(5)]}))
    write_score(scores, tmp_path / "out")
    data = json.loads((tmp_path / "out" / "score.json").read_text())
    assert data["mean"] == scores.mean.values()
    assert [(clip["name"], clip["video"]) for clip in data["clips"]] == [("a.mp4", "a.mp4"), ("b.mp4", None)]
    assert data["clips"][0]["figures"]["recall"] == 0.5
    assert data["clips"][1]["figures"]["precision"] is None
    assert data["notes"] == scores.notes


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    store = store_with(tmp_path / "labels.zarr", {"a.mp4": [box(5)]})
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StoreError, match=r"score.json cannot be written"):
        write_score(score(store, store), tmp_path / "out")


def test_a_store_cannot_lead_out_of_the_folder(misled_store: tuple[Store, str], tmp_path: Path) -> None:
    store, source = misled_store
    truth = truth_of(store, tmp_path / "truth.zarr")
    with pytest.raises(VideoError, match=rf"{source} leads out of .*videos"):
        write_score(score(store, truth), tmp_path / "out")
    assert not (tmp_path / "out").exists()
