"""Does the model see what moves?

From latents of frames and the boxes in them: are latents spread out (SIGReg statistic, rank), do distances between
those of held-out frames follow distances between boxes (Spearman), and can box positions be read off them linearly
(ridge probe, fitted on training frames)? The verdict is one line: collapsed, lazy (naming what is not represented) or
grounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr

from training.regularizers import draw_directions, sigreg

GROUP = 128  # latents in one SIGReg statistic, which grows with their number where they are not Gaussian
DIRECTIONS = 256
COLLAPSED = 0.3  # SIGReg per latent; 0.402 where all of them are 0, more where they are equal elsewhere
SAME = 0.01  # share of the latents' energy in their differences, below which they are all the same
FLAT = 1.5  # rank below which latents lie on a line
PAIRED = 500  # frames whose pairs are compared
REACH = 0.5  # image widths over which the distance between sets of boxes grows
STILL = 0.005  # objects whose centres stray less than this share of the image have nothing to be represented
ENOUGH = 20  # frames with the object, at least
READABLE = 0.75  # R² of the probe: 0.5 is reached on a plateau where half of the variance cannot be read
FELT = 0.1  # Spearman: what is ignored stays below 0.03, what is represented comes above 0.25


@dataclass(frozen=True)
class Frames:
    """Latents of M frames and the boxes in them."""

    latents: np.ndarray  # (M, D)
    boxes: np.ndarray  # (M, N, 4) cx cy w h
    present: np.ndarray  # (M, N) bool
    category: np.ndarray  # (M, N)


@dataclass(frozen=True)
class Monitors:
    """What latents are like: all of them, and by category those of held-out frames.

    By category: None where too few frames show it, or where it never moves.
    """

    sigreg: float  # about 1.05 for a Gaussian
    rank: float  # directions that latents vary in, by entropy
    spread: float  # standard deviation of a component
    spearman: dict[str, float | None]
    probe: dict[str, float | None]  # R² of the mean centre
    verdict: str

    def as_row(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def monitor(held_out: Frames, fitted_on: Frames, names: Mapping[int, str], apart: bool = True) -> Monitors:
    """Judge the latents of held-out frames.

    Args:
        held_out: Frames of the validation split.
        fitted_on: Frames of the training split, which the probe learns from.
        names: Of the categories, by id.
        apart: Whether the former were really held out; else nothing is called grounded.
    """
    # A few held-out episodes do not fill the latent space, however good the model is: training frames count as well.
    latents = np.concatenate([held_out.latents, fitted_on.latents]).astype(np.float64)
    wide, rank, statistic = spread(latents), effective_rank(latents), _sigreg(latents)
    probe: dict[str, float | None] = {}
    spearman: dict[str, float | None] = {}
    for category, name in names.items():
        moves = _moves(held_out, category) and _moves(fitted_on, category)
        probe[name] = _probe(fitted_on, held_out, category) if moves else None
        spearman[name] = _spearman(held_out, category) if moves else None
    energy = float(np.square(latents).mean())
    same = energy == 0 or wide**2 / energy < SAME
    shrunk = wide < 1 and statistic / min(GROUP, len(latents)) > COLLAPSED
    if same or shrunk or rank < FLAT:
        verdict = f"collapsed: frames hardly differ in their latents (spread {wide:.3g}, rank {rank:.1f})"
    else:
        verdict = _grounding(probe, spearman, apart)
    return Monitors(statistic, rank, wide, spearman, probe, verdict)


def _grounding(probe: Mapping[str, float | None], spearman: Mapping[str, float | None], apart: bool) -> str:
    known = {name: (r2, rho) for name, r2 in probe.items() if r2 is not None and (rho := spearman[name]) is not None}
    if not known:
        return f"not collapsed; nothing that moves is seen in at least {ENOUGH} frames, to compare with"
    words = {name: f"{name} (R² {r2:.2f}, Spearman {rho:.2f})" for name, (r2, rho) in known.items()}
    missing = [words[name] for name, (r2, _) in known.items() if r2 < READABLE]
    ignored = [words[name] for name, (r2, rho) in known.items() if r2 >= READABLE and rho < FELT]
    lacks = [f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not represented"] if missing else []
    lacks += [f"distances between latents ignore {', '.join(ignored)}"] if ignored else []
    if lacks:
        return f"lazy: {'; '.join(lacks)}"
    weakest = min(known, key=lambda name: known[name])
    if not apart:
        least = f"least {words[weakest]} on frames that it knows"
        return f"not judged: whether it is grounded cannot be told without held-out episodes ({least})"
    return f"grounded: all {len(known)} kinds of objects are represented, least {words[weakest]}"


def spread(latents: np.ndarray) -> float:
    """The standard deviation of a component of latents (M, D)."""
    return float(np.sqrt(latents.var(axis=0).mean()))


def effective_rank(latents: np.ndarray) -> float:
    """The exponential of the entropy of the spectrum: D where all directions vary alike, 1 on a line, 0 at a point."""
    variances = np.linalg.svd(latents - latents.mean(axis=0), compute_uv=False) ** 2
    if variances.sum() == 0:
        return 0.0
    shares = variances / variances.sum()
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _sigreg(latents: np.ndarray) -> float:
    """The mean statistic of groups of frames drawn from all over."""
    order = np.random.default_rng(0).permutation(len(latents))
    size = min(GROUP, len(latents))
    groups = order[: len(order) // size * size].reshape(-1, size)
    directions = draw_directions(latents.shape[1], DIRECTIONS, seed=0, step=0)
    return float(sigreg(torch.from_numpy(latents[groups]).float(), directions))


def _members(frames: Frames, category: int) -> np.ndarray:
    """Which objects of which frames are of a category, (M, N)."""
    return frames.present & (frames.category == category)


def _centres(frames: Frames, category: int) -> tuple[np.ndarray, np.ndarray]:
    """Frames that show a category, (K,), and the mean centre of its objects there, (K, 2); their order has no say."""
    member = _members(frames, category)
    shown = np.flatnonzero(member.any(axis=1))
    weights = member[shown, :, None] / member[shown].sum(axis=1)[:, None, None]
    return shown, (frames.boxes[shown, :, :2] * weights).sum(axis=1)


def _moves(frames: Frames, category: int) -> bool:
    shown, centres = _centres(frames, category)
    return len(shown) >= ENOUGH and bool(centres.std(axis=0).max() > STILL)


def _probe(fitted_on: Frames, held_out: Frames, category: int) -> float:
    """Share of the variance of the mean centre that a linear map of the latents explains, over x and y."""
    from sklearn.linear_model import RidgeCV
    from sklearn.preprocessing import StandardScaler

    shown, truth = _centres(fitted_on, category)
    scale = StandardScaler().fit(fitted_on.latents[shown])
    # The strength is chosen by leaving frames out: with few frames, almost none would fit their noise.
    ridge = RidgeCV(np.logspace(-6, 4, 11)).fit(scale.transform(fitted_on.latents[shown]), truth)
    shown, truth = _centres(held_out, category)
    errors = np.square(ridge.predict(scale.transform(held_out.latents[shown])) - truth).sum()
    return float(1 - errors / np.square(truth - truth.mean(axis=0)).sum())


def _spearman(frames: Frames, category: int) -> float:
    """Rank correlation of latent distance with box distance over the pairs of some frames."""
    shown, _ = _centres(frames, category)
    if len(shown) > PAIRED:
        shown = np.sort(np.random.default_rng(0).permutation(shown)[:PAIRED])
    pairs = np.triu_indices(len(shown), 1)
    apart = _set_distances(frames.boxes[shown, :, :2], _members(frames, category)[shown])[pairs]
    between = pdist(frames.latents[shown])
    if np.ptp(between) == 0:  # all latents are equal
        return 0.0
    return float(spearmanr(between, apart).statistic)


def _set_distances(centres: np.ndarray, member: np.ndarray) -> np.ndarray:
    """How far apart the objects of any two frames are, (M, M), from centres (M, N, 2) and who counts, (M, N).

    Objects of a category have no order: the distance is that of their sets under a Gaussian kernel. For one object it
    has the same order as the plain distance.
    """
    count = len(member)
    used = np.flatnonzero(member.any(axis=0))
    kernel = np.zeros((count, count))
    for one, other in combinations_with_replacement(used, 2):
        squares = np.square(centres[:, None, one] - centres[None, :, other]).sum(axis=-1)
        near = np.exp(-squares / (2 * REACH**2)) * (member[:, None, one] & member[None, :, other])
        kernel += near if one == other else near + near.T
    own = np.diag(kernel)
    return own[:, None] + own[None, :] - 2 * kernel
