"""Which found boxes count?

Truth rarely lists all that can be found: links of a robot, things that stand still, what is all but hidden. `judged`
sets aside what may be found or not, by the rules in docs/scoring.md, and returns the boxes that are judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeling.metrics import FITS, overlaps_of, present
from labeling.scoring.truth import Truth

MOST = 0.5  # the share of a track, or of a box, that decides
STILL = 0.01  # of the picture's width, or STILL_PIXELS: edges that stay within it stand still
STILL_PIXELS = 2.0
FEWEST = 5  # frames, or a tenth of the clip: less is not enough to tell that something stands still


@dataclass(frozen=True)
class Judged:
    """The found boxes that count."""

    boxes: np.ndarray  # (T, N, 4), NaN where absent or set aside
    tracks: np.ndarray  # (N,) which of the found tracks they are
    aside: int  # tracks that count nowhere
    standing: int  # tracks that stand still where only what moves is listed: wrong, but no more than imprecise
    standing_boxes: int


def judged(found: np.ndarray, truth: Truth, width: int) -> Judged:
    """Sort out found boxes (T, N, 4) of a clip whose pictures are so wide; the truth has as many frames."""
    boxes = found.copy()
    kept, standing, aside = [], [], 0
    main = _main(found, truth) if truth.listed == "foreground" else None
    for track in np.flatnonzero(present(found).any(axis=0)).tolist():
        own = boxes[:, track]
        needed = overlaps_of(own[:, None], truth.boxes)  # (T, M)
        if (main is not None and track != main and _beside(own, truth)) or _optional(own, needed, truth):
            aside += 1
        elif truth.listed == "moving" and _stands(own, needed, width):
            standing.append(track)
        else:
            _forget_loose(own, needed, truth)
            if present(own).any():
                kept.append(track)
    which = np.array(kept, int)
    return Judged(boxes[:, which], which, aside, len(standing), int(present(found[:, standing]).sum()))


def _main(found: np.ndarray, truth: Truth) -> int:
    """The track that overlaps the true boxes most: it is judged however badly it fits."""
    fits = [overlaps_of(found[:, track, None], truth.boxes).sum() for track in range(found.shape[1])]
    return int(np.argmax(fits)) if fits else -1


def _beside(own: np.ndarray, truth: Truth) -> bool:
    """Whether a track lies mostly beside the one box around all of the foreground; nothing else is listed."""
    around = truth.boxes[:, 0]
    both = present(own) & present(around)
    sides = np.minimum(own[both, 2:], around[both, 2:]) - np.maximum(own[both, :2], around[both, :2])
    inside = np.prod(np.maximum(sides, 0), axis=-1) / np.prod(own[both, 2:] - own[both, :2], axis=-1)
    return not both.any() or bool(inside.mean() < MOST)


def _optional(own: np.ndarray, needed: np.ndarray, truth: Truth) -> bool:
    """Whether a track follows something that need not be found, and that better than anything that must be."""
    overlap = overlaps_of(own[:, None], truth.optional)  # (T, K)
    fits = (overlap >= FITS).sum(axis=0).max(initial=0)
    better = overlap.sum(axis=0).max(initial=0) > needed.sum(axis=0).max(initial=0)
    return bool(fits >= MOST * present(own).sum() and better)


def _stands(own: np.ndarray, needed: np.ndarray, width: int) -> bool:
    """Whether a track stands still, and is not one of the true objects."""
    seen = own[present(own)]
    if len(seen) < max(FEWEST, len(own) / 10) or (needed >= FITS).any(axis=1).sum() >= MOST * len(seen):
        return False
    low, high = np.percentile(seen, [5, 95], axis=0)
    return bool((high - low).max() <= max(STILL_PIXELS, STILL * width))


def _forget_loose(own: np.ndarray, needed: np.ndarray, truth: Truth) -> None:
    """Remove the boxes of a track that fit a hidden one better than any that must be found."""
    at = truth.loose[:, 0].astype(int)
    overlap = overlaps_of(own[at], truth.loose[:, 1:])
    gone = at[(overlap >= FITS) & (overlap > needed[at].max(axis=1, initial=0))]
    own[gone] = np.nan
