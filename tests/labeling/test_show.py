"""A store at a glance."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console

from labeling.show import summary
from labeling.store import Store


def printed(store: Store) -> str:
    out = io.StringIO()
    Console(width=100, file=out).print(summary(store))
    return out.getvalue()


def test_videos_categories_drops_and_failures_are_listed(make_store: Callable[..., Store]) -> None:
    text = printed(make_store("[red]one.mp4", "two.mp4", videos=False, failures={"bad.mp4": "is empty."}))
    assert "[red]one.mp4" in text
    assert "2 videos 48 4 2" in " ".join(text.split())
    for words in ("object-1", "object-2", "1 static", "bad.mp4", "is empty."):
        assert words in text


def test_unassigned_tracks_are_counted_apart(make_store: Callable[..., Store]) -> None:
    assert "unassigned 1" in " ".join(printed(make_store(category=(0, -1), videos=False)).split())
