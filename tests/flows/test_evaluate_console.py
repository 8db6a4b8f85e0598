"""Can the figures of an evaluation be read in a terminal of 80 columns?"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from flows import evaluate_console
from training.evaluation import page

KNOWN = [("control ball, position", "0.335", "-0.002", "-0.999", "-0.998", "-0.001", "-0.999", "-0.997")]
TRIED = [("4", "3", "4", "100 % (98 to 100)", "10 % (10 to 15)", "200", "12")]


@pytest.mark.parametrize(("headings", "rows"), [(page.HEADINGS, KNOWN), (page.PLANS, TRIED)])
def test_numbers_are_never_cut(
    headings: tuple[str, ...], rows: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = Console(width=80, file=io.StringIO())
    monkeypatch.setattr(evaluate_console, "terminal", narrow)
    evaluate_console._print(headings, rows)
    assert isinstance(narrow.file, io.StringIO)
    printed = narrow.file.getvalue()
    assert "…" not in printed
    for cell in rows[0][1:]:
        assert cell in printed
