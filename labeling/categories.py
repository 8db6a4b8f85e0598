"""What are the categories of a store called, and how many tracks has each?

Keeps the table of categories in the root attributes, a row for every id that was ever given. Names, colours and what is
not wanted stay with their id for as long as the id means the same kind of thing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace

from labeling.palette import colour_of
from labeling.store import Category, Store
from labeling.vocabulary import Vocabulary
from labeling.zarr_io import update_attributes


def list_categories(store: Store, words: Vocabulary, anew: bool) -> None:
    """Have every category in the table before a video is of one: a run may end at any moment.

    With `anew`, ids have another meaning than before, and get the names that they have by default.
    """
    rows = {row.id: row for row in store.categories}
    ids = sorted({*rows, *range(len(words.prototypes))})  # videos that are not labeled anew yet have the old ones
    table = [_row(id) if anew or id not in rows else rows[id] for id in ids]
    # Those that have no tracks so far may get some at any moment; only what somebody did not want is left out.
    table = [replace(row, kept=True) if not row.size else row for row in table]
    update_attributes(store.root, {"categories": [asdict(row) for row in table]})


def category_table(store: Store, counts: Counter[int]) -> list[Category]:
    """The table as it is once all videos are labeled."""
    words, rows = store.vocabulary, {row.id: row for row in store.categories}
    return [_row(k, rows.get(k), counts[k]) for k in range(len(words.prototypes) if words else 0)]


def _row(kind: int, known: Category | None = None, size: int = 0) -> Category:
    if known is None:
        return Category(kind, f"object-{kind + 1}", colour_of(kind), size, size > 0)
    unwanted = known.size > 0 and not known.kept  # somebody said so: a category with tracks is kept otherwise
    return replace(known, size=size, kept=size > 0 and not unwanted)
