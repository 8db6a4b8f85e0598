"""Do distances between latents follow distances between states?"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr

PAIRED = 2000  # frames, all pairs of which are compared


def distance_correlation(latents: np.ndarray, states: np.ndarray) -> float:
    """Spearman's rank correlation of distances between latents (M, D) and between states (M, S), over pairs of frames.

    The first 2000 frames take part: they should come in random order.
    """
    between, apart = pdist(latents[:PAIRED]), pdist(states[:PAIRED])
    if not (np.ptp(between) and np.ptp(apart)):  # all the same: no order to compare
        return 0.0
    return float(spearmanr(between, apart).statistic)
