"""Which colour does a category have?

One colour per category id, the same in the store, the report and the overlays: bright enough for a dark page and dark
enough for a light one, and told apart from its neighbours by lightness as well as by hue. A category keeps its colour
for good, so that pictures made on different days can be laid side by side.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from labeling.tracks import UNASSIGNED

if TYPE_CHECKING:
    from labeling.store import Store

NEUTRAL = "#8b93a1"  # what fits no category
COLOURS = (
    "#e5484d", "#3b82f6", "#16a37b", "#f5a524", "#9b5de5", "#12a5c0",
    "#e8608c", "#7cb518", "#c2671f", "#5b6ee1", "#c9a227", "#b14fc5",
)  # fmt: skip
GOLDEN = 0.618033988749895  # steps of the golden ratio never come back to a hue that was used


def is_colour(text: str) -> bool:
    """Whether a text is a colour like #e5484d: another one would not be told apart from markup in a page."""
    return re.fullmatch(r"#[0-9a-fA-F]{6}", text) is not None


def colour_of(category: int) -> str:
    """The colour of a category id, like #e5484d."""
    if category == UNASSIGNED:
        return NEUTRAL
    if category < len(COLOURS):
        return COLOURS[category]
    turn = category - len(COLOURS)
    red, green, blue = colorsys.hls_to_rgb((0.04 + turn * GOLDEN) % 1, 0.42 + 0.08 * (turn % 3), 0.62)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def category_colours(store: Store) -> Mapping[int, str]:
    """The colour of every category of a store, with that of unassigned tracks."""
    return {UNASSIGNED: NEUTRAL} | {row.id: row.colour for row in store.categories}


def category_names(store: Store) -> Mapping[int, str]:
    """The name of every category of a store, with that of unassigned tracks."""
    return {UNASSIGNED: "unassigned"} | {row.id: row.name for row in store.categories}


def rgb(colour: str) -> tuple[int, int, int]:
    """Red, green and blue of a colour like #e5484d, 0 to 255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def ink(colour: str) -> str:
    """Black or white, whichever reads better on `colour` (WCAG contrast)."""
    level = _luminance(colour)
    return "#ffffff" if 1.05 / (level + 0.05) >= (level + 0.05) / 0.05 else "#000000"


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
