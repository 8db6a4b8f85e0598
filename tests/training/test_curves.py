"""The picture of a run: any name that a user gives to a category can be drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from training.curves import as_it_is, draw
from training.metrics import FILE

NAMES = ["$5 note", r"$\frac$", "_hidden", r"a\$b$", "ball"]


def test_any_name_of_a_category_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    legend = Axes.legend

    def noted(axes: Axes, **options: object) -> object:
        made = legend(axes, **options)
        shown.extend(text.get_text() for text in made.get_texts())
        return made

    monkeypatch.setattr(Axes, "legend", noted)
    values = dict.fromkeys(NAMES, 0.5)
    terms = dict.fromkeys(("prediction", "regularizer", "encoded", "predicted", "rank", "sigreg"), 1.0)
    rows = [
        {"split": "train", "step": 1, **terms},
        {"split": "validation", "step": 1, **terms, "spearman": values, "probe": values, "verdict": f"lazy: {NAMES}"},
    ]
    (tmp_path / FILE).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert draw(tmp_path).stat().st_size > 10_000
    assert all(shown.count(as_it_is(name)) == 2 for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_no_formula(name: str) -> None:
    """It takes the same room as with formulas switched off."""
    figure = Figure()
    renderer = FigureCanvasAgg(figure).get_renderer()
    escaped = figure.text(0, 0, as_it_is(name))
    as_text = figure.text(0, 0, as_it_is(name).replace(r"\$", "$"), parse_math=False)
    assert escaped.get_window_extent(renderer).bounds == as_text.get_window_extent(renderer).bounds
