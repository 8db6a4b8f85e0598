"""What do several runs say together?

The mean over seeds with a 95 % interval. Of one run's rate it is Wilson's, over its trials. Of several runs it is
Student's t over them; for rates never narrower than Wilson's over the trials of one: runs are tried on the same starts,
and three that happen to agree are not certain. Other figures of one run have no interval, nor has what no run changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from training.reproduction.cells import Figure

SURE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over runs, and where the true one should be."""

    value: float
    low: float | None
    high: float | None
    runs: int


def estimate(figures: Sequence[Figure]) -> Estimate:
    """Of the same figure in one run or more."""
    from scipy.stats import binomtest, t

    values = np.array([figure.value for figure in figures])
    mean, runs = float(values.mean()), len(values)
    low = high = None
    if np.ptp(values) > 1e-12 * abs(mean):
        reach = float(t.ppf((1 + SURE) / 2, runs - 1) * values.std(ddof=1) / math.sqrt(runs))
        low, high = mean - reach, mean + reach
    if trials := max(figure.trials for figure in figures):
        wilson = binomtest(round(mean * trials), trials).proportion_ci(SURE, method="wilson")
        low = min(float(wilson.low), 1.0 if low is None else max(0.0, low))
        high = max(float(wilson.high), 0.0 if high is None else min(1.0, high))
    return Estimate(mean, low, high, runs)
