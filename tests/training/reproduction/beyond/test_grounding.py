"""The table of what a model sees, run by run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.reproduction.tiny_scale import TINY
from training.config import load_config
from training.reproduction.beyond.grounding import table
from training.reproduction.run import reproduce
from training.reproduction.scales import CPU


def test_runs_of_a_seed_differ_in_the_head_alone() -> None:
    runs = [row.entries[0].trainings for row in table(CPU).rows]
    assert all(len(of_a_row) == 1 for of_a_row in runs)
    assert [run.seed for (run,) in runs] == [2, 3] * 2
    head, plain = (run.config() for (run,) in runs[::2])
    without = head.objective.model_copy(update={"encoded_weight": 0.0, "predicted_weight": 0.0})
    assert plain == head.model_copy(update={"objective": without})


def test_the_preset_is_judged_as_it_is() -> None:
    assert table(CPU).cells[0].training.config() == load_config(None, [], "nball-cpu", seed=2)


@pytest.mark.usefixtures("in_this_process")
def test_a_real_run_is_read_and_compared(tmp_path: Path) -> None:
    whole = table(TINY)
    small = replace(whole, rows=whole.rows[:1])
    assert reproduce(small, tmp_path, 1, "cpu") == {}
    text = (tmp_path / "grounding-cpu.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith(f"| {whole.rows[0].label}"))
    assert "not" not in row  # neither not run nor not measured
    assert row.count("|") == 2 + len(whole.columns)
