"""How should objects that look alike be told apart in the target?"""

from __future__ import annotations

from training.reproduction.scale import HEAD, Scale
from training.reproduction.table import Table
from training.reproduction.tables.ablation import Variant, ablation

NAME = "matching"
ANY_TWO = ("target.grouping=all",)  # the paper's permutations are those of all objects


def table(scale: Scale) -> Table:
    """At a scale."""
    variants = (
        Variant("Fourier", HEAD, (0.952, 0.700, 0.812)),
        Variant("no matching", ("target.matching=none",), (0.948, 0.660, 0.768)),
        Variant("frame Hungarian", ("target.matching=frame", *ANY_TWO), (0.964, 0.652, 0.017)),
        Variant("sequence Hungarian", ("target.matching=sequence", *ANY_TWO), (0.944, 0.640, 0.026)),
    )
    notes = (
        "Hungarian matching may exchange any two objects, the red ball and a white one as well, as the paper's formula "
        "has it; within categories there would be nothing to exchange in Push-T and Cube.",
    )
    return ablation(scale, NAME, "Matching of objects", "matching_strategies", variants, notes=notes)
