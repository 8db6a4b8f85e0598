"""What does a world model see and imagine?

Four pictures of an evaluation: latents in the plane, distances of latents against distances of objects, errors of
imagined latents, and an imagined episode beside the true one. A latent has no picture of its own: the training frame
whose latent lies nearest stands for it, with boxes that a linear map, fitted on training frames, reads off.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from training.curves import as_it_is
from training.dataset import Windows
from training.dataset_format import SplitName
from training.evaluation.evaluate import Evaluation, Material
from training.evaluation.latents import MEMORY, Seen, quantities

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = 4  # categories that have panels of their own, at most
PAIRED = 700  # frames whose pairs are drawn
SHOWN = 8  # frames of an episode
OUTLINES = ("#ffb000", "#33a0ff", "#7ddc5a", "#ff6ac1", "#ffffff")


def draw(found: Evaluation, material: Material, out: Path) -> dict[str, Path]:
    """Write all pictures into a folder; paths by title."""
    figures = {
        "Latents of held-out frames, in the plane of their greatest spread": ("projection", _projection(material)),
        "Distances between latents and between objects": ("distances", _distances(found, material)),
        "Error of imagined latents": ("prediction", _prediction(found)),
        "A true episode, and how it was imagined": ("imagined", _imagined(material, found.split == "validation")),
    }
    paths = {}
    for title, (name, figure) in figures.items():
        if figure is not None:
            paths[title] = out / f"{name}.png"
            figure.savefig(paths[title], dpi=110)
    return paths


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _positions(material: Material) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Frames and positions (K, 2) of each category's first object, or of the mean where they come and go."""
    found = quantities(material.held_out, material.model.data.categories)
    names = [name for name in found if name.endswith(", position") and not name.startswith("all, ")][:KINDS]
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


def _imagined(material: Material, held_out: bool) -> Figure | None:
    """The longest stretch of one episode: true frames above, below what the model imagines from the first ones."""
    model, dataset = material.model, material.dataset
    split: SplitName = "validation" if held_out else "train"
    context, skip = model.model.context, model.config.skip
    longest = int(dataset.episode_length[dataset.split(split)].max())
    length = min(context + SHOWN, longest // skip)
    batch = next(Windows(dataset, split, length, skip, 1, seed=1, memory_limit=MEMORY).batches(0))
    latents = model.encode(batch.frames)
    actions = batch.actions[:, None, : length - 1]
    imagined = model.rollout(latents[:, :context], actions)[0, 0].float().cpu().numpy()
    nearest = _nearest(material.fitted.latents, imagined)
    rows = material.fitted.frames[nearest]
    pictures = np.stack([np.asarray(dataset.array("frames")[int(row)]) for row in rows])
    read = _reader(material.fitted)
    figure = _figure(1.35 * length, 3.2)
    upper, lower = figure.subplots(2, length)
    truth, present = batch.boxes[0].numpy(), batch.present[0].numpy()
    boxes = read(imagined) if read else None
    for step in range(length):
        _picture(upper[step], batch.frames[0, step].numpy(), truth[step][present[step]])
        _picture(lower[step], pictures[step], boxes[step] if boxes is not None else np.empty((0, 4)))
        upper[step].set_title("seen" if step < context else f"+{step - context + 1}", fontsize=8)
    upper[0].set_ylabel("true", fontsize=8)
    lower[0].set_ylabel("imagined", fontsize=8)
    return figure


def _nearest(latents: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    from scipy.spatial.distance import cdist

    nearest: np.ndarray = cdist(wanted, latents).argmin(axis=1)
    return nearest


def _reader(seen: Seen) -> Callable[[np.ndarray], np.ndarray] | None:
    """A linear map from latents to the boxes of objects that are always there; None if there are none."""
    from sklearn.linear_model import Ridge

    always = seen.present.all(axis=0)
    if not always.any():
        return None
    ridge = Ridge(1e-3).fit(seen.latents.astype(np.float64), seen.boxes[:, always].reshape(len(seen.boxes), -1))
    return lambda latents: ridge.predict(latents).reshape(len(latents), -1, 4)


def _picture(axes: Axes, image: np.ndarray, boxes: np.ndarray) -> None:
    from matplotlib.patches import Rectangle

    height, width = image.shape[:2]
    axes.imshow(image, extent=(0, width, height, 0))
    for number, (x, y, w, h) in enumerate(boxes):
        corner = ((x - w / 2) * width, (y - h / 2) * height)
        colour = OUTLINES[number % len(OUTLINES)]
        axes.add_patch(Rectangle(corner, w * width, h * height, fill=False, color=colour, lw=1.2))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_xticks([])
    axes.set_yticks([])
