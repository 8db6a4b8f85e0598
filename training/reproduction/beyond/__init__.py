"""Tables that the paper does not have: our own labels, real clips, and where a model without the head is lazy."""

from __future__ import annotations

from training.reproduction.beyond import laziness
from training.reproduction.table import Build

BEYOND: dict[str, Build] = {
    "laziness": laziness.table,
}
