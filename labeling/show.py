"""What is in a store, at a glance?

Takes a store and returns what a terminal prints: a table of videos, one of categories with their colours, and the
videos that failed with their reasons.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from labeling.palette import NEUTRAL
from labeling.store import Store
from labeling.tracks import UNASSIGNED


def summary(store: Store) -> RenderableType:
    """Tables of a store's videos, categories and failures, ready to print."""
    sizes: Counter[int] = Counter()
    parts: list[RenderableType] = [_videos(store, sizes)]
    if sizes:
        parts += ["", _categories(store, sizes)]
    if store.failures:
        parts += ["", _failures(store)]
    return Group(*parts)


def _videos(store: Store, sizes: Counter[int]) -> Table:
    """The table of videos; counts tracks by category on the way."""
    table = _table(
        str(store.path), ("video", "left"), *((name, "right") for name in ("frames", "tracks", "categories"))
    )
    table.add_column("dropped")
    totals = np.zeros(2, int)
    for id in store:
        labels = store[id]
        kinds = np.asarray(store.root[f"videos/{id}/category"]).tolist()
        sizes.update(kinds)
        totals += labels.frames, len(kinds)
        reasons = Counter(str(row["reason"]) for row in labels.reasons)
        dropped = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common()) or "–"
        table.add_row(Text(labels.source), f"{labels.frames:,}", str(len(kinds)), str(len(set(kinds))), Text(dropped))
    if len(store) > 1:
        table.add_section()
        known = sum(kind != UNASSIGNED for kind in sizes)
        table.add_row(f"{len(store)} videos", f"{totals[0]:,}", f"{totals[1]:,}", str(known), "", style="bold")
    if not len(store):
        table.add_row(Text("no labeled video: run spectrabox label again"))
    return table


def _categories(store: Store, sizes: Counter[int]) -> Table:
    table = _table("", ("category", "left"), ("tracks", "right"))
    rows = [(row.id, row.name, row.colour) for row in store.categories]
    for id, name, colour in [*rows, (UNASSIGNED, "unassigned", NEUTRAL)]:
        if sizes[id]:
            table.add_row(Text.assemble(("██ ", colour), name), f"{sizes[id]:,}")
    return table


def _failures(store: Store) -> Table:
    table = _table("", ("failed", "left"), ("why", "left"))
    for source, reason in sorted(store.failures.items()):
        table.add_row(Text(source, "red"), Text(reason))
    return table


def _table(title: str, *columns: tuple[str, JustifyMethod]) -> Table:
    table = Table(title=Text(title) if title else None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for name, justify in columns:
        table.add_column(name, justify=justify, overflow="fold")
    return table
