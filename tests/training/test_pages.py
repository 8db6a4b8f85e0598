"""Pages about world models, in a real browser: whole at phone and desktop width, light, dark, and on paper."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.layout import LANDSCAPE, PAPER, faint, faults, looks, on_paper
from training.evaluation.evaluate import Evaluation, Knowledge
from training.evaluation.figures import Picture
from training.evaluation.page import html
from training.evaluation.probes import Reading
from training.evaluation.success import Rate, Success
from training.reproduction.cells import Figure, Folder, Times
from training.reproduction.page import write
from training.reproduction.tables import build

STRIP = Path(__file__).parents[2] / "docs" / "images" / "trips.png"
CHART = STRIP.with_name("curves.png")
LONG = "a_name_without_any_place_to_break_it_" * 3


def evaluation(folder: Path) -> Path:
    """A page with everything that a page can have."""
    readings = Reading(0.003, 0.998, -123.4, 0.99), Reading(1.2, -0.011, -0.286, 0.0)
    known = {f"{name}, {what}": Knowledge(0.624, *readings, 20) for name in ("ball", LONG) for what in ("place", "yaw")}
    plans = [Success(steps, 3, 50, True, Rate(1, 10, 0.1, 0.02, 0.4), Rate(0, 200, 0, 0, 0.28), 2) for steps in (4, 8)]
    notes = [f"Not judged: {LONG}: the judged frames show it 3 times.", "Held-out stretches are of videos ..."]
    found = Evaluation(
        LONG, 6000, "fresh", "validation", f"lazy: {LONG} is not represented", known, [0.3] * 8, plans, notes, 24, 750
    )
    pictures = [Picture("Plans, carried out", "Green: the goal.", STRIP, STRIP), Picture("Curves", "", CHART, CHART)]
    page = folder / "evaluation.html"
    page.write_text(html(found, pictures), encoding="utf-8")
    return page


def reproduction(folder: Path, name: str) -> Path:
    """The page of one of the paper's tables when most cells are done, some failed and some are to come."""
    table, place, draw = build(name, "cpu"), Folder(folder), random.Random(0)
    cells = {
        (run, entry.measure) for row in table.rows for entry in row.entries if entry.measure for run in entry.trainings
    }
    figures = {entry.figure for row in table.rows for entry in row.entries if entry.figure}
    for number, (run, measure) in enumerate(sorted(cells, key=repr)):
        if number % 7 == 3:
            place.fail(run, f"{LONG}: no space left on the disk. Make room, and run the same command again.")
        elif number % 7 != 5:
            place.write(run, measure, {name: Figure(draw.random(), 200) for name in figures}, Times(600.0, 60.0))
    return write(table, place)


@pytest.mark.parametrize("name", ["evaluation", "nball-success", "probes"])
def test_the_page_is_whole_everywhere(opened, tmp_path: Path, name: str) -> None:
    path = evaluation(tmp_path) if name == "evaluation" else reproduction(tmp_path, name)
    page = opened(path)
    for look in looks(page):
        assert faults(page) + faint(page) == [], look
    on_paper(page, PAPER if name == "evaluation" else LANDSCAPE)
    assert faults(page) + faint(page) == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", (
        "dark, and on paper"
    )
    assert page.trouble == []
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
