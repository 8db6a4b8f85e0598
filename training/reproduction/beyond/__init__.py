"""Tables that the paper does not have: what a model sees, how long it takes, our own labels, real clips, laziness."""

from __future__ import annotations

from training.reproduction.beyond import grounding, labels, laziness, length, real_clips
from training.reproduction.table import Build

BEYOND: dict[str, Build] = {
    "grounding": grounding.table,
    "length": length.table,
    "labels": labels.table,
    "real-clips": real_clips.table,
    "laziness": laziness.table,
}
