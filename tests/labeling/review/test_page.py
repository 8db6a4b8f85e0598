"""The review page as people use it: the real command, a real browser, real clicks and keys."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import zarr

from labeling import open_store
from labeling.review.desk import Desk
from labeling.store import Store, write_tracks
from labeling.tracks import Tracks
from tests.conftest import Command
from tests.labeling.conftest import FRAMES, HEIGHT, WIDTH, build_store
from tests.layout import faint, faults, looks

pytestmark = pytest.mark.slow
V = "squares.mp4"
NASTY = "<script>document.title='owned'</script>"
PATIENCE = 20_000  # milliseconds for things to appear
# Where red pixels begin in the picture that is drawn, in pixels of the video: the red square moves two a frame.
RED = """() => {
  const canvas = document.getElementById("canvas"), { width, height } = canvas;
  const scale = Math.min(width / 96, height / 64), [x, y] = [(width - 96 * scale) / 2, (height - 64 * scale) / 2];
  const row = canvas.getContext("2d").getImageData(0, Math.round(y + 20 * scale), width, 1).data;
  for (let at = 0; at < width; at += 1)
    if (row[4 * at] > 150 && row[4 * at + 1] < 110 && row[4 * at + 2] < 110) return (at - x) / scale;
}"""


@contextmanager
def served(store: Path, *options: str) -> Iterator[str]:
    """The address of the review page of a store."""
    command = [sys.executable, "-m", "flows.cli", "review", str(store), "--no-open", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            said = ""
            while not (found := re.search(r"http://127\.0\.0\.1:\d+/", said)):
                line = process.stdout.readline()
                assert line, said
                said += line
            yield found[0]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("review")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """The page of a store with two videos."""
    store = build_store(folder, V, "z <b>.mp4")
    with served(Path(str(store.path)), "--author", "Ada") as address:
        yield address


@pytest.fixture
def address(server: str, folder: Path) -> str:
    """The same, with nothing edited."""
    desk = Desk(folder / "labels.zarr")
    while desk.log.done:
        desk.undo(desk.version)
    return server


def ready(page: Any) -> None:
    page.wait_for_selector("body[data-ready=yes]", timeout=PATIENCE)
    page.wait_for_selector("#canvas[data-frame]", timeout=PATIENCE)


def at_frame(page: Any, frame: int) -> None:
    page.wait_for_selector(f'#canvas[data-frame="{frame}"]', timeout=PATIENCE)


def said(page: Any, text: str) -> None:
    page.locator("#toasts").get_by_text(text).wait_for(timeout=PATIENCE)


def listed(page: Any) -> list[str]:
    return [text.replace("\n", " ") for text in page.locator("#tracks .row").all_inner_texts()]


def shows(page: Any, *rows: str) -> None:
    """Wait until the list of tracks is this one."""
    for _ in range(PATIENCE // 50):
        if listed(page) == list(rows):
            return
        page.wait_for_timeout(50)
    assert listed(page) == list(rows)


def test_a_review_from_opening_to_export(opened: Callable, tmp_path: Path, spectrabox: Command) -> None:
    store = Path(str(build_store(tmp_path, V).path))
    with served(store, "--author", "Ada") as address:
        page = opened(address)
        ready(page)
        shows(page, "1 object-1", "2 object-2")
        page.keyboard.press("Space")  # it plays to its end
        at_frame(page, FRAMES - 1)
        page.wait_for_selector("#play[aria-label=Play]", timeout=PATIENCE)
        page.keyboard.press("Home")
        for frame in (1, 2, 3):
            page.keyboard.press("ArrowRight")
            at_frame(page, frame)
        assert page.evaluate(RED) == pytest.approx(6, abs=1), "box and frame are of the same moment"
        page.fill("#frame", "10")
        page.keyboard.press("Enter")
        at_frame(page, 10)
        assert page.get_attribute("#canvas", "data-boxes") == "1", "the second square is away"

        page.get_by_role("button", name="Drop object-2").click()
        said(page, "Object-2 dropped.")
        shows(page, "1 object-1")
        page.keyboard.press("Control+z")
        said(page, "Undone: object-2 dropped.")
        shows(page, "1 object-1", "2 object-2")

        page.locator("#tracks .who").nth(0).click()
        page.locator("#tracks .who").nth(1).click(modifiers=["Control"])
        page.keyboard.press("m")
        said(page, "Squares.mp4: track 2 merged into 1.")
        shows(page, "1 object-1")

        page.get_by_role("button", name="Rename object-1").click()
        page.get_by_label("Name", exact=True).fill(NASTY)
        page.keyboard.press("Enter")
        said(page, "category 1 renamed to")
        shows(page, f"1 {NASTY}")
        page.keyboard.press("Control+z")
        said(page, "Undone")
        shows(page, "1 object-1")
        page.keyboard.press("Control+Shift+z")
        said(page, "Done again")
        page.keyboard.press("v")
        page.wait_for_selector("#check[aria-pressed=true]", timeout=PATIENCE)

        page.reload()
        ready(page)
        shows(page, f"1 {NASTY}")
        assert page.locator("#check-text").inner_text() == "Checked"
        assert page.title() == "videos · Spectrabox review"
        assert page.locator("#log li").count() == 3
        assert "Ada" in page.locator("#log").inner_text()
        assert page.locator("script").count() == 1
        assert page.trouble == []
    done = spectrabox("export", store, "--format", "youtube-vis", "--out", tmp_path / "labels.json")
    assert done.returncode == 0, done.stderr
    made = json.loads((tmp_path / "labels.json").read_text())
    assert [kind["name"] for kind in made["categories"]] == [NASTY, "object-2"]
    assert [row["instance_id"] for row in made["annotations"]] == [1]
    assert len(open_store(store, reviewed=False)[V].tracks) == 2


def test_tracks_are_split_swapped_assigned_dropped_and_brought_back_by_keys(opened: Callable, address: str) -> None:
    page = opened(address)
    ready(page)

    def do(key: str, text: str) -> list[str]:
        page.keyboard.press(key)
        said(page, text)
        return listed(page)

    page.keyboard.press("ArrowDown")  # selects the first track
    page.keyboard.press("s")
    said(page, "there is nothing before the first.")
    page.fill("#frame", "18")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    at_frame(page, 18)
    assert do("s", "split at frame 18") == ["1 object-1", "8 object-1", "2 object-2"]
    assert page.locator('#tracks [aria-selected="true"]').count() == 1
    page.keyboard.press("a")  # what is in view: the second half, and the other square
    assert page.locator("#actions strong").inner_text() == "Tracks 8, 2"
    assert "swapped from frame 18" in (do("w", "swapped from frame 18 on") and page.locator("#log").inner_text())
    page.keyboard.press("c")
    page.locator("dialog").get_by_text("object-2").click()
    page.keyboard.press("Enter")
    said(page, "put into object-2")
    assert do("d", "dropped") == ["1 object-1"]
    page.keyboard.press("h")
    assert len(listed(page)) == 4, "with those that were dropped"
    page.locator("#tracks .row.dropped", has_text="7").locator(".who").click()
    assert "7 unassigned" in " ".join(do("b", "track 7 brought back"))
    for _ in range(5):
        page.keyboard.press("u")
    page.wait_for_selector("#undo:disabled", timeout=PATIENCE)
    page.keyboard.press("h")
    shows(page, "1 object-1", "2 object-2")
    page.keyboard.press("?")
    assert page.get_by_role("dialog").get_by_text("swap two tracks from this frame on").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("object-2")
    shows(page, "2 object-2")
    assert page.trouble == []


def test_two_tabs_hear_of_each_other_and_nothing_is_overwritten_unseen(opened: Callable, address: str) -> None:
    one, other = opened(address), opened(address)
    ready(one)
    ready(other)
    one.route("**/api/version", lambda route: route.abort())  # it has not looked again yet
    with other.expect_response("**/api/edit"):
        other.get_by_role("button", name="Drop object-2").click()
    one.get_by_role("button", name="Drop object-1").click()
    said(one, "The review was changed elsewhere since: object-2 dropped by Ada. Look again.")
    shows(one, "1 object-1")  # it shows what is there now
    one.get_by_role("button", name="Do it anyway").click()
    said(one, "Object-1 dropped.")
    shows(one)
    said(other, "The review was changed elsewhere.")


def test_the_page_is_whole_and_readable_on_phones_and_desktops_by_day_and_night(opened: Callable, address: str) -> None:
    page = opened(address)
    ready(page)
    page.keyboard.press("h")
    page.keyboard.press("a")
    for look in looks(page, (390, 900, 1280)):
        assert faults(page) + faint(page, ignore=":disabled, .who, #toasts") == [], look
    assert (
        page.locator("button:not([aria-label]):empty, img:not([alt]), input:not([aria-label]):not([id])").count() == 0
    )
    page.keyboard.press("?")
    for look in looks(page):
        assert faults(page, ignore="main, header, .toasts") == [], look
    assert page.trouble == []


def test_everything_can_be_reached_by_the_tab_key_and_focus_is_seen(opened: Callable, address: str) -> None:
    page = opened(address)
    ready(page)
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('aria-label')"))
        if reached[-1] is not None:
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", reached[-1]
    for control in ("videos", "play", "scrub", "check", "search", "tracks", "Rename object-1", "Drop object-2"):
        assert control in reached, reached
    page.focus("#videos")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_selector("#videos [aria-selected=true] >> text=z <b>.mp4", timeout=PATIENCE)
    assert page.locator("#videos b").count() == 0, "names of files are text"


def test_who_lets_others_in_is_warned_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    store = build_store(tmp_path, V, videos=False)
    command = [sys.executable, "-m", "flows.cli", "review", str(store.path), "--no-open", "--port", "0"]
    with subprocess.Popen(
        [*command, "--host", "0.0.0.0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert "can see these videos and change their labels" in "".join(lines)
    assert re.search(r"Review: http://127\.0\.0\.1:\d+/", "".join(lines))
    assert "Traceback" not in rest
    assert process.returncode == 130


def crowd(folder: Path, count: int) -> Store:
    """A store with one video and thousands of tracks."""
    store = build_store(folder, V, masks=False)
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, [WIDTH - 9, HEIGHT - 9], (1, count, 2)) + np.zeros((FRAMES, 1, 1))
    boxes = np.concatenate([corner, corner + 8], axis=2).astype(np.float32)
    begin = rng.integers(0, FRAMES - 4, count)
    boxes[(np.arange(FRAMES)[:, None] < begin) | (np.arange(FRAMES)[:, None] > begin + 8)] = np.nan
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2
    oriented = np.concatenate([centre, boxes[..., 2:] - boxes[..., :2], 0 * boxes[..., :1]], axis=2)
    tracks = Tracks(
        np.arange(FRAMES) / 12, boxes, oriented, centre, 0 * boxes[..., 0] + 1, np.arange(count, dtype=np.int32) % 2,
        np.arange(count, dtype=np.int32), np.linspace(1, 0, count, dtype=np.float32),
    )  # fmt: skip
    root = zarr.open_group(str(store.path), mode="r+")
    write_tracks(root[f"videos/{V}"], tracks)
    del root[f"videos/{V}/dropped"]
    root[f"videos/{V}"].attrs["dropped"] = []
    return Store(store.path)


# How long each step of a scroll through the whole list takes, in milliseconds, and how many rows there ever were.
SCROLL = """async () => {
  const list = document.getElementById("tracks"), took = [];
  let rows = 0;
  for (let step = 1; step <= 40; step += 1) {
    const begin = performance.now();
    list.scrollTop = (step / 40) * list.scrollHeight;
    await new Promise((seen) => requestAnimationFrame(() => setTimeout(seen)));
    took.push(performance.now() - begin);
    rows = Math.max(rows, list.querySelectorAll("*").length);
  }
  return { took, rows, last: list.querySelector(".row:last-child .id").textContent };
}"""
SCRUB = """async () => {
  const scrub = document.getElementById("scrub"), canvas = document.getElementById("canvas"), took = [];
  for (const frame of [12, 3, 20, 8, 15, 6, 18, 10]) {
    const begin = performance.now();
    scrub.value = frame;
    scrub.dispatchEvent(new Event("input"));
    while (canvas.dataset.frame !== String(frame)) await new Promise((seen) => setTimeout(seen, 2));
    took.push(performance.now() - begin);
  }
  return took;
}"""


@pytest.mark.alone
def test_thousands_of_tracks_stay_fluid(opened: Callable, tmp_path: Path) -> None:
    store = crowd(tmp_path, 4000)
    with served(Path(str(store.path))) as address:
        page = opened(address)
        ready(page)
        assert page.locator("#shown-count").inner_text() == "4,000 tracks"
        found = page.evaluate(SCROLL)
        assert found["last"] == "3999"
        assert found["rows"] < 300, "rows that cannot be seen are not in the page"
        assert median(found["took"]) < 60, found["took"]
        assert median(page.evaluate(SCRUB)) < 400
        with page.expect_response("**/api/edit") as answer:
            page.locator("#tracks .who").first.click()
            page.keyboard.press("d")
        assert answer.value.ok
        said(page, "dropped")
        assert page.trouble == []
