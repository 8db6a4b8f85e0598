"""What are the figures of a clip?

`measure` takes the judged boxes of one clip and its true ones and returns `Figures`; None stands where there is nothing
to measure. `MEASURES` says how each is called and what it means, for tables and pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import NamedTuple

import numpy as np

from labeling.metrics import FITS, Following, Matching, compare, covered, identity_f1, present
from labeling.scoring.precision import average_precision

COVERS = 0.3  # an overlap from which on a true box counts as covered


@dataclass(frozen=True)
class Figures:
    """How well the labels of a clip, or of many, agree with the truth."""

    hota: float | None = None
    deta: float | None = None
    assa: float | None = None
    idf1: float | None = None
    ap50: float | None = None
    ap: float | None = None
    ar: float | None = None
    recall: float | None = None
    precision: float | None = None
    id_switches: float | None = None
    edge_error: float | None = None
    category_ari: float | None = None
    coverage: float | None = None

    def values(self) -> dict[str, float | None]:
        """Name and value of each."""
        return asdict(self)


class Measure(NamedTuple):
    """How a figure is shown."""

    heading: str
    meaning: str
    share: bool = True  # 0 to 1; else a number of its own

    def text(self, value: float | None) -> str:
        """A value as it stands in a table, in four characters: .947, 1.00, 12.3."""
        if value is None:
            return "–"
        if self.share and abs(value) < 0.9995:
            return f"{value:.3f}".replace("0.", ".", 1)
        return f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}" if abs(value) < 99.95 else f"{value:.0f}"


MEASURES = {
    "hota": Measure("HOTA", "geometric mean of detection and association, over overlaps of .05 to .95"),
    "deta": Measure("DetA", "found and true boxes that match, of all"),
    "assa": Measure("AssA", "how much matching tracks have in common"),
    "idf1": Measure("IDF1", "boxes that are right if each object may go by one name"),
    "ap50": Measure("AP50", "average precision of boxes at an overlap of .5, without classes"),
    "ap": Measure("AP", "the same over overlaps of .5 to .95"),
    "ar": Measure("AR", "average recall over overlaps of .5 to .95"),
    "recall": Measure("rec.", "true boxes that are found, at an overlap of .5"),
    "precision": Measure("prec", "found boxes that are true, at an overlap of .5"),
    "id_switches": Measure("IDsw", "changes of identity in 1000 frames", share=False),
    "edge_error": Measure("edge", "distance of a box's edges from the true ones, in % of the width", share=False),
    "category_ari": Measure("ARI", "how well categories follow the kinds of things (adjusted Rand index)"),
    "coverage": Measure("cov.", "true boxes that any found box overlaps by .3"),
}


def measure(
    found: np.ndarray, score: np.ndarray, true: np.ndarray, matching: Matching, followed: Following,
    partners: Sequence[tuple[str, int]], width: int, standing: int = 0,
) -> Figures:  # fmt: skip
    """The figures of one clip.

    Args:
        found: The judged boxes, (T, N, 4).
        score: Their scores, (T, N).
        true: The true boxes, (T, M, 4).
        matching: What `match` gave for them.
        followed: What `follow` gave for them.
        partners: What `partners_of` gave for them.
        width: Of the picture, in pixels.
        standing: Boxes that count as wrong in precision alone.
    """
    expected, given = int(present(true).sum()), int(present(found).sum())
    if not expected:
        wrong = 0.0 if given else None
        precision = 0.0 if given + standing else None
        return Figures(hota=wrong, deta=wrong, assa=wrong, idf1=wrong, precision=precision)
    agreement = compare(found, true, matching)
    ap = average_precision(found, score, true)
    right = followed.matched
    return Figures(
        hota=agreement.hota, deta=float(agreement.detection.mean()), assa=float(agreement.association.mean()),
        idf1=identity_f1(found, true), ap50=ap.ap50, ap=ap.ap, ar=ap.ar, recall=right / expected,
        precision=right / (given + standing) if given + standing else None,
        id_switches=1000 * len(followed.switches) / len(true) if right else None,
        edge_error=100 * float(agreement.edge_error) / width if np.isfinite(agreement.edge_error) else None,
        category_ari=rand_index(partners), coverage=covered(found, true, COVERS) / expected,
    )  # fmt: skip


def partners_of(matching: Matching, kinds: Sequence[str], category: np.ndarray) -> list[tuple[str, int]]:
    """Kind of each true object that is known and found, and category (N,) of the track that stands for it longest."""
    pairs, overlaps = matching
    together = np.zeros((len(kinds), len(category)), int)
    np.add.at(together, tuple(pairs[overlaps >= FITS][:, [2, 1]].T), 1)
    return [
        (kind, int(category[shared.argmax()]))
        for kind, shared in zip(kinds, together, strict=True)
        if kind and shared.any()
    ]


def rand_index(partners: Sequence[tuple[str, int]]) -> float | None:
    """The adjusted Rand index between kinds and categories; None for fewer than two objects."""
    if len(partners) < 2:
        return None
    from sklearn.metrics import adjusted_rand_score

    kinds, categories = zip(*partners, strict=True)
    return float(adjusted_rand_score(kinds, categories))


def mean(clips: Iterable[Figures], partners: Sequence[tuple[str, int]]) -> Figures:
    """The mean of each figure over the clips that have it; categories belong to the store, so all partners count."""
    rows = list(clips)
    known = {
        field.name: [value for row in rows if (value := getattr(row, field.name)) is not None]
        for field in fields(Figures)
    }
    means = {name: float(np.mean(values)) if values else None for name, values in known.items()}
    return Figures(**means | {"category_ari": rand_index(partners)})
