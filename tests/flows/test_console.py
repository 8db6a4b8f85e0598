"""What a person sees at the end of a run."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.text import Text

from flows import console
from labeling.folder import Source
from labeling.run import Outcome, Summary
from labeling.tally import Labeled


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    paper = io.StringIO()
    monkeypatch.setattr(console, "terminal", console.Terminal(file=paper, width=120))
    monkeypatch.setattr(console, "open_store", lambda path: None)
    monkeypatch.setattr(console, "misfits", lambda store: [])
    return paper


def summary_of(videos: int, failed: int = 0, fps: float | None = 100.0) -> Summary:
    good = [Outcome(f"{n:06d}.mp4", Labeled(f"{n:06d}.mp4", 20, (0, n % 2), 1), fps) for n in range(videos - failed)]
    bad = [Outcome(f"bad-{n}.mp4", failure="no frame can be decoded") for n in range(failed)]
    return Summary(Path("labels.zarr"), good + bad, "2 categories", False, [], [], 2 * len(good), 0)


def test_few_videos_have_a_row_each(printed: io.StringIO) -> None:
    console.print_summary(summary_of(console.ROWS, failed=1))
    text = printed.getvalue()
    assert text.count("0000") == console.ROWS - 1
    assert "left out" not in text


def test_thousands_of_videos_are_totals_and_failures(printed: io.StringIO) -> None:
    console.print_summary(summary_of(2000, failed=3))
    text = printed.getvalue()
    assert len(text.splitlines()) < 15
    assert "000017.mp4" not in text
    total = next(line for line in text.splitlines() if "1,997 videos" in line)
    assert [cell.strip() for cell in total.strip("│").split("│")[1:]] == ["39,940", "3,994", "2", "100", "1,997"]
    assert "1,997 rows are left out" in text
    for number in range(3):
        assert f"failed bad-{number}.mp4: no frame can be decoded" in text


def test_thousands_of_videos_that_were_labeled_before_are_up_to_date(printed: io.StringIO) -> None:
    console.print_summary(summary_of(2000, fps=None))
    assert "up to date" in next(line for line in printed.getvalue().splitlines() if "2,000 videos" in line)


def test_videos_that_all_failed_are_all_named(printed: io.StringIO) -> None:
    console.print_summary(summary_of(60, failed=60))
    text = printed.getvalue()
    assert all(f"failed bad-{number}.mp4:" in text for number in range(60))
    assert "left out" not in text


def test_codes_for_a_terminal_in_a_name_are_shown_as_text(printed: io.StringIO) -> None:
    """Of a file that somebody sent: it could clear the screen, or rename the window."""
    name = "\x1b]0;mine\x07\x1b[2J\x9b31m.mp4"
    bad = Outcome(name, failure=f"{name} is empty")
    console.print_summary(Summary(Path("labels.zarr"), [bad], name, False, [name], [], 0, 0))
    console.terminal.print(Text(name))
    assert not {"\x1b", "\x07", "\x9b"} & set(printed.getvalue())
    assert "\\x1b[2J" in printed.getvalue()


def test_videos_that_cannot_be_opened_do_not_keep_the_bar_from_its_end() -> None:
    bar = console.FrameBar()
    a, b, c, d = (Source(name, name, Path(name)) for name in "abcd")
    bar.planned(4)
    for good in (a, b):
        bar.frames(good, 100, 100)
        bar.finished(good, "")
    for bad in (c, d):
        bar.finished(bad, "it is empty")
    (job,) = bar._bar.tasks
    assert (job.completed, job.total) == (200, 200)
