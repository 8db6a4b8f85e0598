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
from training.evaluation.latents import quantities, together
from training.evaluation.strips import Reader, imagined_episode, trips_to_goals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = 4  # categories that have panels of their own, at most
PAIRED = 700  # frames whose pairs are drawn
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

    reader = Reader(material.fitted, material.model.data.categories)
    skip = material.model.config.skip
    wanted: list[tuple[str, str, str, Callable[[], Figure | None]]] = [
        ("trips", "Plans, carried out",
         "Frames of the simulator after so many actions of a plan; green: where it should get to. Dashed boxes: what "
         "the model imagined when it planned.",
         lambda: trips_to_goals(material.trips, reader, skip) if material.trips else None),
        ("imagined", "A true episode, and how it was imagined",
         "Above: true frames and boxes. Below: the model saw the first frames, then only actions; each imagined latent "
         "is shown by the training frame that it is nearest to, with boxes (+: mean place of a kind that comes and "
         "goes) that a linear map reads off it, and dashed the true ones.", lambda: imagined_episode(material, reader)),
        ("prediction", "Error of imagined latents", "", lambda: _prediction(found)),
        ("distances", "Distances between latents and between objects", "Pairs of frames.",
         lambda: _distances(found, material)),
        ("projection", "Latents of judged frames, in the plane of their greatest spread",
         "Coloured by where objects are, in shares of the image.", lambda: _projection(material)),
    ]  # fmt: skip
    pictures = []
    for name, title, caption, figure in wanted:
        picture = Picture(title, caption, out / f"{name}.png", out / f"{name}-dark.png")
        for path, colours in ((picture.light, {}), (picture.dark, DARK)):
            with rc_context(colours):
                drawn = figure()
                if drawn is not None:
                    drawn.savefig(path, dpi=110)
        if drawn is not None:
            pictures.append(picture)
    return pictures


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _positions(material: Material) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Frames and positions (K, 2) of each category's first object, or of the mean where they come and go."""
    found = quantities(material.held_out, material.model.data.categories)
    every = f"{together(material.model.data.categories)}, position"
    names = [name for name in found if name.endswith(", position") and name != every][:KINDS]
    return {name.removesuffix(", position"): (found[name].rows, found[name].values[:, :2]) for name in names}


def _projection(material: Material) -> Figure | None:
    from sklearn.decomposition import PCA

    kinds = _positions(material)
    if not kinds:
        return None
    plane = PCA(2).fit_transform(material.held_out.latents)
    figure = _figure(7, 3.1 * len(kinds))
    for row, (name, (frames, places)) in zip(figure.subplots(len(kinds), 2, squeeze=False), kinds.items(), strict=True):
        for axes, values, axis in zip(row, places.T, "xy", strict=True):
            dots = axes.scatter(*plane[frames].T, c=values, s=4, cmap="viridis", linewidths=0)
            axes.set_title(as_it_is(f"{name}, {axis}"), fontsize=9, loc="left")
            axes.set_xticks([])
            axes.set_yticks([])
            figure.colorbar(dots, ax=axes, shrink=0.8)
    return figure


def _distances(found: Evaluation, material: Material) -> Figure | None:
    from scipy.spatial.distance import pdist

    kinds = _positions(material)
    if not kinds:
        return None
    figure = _figure(3.6 * len(kinds), 3.4)
    panels = figure.subplots(1, len(kinds), squeeze=False)[0]
    for axes, (name, (frames, places)) in zip(panels, kinds.items(), strict=True):
        latents = material.held_out.latents[frames][:PAIRED]
        axes.hexbin(pdist(places[:PAIRED]), pdist(latents), gridsize=40, cmap="magma_r", bins="log", linewidths=0)
        known = found.knowledge.get(f"{name}, position")
        rank = f": Spearman {known.spearman:.2f}" if known else ""
        axes.set_title(as_it_is(f"{name}{rank}"), fontsize=9, loc="left")
        axes.set_xlabel("distance of positions, image widths", fontsize=8)
        axes.set_ylabel("distance of latents", fontsize=8)
    return figure


def _prediction(found: Evaluation) -> Figure:
    figure = _figure(5, 3)
    axes = figure.subplots()
    steps = np.arange(1, len(found.prediction) + 1)
    axes.plot(steps, found.prediction, "o-")
    axes.axhline(1, color="C7", ls="--", lw=1)
    axes.text(steps[0], 1.02, "as if nothing moved", fontsize=8, color="C7")
    axes.set_xlabel("steps ahead", fontsize=9)
    axes.set_ylabel("error over that of standing still", fontsize=9)
    axes.set_ylim(0, max(1.15, *found.prediction))
    axes.grid(alpha=0.25)
    return figure
