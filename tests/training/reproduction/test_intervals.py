"""Means over runs, and how sure they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.reproduction.cells import Figure
from training.reproduction.intervals import Estimate, estimate


def test_a_rate_of_one_run_has_wilsons_interval() -> None:
    found = estimate([Figure(0.3, 100)])
    assert found == Estimate(0.3, pytest.approx(0.2189, abs=1e-4), pytest.approx(0.3959, abs=1e-4), 1)


def test_other_figures_of_one_run_have_none() -> None:
    assert estimate([Figure(0.43)]) == Estimate(0.43, None, None, 1)


def test_what_is_the_same_in_all_runs_has_none() -> None:
    """It does not depend on them, as how far random actions end from the goal."""
    assert estimate([Figure(8.166)] * 3) == Estimate(pytest.approx(8.166), None, None, 3)


def test_several_runs_have_students_interval() -> None:
    found = estimate([Figure(0.4), Figure(0.5), Figure(0.6)])
    assert found.value == pytest.approx(0.5)
    assert found.low == pytest.approx(0.5 - 4.3027 * 0.1 / 3**0.5, abs=1e-4)


def test_runs_that_agree_by_chance_are_not_certain() -> None:
    """All are tried on the same 200 starts: three runs are no 600 trials."""
    found = estimate([Figure(0.0, 200)] * 3)
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(0.0188, abs=1e-4)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=6))
def test_rates_stay_within_their_interval_and_that_within_0_and_1(counts: list[tuple[int, int]]) -> None:
    figures = [Figure(min(won, trials) / trials, trials) for won, trials in counts]
    found = estimate(figures)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.runs == len(counts)
