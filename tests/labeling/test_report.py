"""The report, opened in a real browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

from labeling.report import stills, write_report
from labeling.report.charts import BARS, lane, ticks
from labeling.report.views import strip_frames
from labeling.store import Store, StoreError
from labeling.tracks import Tracks
from labeling.video import VideoError
from tests.layout import WIDTHS, faint, faults, looks, on_paper

MakeStore = Callable[..., Store]
NASTY = "odd/<script>document.title='owned'<_script> & \"quotes\" ünï.mp4"


def test_the_page_needs_nothing_else_and_shows_names_as_text(make_store: MakeStore, opened, tmp_path: Path) -> None:
    store = make_store("squares.mp4", NASTY, failures={"<b>bad</b>.mp4": "<i>empty</i>. Copy it again."})
    page = opened(write_report(store, tmp_path / "report"))
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["index.html"]
    assert page.trouble == []
    assert page.title() == "videos · Spectrabox report"
    assert sorted(page.locator("details.video h3").all_inner_texts()) == sorted(["squares.mp4", NASTY])
    assert page.locator(".failures").inner_text() == "<b>bad</b>.mp4\n<i>empty</i>. Copy it again."
    assert page.locator("script").count() == 1


def test_whatever_a_store_says_stays_text(make_store: MakeStore, opened, tmp_path: Path) -> None:
    store = make_store(videos=False)
    root = zarr.open_group(str(store.path), mode="r+")
    names = ["</style><script>document.title='owned'</script>", "\" onmouseover=\"document.title='owned'"]
    categories = [row | {"name": name} for row, name in zip(root.attrs["categories"], names, strict=True)]
    root.attrs.update({"categories": categories, "videos": "/<em>clips", "created_by": "<u>me</u>", "recipe": "<dfn>"})
    drop = root["videos/squares.mp4"].attrs["dropped"][0] | {"reason": "<s>static</s>", "detail": "<img src=x>"}
    root["videos/squares.mp4"].attrs["dropped"] = [drop]
    page = opened(write_report(Store(store.path), tmp_path / "report"))
    assert page.trouble == []
    assert page.title() == "<em>clips · Spectrabox report"
    assert page.locator(".kind h3").all_inner_texts() == names
    assert page.locator("script").count() == 1
    assert page.locator("em, u, dfn, s, img, [onmouseover]").count() == 0
    for text in ("<em>clips", "<u>me</u>", "<dfn>", "<s>static</s>", "<img src=x>"):
        assert text in page.locator("body").text_content()


def test_a_colour_that_is_none_is_refused(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store(videos=False)
    categories = [row | {"colour": "#fff000;background:url(//else.where)"} for row in store.root.attrs["categories"]]
    zarr.open_group(str(store.path), mode="r+").attrs["categories"] = categories
    with pytest.raises(StoreError, match="category 0 has the colour '#fff000;background"):
        write_report(Store(store.path), tmp_path / "report")


def test_frames_timelines_crops_scatter_and_drops_are_there(make_store: MakeStore, opened, tmp_path: Path) -> None:
    page = opened(write_report(make_store(), tmp_path))
    assert page.locator(".figures").inner_text().split() == [
        "videos", "1", "frames", "24", "tracks", "2", "categories", "2", "dropped", "1", "failed", "0",
    ]  # fmt: skip
    assert page.locator(".strip img").count() == 6
    assert page.locator(".crops img").count() == 2
    for picture in page.locator("img").all():
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("it => it.decode().then(() => it.naturalWidth)") > 0
        assert picture.get_attribute("alt")
    assert page.locator(".lane svg rect").count() == 3, "the second square is away once"
    assert page.locator(".plot g circle").count() == 20
    assert "stays within 0.4 pixels" in page.locator(".drops").text_content()
    assert "never moves" in page.locator(".reasons").inner_text()
    frame, box = page.locator(".frame").first.bounding_box(), page.locator(".box").last.bounding_box()
    assert box["width"] / frame["width"] == pytest.approx(16 / 96, abs=0.02)


def test_nothing_is_cut_covered_or_faint(make_store: MakeStore, opened, tmp_path: Path) -> None:
    store = make_store(NASTY, "a" * 90 + ".mp4", failures={"b" * 90 + ".mp4": "is empty. Copy it again."})
    page = opened(write_report(store, tmp_path))
    for fold in page.locator(".drops summary").all():
        fold.click()
    for look in looks(page, (320, *WIDTHS)):
        assert faults(page, ignore=".frame") + faint(page) == [], look
        assert _paper_is_light(page) == ("light" in look)


def test_on_paper_it_is_dark_on_white_with_every_video_open(make_store: MakeStore, opened, tmp_path: Path) -> None:
    names = [f"clip{number}.mp4" for number in range(8)]
    page = opened(write_report(make_store(*names), tmp_path / "report"))
    page.emulate_media(color_scheme="dark")
    on_paper(page)
    assert faults(page, ignore=".frame") + faint(page) == []
    assert _paper_is_light(page)
    assert page.locator("details.video[open]").count() == 8
    assert not page.get_by_placeholder("Filter by name").is_visible()


def test_videos_can_be_filtered_and_links_open_them(make_store: MakeStore, opened, tmp_path: Path) -> None:
    names = [f"clip{number}.mp4" for number in range(8)]
    page = opened(write_report(make_store(*names), tmp_path))
    assert page.locator("details.video[open]").count() == 6
    page.get_by_placeholder("Filter by name").fill("CLIP7")
    assert page.locator("details.video:visible h3").all_inner_texts() == ["clip7.mp4"]
    page.locator(".crops a[href='#video-clip7.mp4']").first.click()
    assert page.locator("details.video[id='video-clip7.mp4']").evaluate("it => it.open")


def test_without_the_videos_there_is_a_report_that_says_so(make_store: MakeStore, opened, tmp_path: Path) -> None:
    page = opened(write_report(make_store(videos=False), tmp_path / "report"))
    assert page.locator("img").count() == 0
    assert "has no pictures" in page.locator(".notice").inner_text()
    assert page.locator(".lane svg rect").count() == 3


def test_a_store_cannot_lead_out_of_the_folder(misled_store: tuple[Store, str], tmp_path: Path) -> None:
    store, source = misled_store
    with pytest.raises(VideoError, match=rf"{source} leads out of .*videos"):
        write_report(store, tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_store_without_a_labeled_video_has_no_report(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store(category=(-1, -1), videos=False)
    shutil.rmtree(store.path / "videos" / "squares.mp4")
    with pytest.raises(StoreError, match="no labeled video yet"):
        write_report(Store(store.path), tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_store_of_failures_alone_has_a_report(make_store: MakeStore, opened, tmp_path: Path) -> None:
    store = make_store(category=(-1, -1), videos=False, failures={"bad.mp4": "is empty"})
    shutil.rmtree(store.path / "videos" / "squares.mp4")
    page = opened(write_report(Store(store.path), tmp_path / "report"))
    assert page.trouble == []
    assert "No video was labeled" in page.locator("#videos").inner_text()


def test_large_strips_lose_frames_and_say_so(make_store: MakeStore, opened, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(stills, "MOST_BYTES", 1000)
    page = opened(write_report(make_store(), tmp_path))
    assert 0 <= page.locator(".strip img").count() < 6
    assert "left out" in page.locator("body").inner_text().lower()


def test_strip_frames_are_spread_and_show_objects() -> None:
    present = np.zeros((60, 2), bool)
    present[34:36] = True
    frames = strip_frames(present)
    assert frames == sorted(frames)
    assert frames[3] in (34, 35)
    assert strip_frames(present[:3]) == [0, 1, 2]


def test_a_flickering_track_has_few_bars() -> None:
    frames = 2000
    boxes = np.tile(np.array([0, 0, 5, 5], np.float32), (frames, 1, 1))
    boxes[::2] = np.nan
    blank = [np.zeros((frames, 1, size), np.float32) for size in (5, 2)]
    one = np.zeros(1, np.int32)
    tracks = Tracks(np.arange(frames) / 25, boxes, *blank, boxes[..., 0], one, one, one.astype(np.float32))
    found = lane(tracks, 0, frames / 25, 25)
    assert len(found.bars) == BARS
    assert found.share == 0.5


@pytest.mark.parametrize(
    ("seconds", "labels"), [(0.04, ["0 s"]), (5, ["0 s", "1 s"]), (7200, ["0:00 min", "20:00 min"])]
)
def test_times_on_the_axis_are_round(seconds: float, labels: list[str]) -> None:
    found = ticks(seconds)
    assert [text for _, text in found][: len(labels)] == labels
    assert 1 <= len(found) <= 7


def _paper_is_light(page) -> bool:
    paper, ink = page.evaluate(
        "(({backgroundColor, color}) => [backgroundColor, color])(getComputedStyle(document.body))"
    )
    return sum(_numbers(paper)) > sum(_numbers(ink))


def _numbers(colour: str) -> list[int]:
    return json.loads("[" + colour.removeprefix("rgb(").removesuffix(")") + "]")


@pytest.mark.parametrize("damage", [{"backends": ["x"]}, {"weights": ["x"]}, {"weights": "x"}])
def test_facts_that_cannot_be_true_are_named(
    make_store: Callable[..., Store], tmp_path: Path, damage: dict[str, object]
) -> None:
    store = make_store()
    zarr.open_group(str(store.path)).attrs.update(damage)
    with pytest.raises(StoreError, match=f"the attribute {next(iter(damage))} is"):
        write_report(Store(store.path), tmp_path / "report")
