"""Tables that the paper does not have: our own labels, real clips, and where a model without the head is lazy."""

from __future__ import annotations

from training.reproduction.beyond import labels, laziness, real_clips
from training.reproduction.table import Build

BEYOND: dict[str, Build] = {
    "labels": labels.table,
    "real-clips": real_clips.table,
    "laziness": laziness.table,
}
