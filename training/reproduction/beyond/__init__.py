"""Tables that the paper does not have: what a model sees, our own labels, real clips, and where a model is lazy."""

from __future__ import annotations

from training.reproduction.beyond import grounding, labels, laziness, real_clips
from training.reproduction.table import Build

BEYOND: dict[str, Build] = {
    "grounding": grounding.table,
    "labels": labels.table,
    "real-clips": real_clips.table,
    "laziness": laziness.table,
}
