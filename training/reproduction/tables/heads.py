"""Which latents should the auxiliary head read, and how deep may it be?"""

from __future__ import annotations

from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import Table
from training.reproduction.tables.ablation import Variant, ablation, with_three_balls

NAME = "heads"
ENCODED_ONLY = ("objective.predicted_weight=0",)
DEPTHS = (1, 3, 4)  # besides the paper's 2


def table(scale: Scale) -> Table:
    """At a scale."""
    variants = (
        Variant("both", HEAD, (0.952, 0.700, 0.812)),
        Variant("encoded latents only", ENCODED_ONLY, (0.944, 0.696, 0.736)),
        Variant("LeWM", LEWM, (0.912, 0.664, 0.011)),
    )
    one_sum = with_three_balls(scale, "heads, depth", "both, one sum for all balls", ("target.grouping=all",))
    depths = [
        with_three_balls(scale, "heads, depth", f"both, {_layers(depth)}", (f"objective.head_depth={depth}",))
        for depth in DEPTHS
    ]
    notes = (
        "The paper prints heads of 18 numbers, which is one sum for all balls; ours have 18 for the red ball and 18 "
        "for the white ones, unless a row says otherwise.",
        "The paper's head has two layers. It reports laziness with slightly deeper ones, without numbers: rows with "
        "other depths are ours.",
    )
    return ablation(
        scale,
        NAME,
        "Which latents the head reads, and its depth",
        "aux_head_archis",
        variants,
        [one_sum, *depths],
        notes,
    )


def _layers(depth: int) -> str:
    return f"{depth} layers" if depth > 1 else "1 layer"
