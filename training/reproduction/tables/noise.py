"""Does the auxiliary head still help when boxes are noisy?"""

from __future__ import annotations

from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import Table
from training.reproduction.tables.ablation import Variant, ablation

NAME = "noise"


def table(scale: Scale) -> Table:
    """At a scale."""
    variants = (
        Variant("boxes", HEAD, (0.952, 0.704, 0.812)),
        Variant("noisy boxes", ("target.noise=0.01",), (0.936, 0.704, 0.759)),
        Variant("LeWM", LEWM, (0.912, 0.664, 0.011)),
    )
    notes = ("Noise: Gaussian on each edge, 1 % of the image width; the same frame always has the same.",)
    return ablation(scale, NAME, "Noisy boxes", "bb_baseline_lewm", variants, notes=notes)
