"""What can be read off a latent?"""

from __future__ import annotations

import numpy as np

RIDGE = 1e-6


def linear_probe(
    latents: np.ndarray, targets: np.ndarray, held_out_latents: np.ndarray, held_out_targets: np.ndarray
) -> np.ndarray:
    """R² on held-out frames of each target, read off by a linear map that was fitted on other frames.

    Args:
        latents: (M, D), to fit on.
        targets: (M, S), to fit on; standardised here.
        held_out_latents: (K, D).
        held_out_targets: (K, S).
    """
    from sklearn.linear_model import Ridge
    from sklearn.metrics import r2_score
    from sklearn.preprocessing import StandardScaler

    scale = StandardScaler().fit(targets)
    probe = Ridge(RIDGE).fit(latents.astype(np.float64), scale.transform(targets))
    read = probe.predict(held_out_latents.astype(np.float64))
    return np.asarray(r2_score(scale.transform(held_out_targets), read, multioutput="raw_values"))
