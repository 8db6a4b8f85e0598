"""Results that are kept in the repository are those of today's tables, and their pages say what the figures say."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.reproduction.beyond import BEYOND
from training.reproduction.cells import Folder
from training.reproduction.page import markdown
from training.reproduction.tables import TABLES, build

KEPT = Path(__file__).parents[3] / "docs" / "results"
PAGES = sorted(KEPT.glob("*-cpu.md"))
AGAIN = "run `spectrabox reproduce TABLE --out docs/results` again"


def test_every_run_that_is_kept_would_be_trained_the_same_way_today() -> None:
    today = {cell.training.id for name in TABLES | BEYOND for cell in build(name).cells}
    kept = {run.name for run in (KEPT / "runs").iterdir()}
    assert kept, "nothing is kept"
    assert kept <= today, f"settings have changed since: remove {', '.join(sorted(kept - today))} and {AGAIN}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_the_figures_say(page: Path) -> None:
    table = build(page.stem.removesuffix("-cpu"))
    assert page.read_text(encoding="utf-8") == markdown(table, Folder(KEPT)), AGAIN
