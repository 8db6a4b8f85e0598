"""Which layouts of a store does this version read?

The number in a store's root attributes says how it is laid out. It grows when arrays move or change their meaning;
`migrations.py` knows how an older store becomes one of today. What only joins, such as a new attribute, needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labeling.places import Place
from labeling.problems import StoreError

SCHEMA = 2  # 1: what the tracker saw lay in eleven arrays a video instead of three; chunks of zeros were left out


def schema_of(store: Place, attributes: Mapping[str, Any]) -> int:
    """The version of a store's layout, today's or an older one; StoreError if it is none that can be read."""
    if "kind" in attributes:
        raise StoreError(f"{store} is a {str(attributes['kind'])[:40]}, not a label store. Choose another.")
    found = attributes.get("schema")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise StoreError(f"{store} has schema {str(found)[:40]}, which is none. Label the folder anew.")
    if found > SCHEMA:
        raise StoreError(
            f"{store} has schema {found}, this version reads {SCHEMA}: a newer Spectrabox made it. Install that one, "
            "or label the folder anew into another store."
        )
    return found


def refuse_older(store: Place, attributes: Mapping[str, Any]) -> None:
    """StoreError unless a store has today's layout; it says what to do."""
    if (found := schema_of(store, attributes)) < SCHEMA:
        raise StoreError(
            f"{store} has schema {found}, this version reads {SCHEMA}. Bring it up to date, labels and all: "
            f"spectrabox migrate {store}"
        )
