"""A video plays as it was filmed, also the first time after a cold start: the real command, a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.conftest import Command
from tests.labeling.review.test_page import PATIENCE, ready, served

pytestmark = pytest.mark.slow
FRAMES, RATE, WIDTH, HEIGHT = 150, 30, 854, 480
SECONDS = (FRAMES - 1) / RATE
# From a click on Play to the end: when each frame was seen, in seconds, and how often the page had time to draw.
PLAY = """() => new Promise((ended) => {
  const canvas = document.getElementById("canvas"), play = document.getElementById("play"), seen = [];
  const begin = performance.now();
  let turns = 0;
  const look = () => {
    turns += 1;
    const frame = Number(canvas.dataset.frame), time = (performance.now() - begin) / 1000;
    if (!seen.length || seen.at(-1).frame !== frame) seen.push({ time, frame });
    if (play.getAttribute("aria-label") === "Play" || time > 60) ended({ seen, turns });
    else requestAnimationFrame(look);
  };
  play.click();
  requestAnimationFrame(look);
})"""


def film(path: Path) -> None:
    """A grainy scene with a bright square that moves right, four pixels a frame."""
    rng = np.random.default_rng(0)
    scene = rng.integers(60, 140, (HEIGHT // 4, WIDTH // 4 + 100, 3), np.uint8).repeat(4, 0).repeat(4, 1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"preset": "veryfast", "crf": "23"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.time_base = Fraction(1, RATE)
        for number in range(FRAMES):
            image = scene[:HEIGHT, number : number + WIDTH].copy()
            image[200:260, 4 * number : 4 * number + 60] = (250, 240, 60)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


@pytest.fixture
def store(tmp_path: Path, spectrabox: Command) -> Path:
    """Five such videos with a box around the square; pictures of all of them are in the list beside the player."""
    (tmp_path / "videos").mkdir()
    film(tmp_path / "videos" / "a.mp4")
    rows = "".join(f"{number + 1},1,{4 * number + 1},201,60,60,1,1,1\n" for number in range(FRAMES))
    for name in "abcde":
        if name != "a":
            shutil.copy(tmp_path / "videos" / "a.mp4", tmp_path / "videos" / f"{name}.mp4")
        (tmp_path / "truth" / name / "gt").mkdir(parents=True)
        (tmp_path / "truth" / name / "gt" / "gt.txt").write_text(rows)
    out = tmp_path / "labels.zarr"
    done = spectrabox("import", tmp_path / "truth", "--videos", tmp_path / "videos", "--out", out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.alone
def test_a_video_plays_smoothly_the_first_time(opened: Callable, store: Path) -> None:
    with served(store) as address:
        page = opened(address)
        ready(page)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        found = page.evaluate(PLAY)
        others = [url for url in asked if "/frames?" in url and "/a.mp4/" not in url]
        page.locator(".thumb img[src]").nth(4).wait_for(timeout=PATIENCE)
        assert page.trouble == []
    time, frame = np.array([(one["time"], one["frame"]) for one in found["seen"]]).T
    assert (frame[0], frame[-1]) == (0, FRAMES - 1)
    assert (np.diff(frame) > 0).all()
    behind = time - frame / RATE
    assert behind[-1] < 0.2 * SECONDS, f"{behind[-1]:.2f} s behind the clock after {SECONDS:.2f} s"
    assert np.diff(time).max() < 0.4, f"stood still for {np.diff(time).max():.2f} s"
    assert len(frame) > 0.8 * min(FRAMES, found["turns"]), f"{len(frame)} of {FRAMES} frames were seen"
    assert len(others) <= 1, "pictures for the list wait until it has played, but for one that was on its way"
