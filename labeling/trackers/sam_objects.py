"""Which proposal is a new object, which a known one, and which one that was lost?

Takes proposals, the masks that the tracker already has on their frames, and what objects look like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from labeling.masks import Mask
from labeling.proposals import Proposal
from labeling.trackers.sam_masks import covered, overlap
from labeling.trackers.sam_protocol import Session

AT_BORDER = 0.5  # worth of a mask that touches the frame's border: part of the object may be outside
ALIKE = 0.6  # overlap of a mask and a proposal of the same thing
WITHIN = 0.8  # share of a proposal that lies on what it is part of


@dataclass(eq=False)
class Followed:
    """An object that is or was followed."""

    number: int
    session: Session  # its memory, forward in time
    score: float  # of the proposal that it began with
    first: int  # the frames between which it was seen
    last: int
    missing: int = 0  # frames since it was last seen
    looks: np.ndarray | None = None  # (D,) sum of its embeddings
    back: Session | None = None  # its memory backward in time, while it is followed back
    missing_back: int = 0
    doubled: int = 0  # frames on the way back on which it was where another object was

    def describe(self, looks: np.ndarray) -> None:
        """Add an embedding (D,) to what is known of its looks."""
        self.looks = looks.copy() if self.looks is None else self.looks + looks

    @property
    def prototype(self) -> np.ndarray | None:
        """Its mean looks, (D,) unit length."""
        if self.looks is None:
            return None
        prototype: np.ndarray = self.looks / max(float(np.linalg.norm(self.looks)), 1e-9)
        return prototype


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposal that is not of a known object."""

    frame: int
    proposal: Proposal
    worth: float  # how well it shows its object, compared with other proposals of the same object


def candidate(frame: int, proposal: Proposal, height: int, width: int) -> Candidate:
    """Judge a proposal as the beginning of a track: sure, large and whole ones are best."""
    x1, y1, x2, y2 = proposal.mask.bounds
    cut_off = x1 <= 0 or y1 <= 0 or x2 >= width or y2 >= height
    worth = proposal.score * proposal.mask.area**0.5 * (AT_BORDER if cut_off else 1.0)
    return Candidate(frame, proposal, worth)


def unknown(candidates: Sequence[Candidate], masks: Mapping[int, Sequence[Mask]], claimed: float) -> list[Candidate]:
    """The candidates on which the tracker's masks of their frames lie with less than the share `claimed`."""
    return [each for each in candidates if covered(each.proposal.mask, masks.get(each.frame, ())) < claimed]


def is_group(masks: Mapping[int, Mask], proposals: Mapping[int, Sequence[Proposal]]) -> bool:
    """Whether more looks show several things in the place of an object than show it as one.

    Args:
        masks: Where the object was followed to, by frame.
        proposals: Those of the frames that were looked at.
    """
    one = several = 0
    for frame, found in proposals.items():
        if frame not in masks:
            continue
        mask = masks[frame]
        if any(overlap(mask, each.mask) >= ALIKE for each in found):
            one += 1
            continue
        inside: list[Mask] = []
        for each in found:
            if covered(each.mask, [mask]) >= WITHIN and covered(each.mask, inside) < 1 - WITHIN:
                inside.append(each.mask)
        several += len(inside) > 1
    return several > one


def recognised(newcomers: Sequence[Followed], lost: Sequence[Followed], likeness: float) -> list[tuple[int, int]]:
    """Pairs (newcomer, lost object) that look alike, best first overall: every object is in one pair at most.

    An object that is still seen when the newcomer appears is not lost.
    """
    alike = np.full((len(newcomers), len(lost)), -1.0)
    for row, newcomer in enumerate(newcomers):
        for column, known in enumerate(lost):
            if newcomer.prototype is not None and known.prototype is not None and known.last < newcomer.first:
                alike[row, column] = float(newcomer.prototype @ known.prototype)
    # What is not alike enough may not push a good pair aside.
    rows, columns = linear_sum_assignment(np.where(alike >= likeness, alike, 0.0), maximize=True)
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return [(row, column) for row, column in pairs if alike[row, column] >= likeness]
