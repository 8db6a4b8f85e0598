"""What does an evaluation look like?

Charts of latents in the plane, of distances between latents against distances between objects, and of errors of
imagined latents; film strips come from `training.evaluation.strips`. All are drawn twice: for light and for dark pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from training.curves import as_it_is
from training.evaluation.evaluate import Evaluation, Material
from training.evaluation.latents import quantities
from training.evaluation.strips import Reader, imagined_episode, trips_to_goals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = 4  # categories that have panels of their own, at most
PAIRED = 700  # frames whose pairs are drawn
MANY = 1000  # frames from which on dots are small
FAR_OFF = 5.0  # errors of standing still, beyond which a logarithmic scale shows more
INK, PAPER = "#e8eaed", "#1a1c20"  # on dark pages
DARK: dict[Any, Any] = {
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "savefig.facecolor": PAPER, "text.color": INK,
    "axes.labelcolor": INK, "axes.edgecolor": "#8a909b", "xtick.color": INK, "ytick.color": INK,
    "grid.color": "#8a909b",
}  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """A drawn picture, and what it shows."""

    title: str
    caption: str
    light: Path
    dark: Path


def draw(found: Evaluation, material: Material, out: Path) -> list[Picture]:
    """Write all pictures into a folder, in the order in which they are shown."""
    from matplotlib import rc_context

    reader = Reader(material.fitted, material.dataset.category_names)
    skip = material.model.config.skip
    at_once = any(trip.imagined is not None for trip in material.trips or ())  # one plan all the way
    wanted: list[tuple[str, str, str, Callable[[], Figure | None]]] = [
        ("trips", "Plans, carried out",
         "Frames of the simulator after so many actions; green: where it should get to."
         + (" Dashed boxes: what the model imagined when it planned." if at_once else ""),
         lambda: trips_to_goals(material.trips, reader, skip) if material.trips else None),
        ("imagined", "A true episode, and how it was imagined",
         "Above: true frames and boxes. Below: the model saw the first frames, then no more than actions. A latent "
         "is shown by the training frame that it is nearest to, with boxes (+: mean place of a kind that comes and "
         "goes) that a linear map reads off it, and dashed the true ones.", lambda: imagined_episode(material, reader)),
        ("prediction", "Error of imagined latents", "", lambda: _prediction(found) if found.prediction else None),
        ("distances", "Distances between latents and between objects", "Pairs of frames.",
         lambda: _distances(found, material)),
        ("projection", "Latents of judged frames, in the plane of their greatest spread",
         "Coloured by where objects are, in shares of the image.", lambda: _projection(found, material)),
    ]  # fmt: skip
    pictures = []
    for name, title, caption, figure in wanted:
        picture = Picture(title, caption, out / f"{name}.png", out / f"{name}-dark.png")
        for path, colours in ((picture.light, {}), (picture.dark, DARK)):
            with rc_context(colours):
                drawn = figure()
                path.unlink(missing_ok=True)  # one of an earlier evaluation; or a link, which would be followed
                if drawn is not None:
                    drawn.savefig(path, dpi=110)
        if drawn is not None:
            pictures.append(picture)
    return pictures


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _positions(found: Evaluation, material: Material) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Frames and positions (K, 2) of the first object of each judged kind, or of the mean where they come and go."""
    kinds = material.dataset.category_names.values()
    judged = [kind for kind in kinds if f"{kind}, position" in found.knowledge][:KINDS]
    known = quantities(material.held_out, material.dataset.category_names)
    parts = {kind: known[f"{kind}, position"] for kind in judged}
    return {kind: (part.rows, part.values[:, :2]) for kind, part in parts.items()}


def _projection(found: Evaluation, material: Material) -> Figure | None:
    from sklearn.decomposition import PCA

    kinds = _positions(found, material)
    if not kinds:
        return None
    plane = PCA(2).fit_transform(material.held_out.latents)
    figure = _figure(7, 3.1 * len(kinds))
    for row, (name, (frames, places)) in zip(figure.subplots(len(kinds), 2, squeeze=False), kinds.items(), strict=True):
        for axes, values, axis in zip(row, places.T, "xy", strict=True):
            size = 4 if len(frames) > MANY else 16
            dots = axes.scatter(*plane[frames].T, c=values, s=size, cmap="viridis", linewidths=0)
            axes.set_title(as_it_is(f"{name}, {axis}"), fontsize=9, loc="left")
            axes.set_xticks([])
            axes.set_yticks([])
            figure.colorbar(dots, ax=axes, shrink=0.8)
    return figure


def _distances(found: Evaluation, material: Material) -> Figure | None:
    from scipy.spatial.distance import pdist

    kinds = _positions(found, material)
    if not kinds:
        return None
    figure = _figure(3.6 * len(kinds), 3.4)
    panels = figure.subplots(1, len(kinds), squeeze=False)[0]
    for axes, (name, (frames, places)) in zip(panels, kinds.items(), strict=True):
        latents = material.held_out.latents[frames][:PAIRED]
        axes.hexbin(pdist(places[:PAIRED]), pdist(latents), gridsize=40, cmap="viridis", bins="log", mincnt=1, lw=0)
        rank = found.knowledge[f"{name}, position"].spearman
        axes.set_title(as_it_is(f"{name}: Spearman {rank:.2f}"), fontsize=9, loc="left")
        axes.set_xlabel("distance of positions, image widths", fontsize=8)
        axes.set_ylabel("distance of latents", fontsize=8)
    return figure


def _prediction(found: Evaluation) -> Figure:
    figure = _figure(5, 3)
    axes = figure.subplots()
    steps = np.arange(1, len(found.prediction) + 1)
    axes.plot(steps, found.prediction, "o-")
    axes.axhline(1, color="C7", ls="--", lw=1, label="as if nothing moved")
    axes.legend(fontsize=8, frameon=False)
    axes.set_xlabel("steps ahead", fontsize=9)
    axes.set_ylabel("error over that of standing still", fontsize=9)
    if max(found.prediction) > FAR_OFF:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, 1.1 * max(1, *found.prediction))
    axes.grid(alpha=0.25)
    return figure
