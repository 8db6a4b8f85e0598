"""What does a world model see, imagine and do, frame by frame?

Two film strips: an episode beside how it was imagined, and trips to goals. A latent has no picture of its own: the
training frame whose latent lies nearest stands for it, and linear maps, fitted on training frames, read off where
objects are. A kind of objects that come and go has no boxes to read, but a mean place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from training.dataset import observations
from training.evaluation.evaluate import Material
from training.evaluation.latents import Seen, episode_of, quantities
from training.evaluation.trips import Trip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE, GAP, ABOVE, SIDE_MARGIN = 1.1, 0.06, 0.22, 0.25  # inches: of a picture, between two, for its title, for a row's
AHEAD = 8  # frames that are imagined
ALONG = 9  # frames of a trip that are shown, at most
GREEN = "#00c853"  # where objects should be
OUTLINES = ("#ffb000", "#33a0ff", "#b48cff", "#ff6ac1", "#00d5d5")
DASHED = (0, (2, 1.2))


class Reader:
    """Where objects are, read off latents."""

    def __init__(self, seen: Seen, names: Mapping[int, str]) -> None:
        """Fit on frames; `names` are the categories."""
        same = seen.present & (seen.category == seen.category[0])
        alone = (seen.category[0] == seen.category[0][:, None]).sum(axis=0) == 1  # the only one of its kind
        self.always = np.flatnonzero(same.all(axis=0) & (alone | seen.ordered))
        self.kinds = seen.category[0, self.always]
        self._boxes = _line(seen.latents, seen.boxes[:, self.always].reshape(len(seen.boxes), -1))
        known = quantities(seen, names)
        others = {kind: f"{name}, position" for kind, name in names.items() if kind not in self.kinds}
        found = {kind: known[name] for kind, name in others.items() if name in known}
        self._places = {kind: _line(seen.latents[part.rows], part.values[:, :2]) for kind, part in found.items()}

    def boxes(self, latents: np.ndarray) -> np.ndarray:
        """Boxes (M, n, 4) of objects in their order that are there in all frames, of `kinds` (n,)."""
        return _apply(self._boxes, latents).reshape(len(latents), len(self.always), 4)

    def places(self, latents: np.ndarray) -> dict[int, np.ndarray]:
        """The mean place (M, 2) of each other category: its objects come and go, or have no order."""
        return {kind: _apply(line, latents) for kind, line in self._places.items()}


def imagined_episode(material: Material, reader: Reader) -> Figure | None:
    """The longest judged episode above, and below how it goes on from its first frames by imagination."""
    model, dataset, skip = material.model, material.dataset, material.model.config.skip
    episodes = np.unique(episode_of(dataset, material.held_out.frames))
    episode = int(episodes[dataset.episode_length[episodes].argmax()])
    context = model.model.context
    length = min(context + AHEAD, observations(dataset, int(dataset.episode_length[episode]), skip))
    if length <= context:
        return None
    first = int(dataset.episode_offset[episode])
    rows = slice(first, first + (length - 1) * skip + 1, skip)
    truth = {name: np.asarray(dataset.array(name)[rows]) for name in ("frames", "boxes", "present")}
    actions = np.asarray(dataset.array("actions")[first : first + length * skip], np.float32).reshape(length, -1)
    latents = model.encode(truth["frames"])
    path = model.rollout(latents[None, :context], torch.as_tensor(actions[None, None, : length - 1]))
    imagined = path[0, 0].float().cpu().numpy()
    likeness = material.fitted.frames[_nearest(material.fitted.latents, imagined)]
    boxes, places = reader.boxes(imagined), reader.places(imagined)
    category = dataset.category[episode]
    figure, (upper, lower) = _sheet(2, length)
    for step in range(length):
        _show(upper[step], truth["frames"][step])
        _show(lower[step], np.asarray(dataset.array("frames")[int(likeness[step])]))
        there = np.flatnonzero(truth["present"][step])
        for slot in there:
            for axes, style in ((upper[step], "-"), (lower[step], DASHED)):
                _outline(axes, truth["boxes"][step, slot], _colour(category[slot]), style)
        for kind, box in zip(reader.kinds, boxes[step], strict=True):
            _outline(lower[step], box, _colour(kind), "-")
        for kind in places.keys() & set(category[there].tolist()):
            _cross(lower[step], places[kind][step], _colour(kind))
        upper[step].set_title("seen" if step < context else f"+{step - context + 1}", fontsize=8)
    upper[0].set_ylabel("true", fontsize=9)
    lower[0].set_ylabel("imagined", fontsize=9)
    return figure


def trips_to_goals(trips: Sequence[Trip], reader: Reader, skip: int) -> Figure:
    """A row for each trip: its start, what the simulator showed on the way, and the goal."""
    columns = min(ALONG, max(len(trip.frames) for trip in trips))
    figure, grid = _sheet(len(trips), columns + 1)
    for row, trip in zip(grid, trips, strict=True):
        shown = np.unique(np.linspace(0, len(trip.frames) - 1, columns).round().astype(int))
        counted_on = None if trip.imagined is None else reader.boxes(trip.imagined)
        for axes, step in zip(row, shown, strict=False):
            _show(axes, trip.frames[step])
            axes.set_title(f"{step}" if step else "start", fontsize=8)
            if counted_on is not None and step and step % skip == 0:
                for kind, box in zip(reader.kinds, counted_on[step // skip - 1], strict=True):
                    _outline(axes, box, _colour(kind), DASHED)
        for axes in row[len(shown) : -1]:
            axes.set_axis_off()
        _show(row[-1], trip.goal)
        row[-1].set_title("goal", fontsize=8)
        for axes in (*row[: len(shown)], row[-1]):
            for box in trip.wanted:
                _outline(axes, box, GREEN, "-")
        row[0].set_ylabel("reached" if trip.reached else "missed", fontsize=9, weight="bold" if trip.reached else None)
    return figure


def _sheet(rows: int, columns: int) -> tuple[Figure, np.ndarray]:
    from matplotlib.figure import Figure

    width, height = SIDE * columns + SIDE_MARGIN, (SIDE + ABOVE) * rows
    figure = Figure(figsize=(width, height))  # places are given: laying out so many pictures would take seconds
    places = {
        "left": SIDE_MARGIN / width, "right": 1 - GAP / width, "top": 1 - ABOVE / height, "bottom": GAP / height,
        "wspace": GAP / SIDE, "hspace": ABOVE / SIDE,
    }  # fmt: skip
    return figure, figure.subplots(rows, columns, squeeze=False, gridspec_kw=places)


def _show(axes: Axes, image: np.ndarray) -> None:
    """A picture, in shares of its sides."""
    height, width = image.shape[:2]
    axes.imshow(image, extent=(0, 1, 1, 0), aspect=height / width)
    axes.set_xlim(0, 1)
    axes.set_ylim(1, 0)
    axes.set_xticks([])
    axes.set_yticks([])


def _outline(axes: Axes, box: np.ndarray, colour: str, style: object) -> None:
    from matplotlib.patches import Rectangle

    x, y, w, h = box
    thick = 1.4 if style == "-" else 0.9
    axes.add_patch(Rectangle((x - w / 2, y - h / 2), w, h, fill=False, color=colour, lw=thick, ls=style))


def _cross(axes: Axes, place: np.ndarray, colour: str) -> None:
    axes.plot(*place, "+", color=colour, ms=8, mew=1.6)


def _colour(category: int) -> str:
    return OUTLINES[category % len(OUTLINES)]


def _line(latents: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope and offset of the linear map that fits best, held back where frames are few."""
    from sklearn.linear_model import RidgeCV

    if not values.shape[1]:
        return np.zeros((latents.shape[1], 0)), np.zeros(0)
    fitted = RidgeCV(np.logspace(-6, 4, 11)).fit(latents.astype(np.float64), values)
    return np.atleast_2d(fitted.coef_).T, fitted.intercept_


def _apply(line: tuple[np.ndarray, np.ndarray], latents: np.ndarray) -> np.ndarray:
    return latents @ line[0] + line[1]


def _nearest(latents: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    from scipy.spatial.distance import cdist

    nearest: np.ndarray = cdist(wanted, latents).argmin(axis=1)
    return nearest
