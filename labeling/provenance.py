"""Who made the labels of a store: nobody, other people's tools, or reviewers on top of either?"""

from __future__ import annotations

from labeling.store import Store


def how_made(store: Store) -> str:
    """Half a sentence that goes along with the labels, so that nobody takes human work for automatic labels."""
    made = "made without human labels"
    if origin := store.root.attrs.get("imported_from"):
        made = f"imported from {origin}"
    if (review := store.review) is None:
        return made
    edits = len(review.log.done)
    return f"{made}, then reviewed by people ({edits} edit{'' if edits == 1 else 's'})"
