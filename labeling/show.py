"""What is in a store, at a glance?

Takes a store and returns what a terminal prints: a table of videos, one of categories with their colours, the videos
that failed with their reasons, and how far its review got.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from labeling.palette import NEUTRAL
from labeling.review.review import Misfit, Review
from labeling.store import Store
from labeling.tracks import UNASSIGNED


def summary(store: Store) -> RenderableType:
    """Tables of a store's videos, categories, failures and review, ready to print."""
    sizes: Counter[int] = Counter()
    parts: list[RenderableType] = [_videos(store, sizes)]
    if store.removed:
        parts += [Text("(removed): no longer there when a run last looked; spectrabox label --prune forgets it")]
    if sizes:
        parts += ["", _categories(store, sizes)]
    if store.failures:
        parts += ["", _failures(store)]
    if store.review:
        parts += ["", *_review(store, store.review)]
    return Group(*parts)


def misfits(store: Store) -> list[Misfit]:
    """Edits of reviewers that do not fit the labels any more."""
    return store.review.misfits(store.ids) if store.review else []


def _videos(store: Store, sizes: Counter[int]) -> Table:
    """The table of videos; counts tracks by category on the way."""
    table = _table(
        str(store.path), ("video", "left"), *((name, "right") for name in ("frames", "tracks", "categories"))
    )
    table.add_column("dropped")
    totals = np.zeros(2, int)
    for id in store:
        labels = store[id]
        kinds = labels[:0].tracks.category.tolist()
        sizes.update(kinds)
        totals += labels.frames, len(kinds)
        reasons = Counter(str(row["reason"]) for row in labels.reasons)
        dropped = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common()) or "–"
        name = Text.assemble(labels.source, (" (removed)" if labels.removed else "", "yellow"))
        table.add_row(name, f"{labels.frames:,}", str(len(kinds)), str(len(set(kinds))), Text(dropped))
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


def _review(store: Store, review: Review) -> list[RenderableType]:
    checked = sum(bool(labels.checked) for labels in store.values())
    count = len(review.log.done)
    said = f"reviewed: {count:,} edit{'' if count == 1 else 's'}, {checked} of {len(store)} videos checked"
    if not (found := misfits(store)):
        return [Text(said)]
    table = _table("", ("no longer fits", "left"), ("why", "left"))
    for misfit in found:
        table.add_row(Text(misfit.what, "yellow"), Text(misfit.why))
    return [Text(said), "", table]


def _table(title: str, *columns: tuple[str, JustifyMethod]) -> Table:
    table = Table(title=Text(title) if title else None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for name, justify in columns:
        table.add_column(name, justify=justify, overflow="fold")
    return table
