"""Which part of a merged blob belongs to which object?

Objects that touch come as one component. Each brings the shape it had when last seen alone (a `Template`) and the
place where it is expected; `split` shifts the shapes until together they explain the component and its colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from labeling.masks import Mask
from labeling.trackers.template import RIM, Template

WORKING_SIZE = 96  # pixels: larger blobs are split at a smaller scale; a part's place is then precise enough
SWEEPS = 2  # rounds in which each part is shifted while the others rest
COVERAGE_NOISE = 0.1  # variance of a component's coverage that the shapes need not explain
CRUMB = 0.1  # share of the largest piece below which a piece of a flexible object is a leftover of its neighbours
MOTLEY = 0.1  # how well any colour fits a flexible object
TAIL = 3.0  # degrees of freedom, so to say, of where an object may be around its expected place
COLOUR_SPREAD = 30.0  # Lab units within which colours count as the same


@dataclass(frozen=True)
class Part:
    """An object that is thought to be inside a component."""

    template: Template
    expected: np.ndarray  # (2,) where its centre should be
    deviation: float  # pixels: how far it may well be from there
    flexible: bool = False  # it turns or bends: it is what the others leave of the component, told by its colour


@dataclass(frozen=True)
class Placement:
    """Where a part was found."""

    centre: np.ndarray  # (2,)
    alone: float  # share of its shape that no other part covers and the component confirms
    mask: Mask | None = None  # of a flexible part: what is left for it


def remainder(component: Mask, shapes: Sequence[Mask], least_area: float) -> Mask | None:
    """The largest piece of a component that the `shapes` inside it leave over; None below `least_area` pixels."""
    return largest_piece(left_over(component, shapes), component, least_area)


def left_over(component: Mask, shapes: Sequence[Mask]) -> np.ndarray:
    """The coverage (h, w) of a component without the `shapes` in it and their rims."""
    left = component.coverage.copy()
    for shape in shapes:
        inside = np.zeros((left.shape[0] + 2, left.shape[1] + 2), np.uint8)
        _draw(shape, Mask(component.x - 1, component.y - 1, inside))
        left[cv2.dilate(inside, RIM)[1:-1, 1:-1] >= 64] = 0
    return left


def largest_piece(left: np.ndarray, component: Mask, least_area: float) -> Mask | None:
    """The largest solid piece of what is `left` of a component; None below `least_area` pixels."""
    solid = cv2.morphologyEx((left >= 128).astype(np.uint8), cv2.MORPH_OPEN, RIM)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(solid, connectivity=4)
    if count < 2:
        return None
    best = 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())
    near = cv2.dilate((labels == best).astype(np.uint8), RIM)
    piece = Mask.cut(left * near, component.x, component.y)
    return piece if piece is not None and piece.area >= least_area else None


def _draw(shape: Mask, canvas: Mask) -> None:
    """Draw a mask into the coverage of another."""
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = shape.bounds, canvas.bounds
    left, top, right, bottom = max(ax1, bx1), max(ay1, by1), min(ax2, bx2), min(ay2, by2)
    if left < right and top < bottom:
        part = canvas.coverage[top - by1 : bottom - by1, left - bx1 : right - bx1]
        np.maximum(part, shape.coverage[top - ay1 : bottom - ay1, left - ax1 : right - ax1], out=part)


def split(component: Mask, parts: Sequence[Part], image: np.ndarray) -> tuple[list[Placement], float]:
    """Place `parts` so that together they explain `component` of the RGB `image`.

    Returns the placements and the share of the component and shapes, 0 to 1, that stays unexplained.
    """
    boxes = [component.bounds, *(part.template.reach(part.expected) for part in parts)]
    x1, y1 = (min(box[k] for box in boxes) - 2 for k in (0, 1))
    x2, y2 = (max(box[k] for box in boxes) + 2 for k in (2, 3))
    factor = min(1.0, WORKING_SIZE / max(x2 - x1, y2 - y1))
    if factor > 0.7:
        factor = 1.0
    size = round((x2 - x1) * factor), round((y2 - y1) * factor)
    scale = np.array(size) / (x2 - x1, y2 - y1)
    target, known, lab = _scene(component, image, (x1, y1, x2, y2), size)
    templates = [part.template.shrunk(factor) if factor < 1 else part.template for part in parts]
    affinity = _affinity(lab, parts, target)
    expected = [(part.expected - (x1, y1)) * scale for part in parts]
    deviations = [max(part.deviation * factor, 0.3) for part in parts]
    window = (0, 0, *size)
    centres = [point.copy() for point in expected]
    drawn = [
        target if part.flexible else template.placed(centre, window)
        for part, template, centre in zip(parts, templates, centres, strict=True)
    ]
    stale = [not part.flexible for part in parts]
    for _ in range(SWEEPS):
        moved = 0.0
        for i, template in enumerate(templates):
            if not stale[i]:
                continue
            stale[i] = False
            others = _explained(drawn, affinity, i)
            gain = ((target - np.maximum(others, affinity[i])) ** 2 - (target - others) ** 2) * known
            centre = _best_shift(gain, template, expected[i], deviations[i])
            step = float(np.abs(centre - centres[i]).max())
            if step > 0:
                stale = [k != i and not part.flexible for k, part in enumerate(parts)]
            moved = max(moved, step)
            centres[i], drawn[i] = centre, template.placed(centre, window)
        if moved < 0.1:
            break
    found = [centre / scale + (x1, y1) for centre in centres]
    placements = []
    for i, (part, shape) in enumerate(zip(parts, drawn, strict=True)):
        shown = np.clip(shape * affinity[i] - _explained(drawn, affinity, i), 0, 1) * target * known
        alone = float(shown.sum()) / max(float((shape * known).sum()), 1e-6)
        mask = _left_over(component, parts, found, i, image) if part.flexible else None
        placements.append(Placement(found[i], alone, mask))
    error = float((np.abs(target - _explained(drawn, affinity)) * known).sum()) / max(float(target.sum()), 1e-6)
    return placements, error


def _left_over(component: Mask, parts: Sequence[Part], centres: list[np.ndarray], own: int, image: np.ndarray) -> Mask:
    """The component without the pixels that the other parts cover and whose colour is theirs."""
    left = component.coverage.copy()
    for i, part in enumerate(parts):
        shape = part.template.mask(centres[i], *image.shape[:2])
        if i == own or shape is None:
            continue
        bounds = component.bounds
        x1, y1, x2, y2 = shape.bounds
        x1, y1, x2, y2 = max(x1 - 1, bounds[0]), max(y1 - 1, bounds[1]), min(x2 + 1, bounds[2]), min(y2 + 1, bounds[3])
        if x1 >= x2 or y1 >= y2:
            continue
        lab = cv2.cvtColor(np.ascontiguousarray(image[y1:y2, x1:x2]), cv2.COLOR_RGB2LAB).astype(np.float32)
        mine, other = (colour_fit(lab, p.template.colour) for p in (parts[own], part))
        window = Mask(x1, y1, np.zeros((y2 - y1, x2 - x1), np.uint8))
        _draw(shape, window)
        near = cv2.dilate(window.coverage, RIM) > 25
        left[y1 - bounds[1] : y2 - bounds[1], x1 - bounds[0] : x2 - bounds[0]][
            near & ((other > mine) | (mine < 0.3))
        ] = 0
    count, labels, stats, _ = cv2.connectedComponentsWithStats((left >= 64).astype(np.uint8), connectivity=8)
    crumbs = stats[:, cv2.CC_STAT_AREA] < CRUMB * stats[1:, cv2.CC_STAT_AREA].max(initial=0)
    crumbs[0] = False
    if count > 2 and crumbs.any():
        left[cv2.dilate(crumbs[labels].astype(np.uint8), RIM) > 0] = 0
    return Mask.cut(left, component.x, component.y) or component


def _scene(
    component: Mask, image: np.ndarray, window: tuple[int, int, int, int], size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The component's coverage, whether a pixel lies inside the frame, and the Lab colours, in a window."""
    x1, y1, x2, y2 = window
    height, width = image.shape[:2]
    target = np.zeros((y2 - y1, x2 - x1), np.float32)
    cx1, cy1, cx2, cy2 = component.bounds
    target[cy1 - y1 : cy2 - y1, cx1 - x1 : cx2 - x1] = component.coverage / np.float32(255)
    known = np.zeros_like(target)
    colours = np.zeros((*target.shape, 3), np.uint8)
    left, top, right, bottom = max(x1, 0), max(y1, 0), min(x2, width), min(y2, height)
    known[top - y1 : bottom - y1, left - x1 : right - x1] = 1
    colours[top - y1 : bottom - y1, left - x1 : right - x1] = image[top:bottom, left:right]
    if size != (x2 - x1, y2 - y1):
        target, known, colours = (cv2.resize(a, size, interpolation=cv2.INTER_AREA) for a in (target, known, colours))
    return target, known, cv2.cvtColor(colours, cv2.COLOR_RGB2LAB).astype(np.float32)


def _affinity(lab: np.ndarray, parts: Sequence[Part], target: np.ndarray) -> list[np.ndarray]:
    """How well each part's colour fits each pixel compared with the best part, 0 to 1; 1 outside the component."""
    fits = [_part_fit(lab, part) + 0.02 for part in parts]
    best = np.maximum.reduce(fits)
    outside = target < 0.3
    return [np.where(outside, np.float32(1), fit / best) for fit in fits]


def _part_fit(lab: np.ndarray, part: Part) -> np.ndarray:
    """How well Lab pixels fit a part's colour; a large flexible object has other colours beside its mean."""
    fit = colour_fit(lab, part.template.colour)
    return np.maximum(fit, MOTLEY) if part.flexible else fit


def colour_fit(lab: np.ndarray, colour: np.ndarray, spread: float = COLOUR_SPREAD) -> np.ndarray:
    """How near Lab pixels (h, w, 3) float32 are to a colour, 0 to 1; `spread` is a deviation in Lab units."""
    away = lab - colour.astype(np.float32)
    return np.exp(np.einsum("ijk,ijk->ij", away, away) / (-2 * spread**2))


def _explained(drawn: list[np.ndarray], affinity: list[np.ndarray], without: int = -1) -> np.ndarray:
    """How much of each pixel the parts account for, all or all but one."""
    shapes = [shape * fit for i, (shape, fit) in enumerate(zip(drawn, affinity, strict=True)) if i != without]
    return np.maximum.reduce(shapes) if shapes else np.zeros_like(drawn[0])


def _best_shift(gain: np.ndarray, template: Template, expected: np.ndarray, deviation: float) -> np.ndarray:
    """The centre near `expected` at which the template gathers the least `gain` (less is better), to a fraction."""
    side = math.sqrt(template.area)
    reach = math.ceil(min(max(3 * deviation, 0.6 * side + 1), 1.5 * side + 2))
    shape, x1, y1 = template.stamp(expected)
    base = template.snapped(expected)
    x2, y2 = x1 + shape.shape[1], y1 + shape.shape[0]
    height, width = gain.shape
    left, top, right, bottom = x1 - reach, y1 - reach, x2 + reach, y2 + reach
    pad = max(0, -left, -top, right - width, bottom - height)
    field = cv2.copyMakeBorder(gain, pad, pad, pad, pad, cv2.BORDER_REPLICATE) if pad else gain
    field = field[top + pad : bottom + pad, left + pad : right + pad]
    energy = cv2.matchTemplate(field, shape, cv2.TM_CCORR) / (2 * COVERAGE_NOISE)
    steps = np.arange(-reach, reach + 1)
    dx, dy = steps + base[0] - expected[0], steps + base[1] - expected[1]
    # A long-tailed prior: what flies on is where it is expected, what bounced may be anywhere near.
    energy = energy + TAIL * np.log1p((dx[None, :] ** 2 + dy[:, None] ** 2) / (2 * TAIL * deviation**2))
    row, column = divmod(int(energy.argmin()), energy.shape[1])
    fraction = np.array([_valley(energy[row], column), _valley(energy[:, column], row)])
    return base + np.array([column - reach, row - reach]) + fraction


def _valley(values: np.ndarray, index: int) -> float:
    """Offset of the lowest point of a parabola through `index` and its neighbours, -0.5 to 0.5."""
    if not 0 < index < len(values) - 1:
        return 0.0
    before, here, after = values[index - 1 : index + 2].tolist()
    bend = before - 2 * here + after
    return min(max((before - after) / (2 * bend), -0.5), 0.5) if bend > 1e-9 else 0.0
