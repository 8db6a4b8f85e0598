"""What should the auxiliary head say about an object?"""

from __future__ import annotations

from training.reproduction.scale import Scale
from training.reproduction.table import Table
from training.reproduction.tables.ablation import Variant, ablation

NAME = "targets"


def _state(name: str) -> tuple[str, ...]:
    return () if name == "bb" else (f"target.state={name}",)


def _slots(name: str) -> tuple[str, ...]:
    """These have parts that may not apply, which sums cannot leave out: a slot for each object."""
    return (f"target.state={name}", "target.matching=none")


def table(scale: Scale) -> Table:
    """At a scale."""
    variants = (
        Variant("BB", _state("bb"), (0.952, 0.704, 0.812)),
        Variant("Exact", _slots("exact"), (0.936, 0.712, 0.772)),
        Variant("Compact7", _slots("compact7"), (0.896, 0.704, 0.550)),
        Variant("Compact13", _slots("compact13"), (None, 0.748, None)),
        Variant("OBB (θ)", _state("obb"), (0.940, 0.712, 0.661)),
        Variant("OBB (2θ)", _state("obb2"), (0.940, 0.684, 0.732)),
        Variant("BB + COM", _state("bb+com"), (0.936, 0.696, 0.773)),
        Variant("OBB (θ) + COM", _state("obb+com"), (0.936, 0.672, 0.763)),
        Variant("OBB (2θ) + COM", _state("obb2+com"), (0.932, 0.684, 0.775)),
    )
    notes = ("Exact, Compact7 and Compact13 have a slot for each object, the others Fourier sums.",)
    return ablation(scale, NAME, "What the head says about an object", "target_ablation_results", variants, notes=notes)
