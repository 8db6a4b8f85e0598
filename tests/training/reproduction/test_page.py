"""The page says what was found, what is missing, and why."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tests.training.reproduction.test_run import small_table
from tests.training.reproduction.tiny_scale import TINY
from training.reproduction.cells import Figure, Folder, Times
from training.reproduction.page import markdown, shown, write
from training.reproduction.run import Reproduction
from training.reproduction.table import Column, Entry, Row, Table

SEEDS = replace(TINY, seeds={"small": (0, 1, 2)}, reductions=(("Fewer steps.", ("small",)),))


def judged(folder: Folder, table: Table, values: list[float], column: int = 0) -> None:
    """Put figures there as if the cells of a column had been run, as far as there are values."""
    entry = table.rows[0].entries[column]
    assert entry.measure is not None
    for training, value in zip(entry.trainings, values, strict=False):
        folder.write(training, entry.measure, {"plans": Figure(value, 200)}, Times(600.0, 60.0))


def test_means_intervals_seeds_and_the_papers_number(tmp_path: Path) -> None:
    table, folder = small_table(SEEDS), Folder(tmp_path)
    judged(folder, table, [0.6, 0.7, 0.8])
    judged(folder, table, [0.1], column=1)
    text = markdown(table, folder)
    assert "| n = 1 | 70.0 % (45.2 to 94.8) / 50.0 % | 10.0 % (6.6 to 14.9) 1 of 3 seeds / 50.0 % |" in text
    assert "4 of 6 cells are done." in text
    assert "By the clock they took 0.7 hours, one after another." in text
    assert "Fewer steps." in text
    page = write(table, folder).read_text()
    for words in ("70.0 %", "(45.2 to 94.8)", "1 of 3 seeds", "50.0 %", "Fewer steps.", "not run yet"):
        assert words in page
    assert 'src="http' not in page
    assert 'href="http' not in page


def test_intervals_end_where_figures_do(tmp_path: Path) -> None:
    table, folder = small_table(SEEDS), Folder(tmp_path)
    entry = table.rows[0].entries[0]
    assert entry.measure is not None
    for training, value in zip(entry.trainings, (-0.2, 0.9), strict=False):
        folder.write(training, entry.measure, {"plans": Figure(value)}, Times(1.0, 1.0))
    assert "(-1.000 to 1.000)" in shown(entry, "correlation", folder).as_text()
    assert "(0.000 to " in shown(entry, "pixels", folder).as_text()


def test_a_column_that_the_paper_does_not_have_has_no_paper_beside_it(tmp_path: Path) -> None:
    table = small_table()
    (row,) = table.rows
    ours = replace(table, rows=(replace(row, entries=(row.entries[0], replace(row.entries[1], paper=None))),))
    assert ours.beside == [True, False]
    judged(Folder(tmp_path), ours, [0.6])
    assert "| n = 1 | 60.0 % (53.1 to 66.5) / 50.0 % | – not run yet |" in markdown(ours, Folder(tmp_path))
    page = write(ours, Folder(tmp_path)).read_text()
    assert (page.count(">paper</th>"), page.count('<td class="paper">')) == (1, 1)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    table, folder = small_table(), Folder(tmp_path)
    entry = table.rows[0].entries[0]
    assert shown(entry, "percent", folder).as_text() == "– not run yet / 50.0 %"
    folder.fail(entry.trainings[0], "no room on the disk")
    assert shown(entry, "percent", folder).as_text() == "– failed / 50.0 %"
    assert "failed: no room on the disk" in markdown(table, folder)
    assert shown(Entry(paper=0.9), "percent", folder).as_text() == "– left out at this scale / 90.0 %"
    assert shown(Entry(), "percent", folder).as_text() == "– / –"
    other = replace(entry, figure="never measured")
    judged(folder, table, [0.5])
    assert shown(other, "percent", folder).as_text() == "– not measured / 50.0 %"


def test_starts_that_were_passed_over_are_counted_and_said(tmp_path: Path) -> None:
    table, folder = small_table(), Folder(tmp_path)
    entry = table.rows[0].entries[0]
    assert entry.measure is not None
    figures = {"plans": Figure(0.5, 200), "left out: solved": Figure(12), "left out: touching": Figure(3)}
    folder.write(entry.trainings[0], entry.measure, figures, Times(60.0, 60.0))
    assert "| done | 12 solved, 3 touching | 2 |" in markdown(table, folder)
    assert "12 solved, 3 touching" in write(table, folder).read_text()


def test_text_is_never_markup(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> | [x](javascript:alert(1))"
    runs = TINY.trainings("evil", "nball-1", "nball", (), evil)
    entry = Entry(runs, TINY.one_plan(), "plans", evil)
    columns = (Column(evil, "percent", evil),)
    table = Table("evil", evil, evil, TINY, columns, (Row(evil, (entry,)),), (evil,))
    folder = Folder(tmp_path)
    folder.fail(runs[0], evil)
    page = write(table, folder).read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    rows = [line for line in markdown(table, folder).splitlines() if line.startswith("|")]
    assert not any(re.search(r"(?<!\\)(<|\[)", line) for line in rows)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {3, 7}


def test_time_that_is_left_counts_unfinished_cells_only(tmp_path: Path) -> None:
    table = small_table(SEEDS)
    this = Reproduction(table, tmp_path)
    before = this.minutes(1)
    judged(this.folder, table, [0.5, 0.5, 0.5])
    assert 0 < this.minutes(1) < before
    assert len(this.cells) == 3
