"""What shape did an object have when it was last seen alone?

A `Template` keeps a soft mask around the object's centre and draws it elsewhere, shifted by fractions of a pixel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import cv2
import numpy as np

from labeling.masks import Mask

FINE_SIZE = 48  # pixels: small shapes are kept this finely, so that shifting them does not blur their edges
FINEST = 8
QUARTERS = 4  # steps of a pixel in which large shapes are shifted
COLOUR_PIXELS = 900  # larger objects are sampled for their mean colour
RIM = np.ones((3, 3), np.uint8)  # one pixel around a shape, where colours mix


@dataclass(frozen=True)
class Template:
    """The remembered shape and colour of an object, around its centre."""

    seen: Mask  # as it was seen
    shape: np.ndarray  # (h, w) float32, 0 to 1, `fine` times enlarged
    centre: np.ndarray  # (2,) the object's centre in the enlarged shape
    fine: int
    picture: np.ndarray  # (h, w, 3) RGB, what was behind `seen`
    area: float  # covered pixels of the frame
    before: np.ndarray  # (2,) pixels from the left and top edge of the object to its centre
    after: np.ndarray  # (2,) and from there to its right and bottom edge
    _stamps: dict[tuple[int, int], np.ndarray] = field(default_factory=dict, repr=False, compare=False)
    _masks: dict[int, Mask | None] = field(default_factory=dict, repr=False, compare=False)  # by the stamp's id

    @classmethod
    def remember(cls, mask: Mask, centre: np.ndarray, image: np.ndarray) -> Template:
        """Keep the shape of `mask` around `centre` (2,), both in the frame, and its colours in the RGB `image`."""
        height, width = mask.coverage.shape
        fine = min(max(FINE_SIZE // max(height, width), 1), FINEST)
        before = np.array([centre[0] - mask.x, centre[1] - mask.y])
        if fine > 1:
            padded = cv2.copyMakeBorder(mask.coverage, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
            enlarged = cv2.resize(padded, None, fx=fine, fy=fine, interpolation=cv2.INTER_LINEAR)
            shape = (enlarged >= 128).astype(np.float32)
            middle = (before + 1) * fine
        else:
            shape, middle = mask.coverage * np.float32(1 / 255), before
        area = float(shape.sum()) / fine**2
        picture = image[mask.y : mask.y + height, mask.x : mask.x + width].copy()
        return cls(mask, shape, middle, fine, picture, area, before, np.array([width, height]) - before)

    @cached_property
    def colour(self) -> np.ndarray:
        """Mean Lab colour of its interior, (3,): worked out when objects meet, as most never do."""
        return mean_colour(self.seen.coverage, self.picture)

    def stamp(self, centre: np.ndarray) -> tuple[np.ndarray, int, int]:
        """The shape in pixels of the frame, (h, w) float32, and the x, y of its corner, for a centre in the frame."""
        steps = self._steps
        column = round((float(centre[0]) - float(self.centre[0]) / self.fine) * steps)
        row = round((float(centre[1]) - float(self.centre[1]) / self.fine) * steps)
        (x, right), (y, down) = divmod(column, steps), divmod(row, steps)
        if (right, down) not in self._stamps:
            self._stamps[right, down] = self._shifted(right, down)
        return self._stamps[right, down], x, y

    def snapped(self, centre: np.ndarray) -> np.ndarray:
        """The centre that `stamp` draws at for `centre`: the nearest one that it can."""
        corner = np.round((np.asarray(centre) - self.centre / self.fine) * self._steps) / self._steps
        return np.asarray(corner + self.centre / self.fine)

    def placed(self, centre: np.ndarray, window: tuple[int, int, int, int]) -> np.ndarray:
        """The shape with its centre at `centre`, drawn into the frame's x1, y1, x2, y2 `window`; (h, w) float32."""
        shape, x, y = self.stamp(centre)
        x1, y1, x2, y2 = window
        drawn = np.zeros((y2 - y1, x2 - x1), np.float32)
        left, top = max(x, x1), max(y, y1)
        right, bottom = min(x + shape.shape[1], x2), min(y + shape.shape[0], y2)
        if left < right and top < bottom:
            drawn[top - y1 : bottom - y1, left - x1 : right - x1] = shape[top - y : bottom - y, left - x : right - x]
        return drawn

    def reach(self, centre: np.ndarray) -> tuple[int, int, int, int]:
        """The window of the frame that the shape touches when its centre is at `centre`."""
        shape, x, y = self.stamp(centre)
        return x, y, x + shape.shape[1], y + shape.shape[0]

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Pixels (2,) from its left and top edge to its centre, and from there to its right and bottom edge.

        Edges are where coverage passes one half; `before` and `after` go to the outermost pixels.
        """
        solid = self.shape >= 0.5
        columns, rows = np.flatnonzero(solid.any(0)), np.flatnonzero(solid.any(1))
        if not len(columns):
            return self.before, self.after
        first, last = np.array([columns[0], rows[0]]), np.array([columns[-1], rows[-1]]) + 1
        return (self.centre - first) / self.fine, (last - self.centre) / self.fine

    def mask(self, centre: np.ndarray, height: int, width: int) -> Mask | None:
        """The shape at `centre` as a mask, clipped at the frame's borders; None if nothing is left."""
        shape, x, y = self.stamp(centre)
        if id(shape) not in self._masks:
            self._masks[id(shape)] = Mask.cut((shape * 255 + 0.5).astype(np.uint8))
        whole = self._masks[id(shape)]
        if whole is None:
            return None
        x1, y1, x2, y2 = whole.bounds
        if x + x1 >= 0 and y + y1 >= 0 and x + x2 <= width and y + y2 <= height:
            return Mask(x + x1, y + y1, whole.coverage)
        left, top, right, bottom = max(-x, x1), max(-y, y1), min(width - x, x2), min(height - y, y2)
        if left >= right or top >= bottom:
            return None
        return Mask.cut(whole.coverage[top - y1 : bottom - y1, left - x1 : right - x1], x + left, y + top)

    def roughly(self, centre: np.ndarray, height: int, width: int) -> Mask | None:
        """The same to the nearest pixel, for comparisons: nothing is drawn."""
        x, y = (round(float(c - b)) for c, b in zip(centre, self.before, strict=True))
        rows, columns = self.seen.coverage.shape
        left, top, right, bottom = max(x, 0), max(y, 0), min(x + columns, width), min(y + rows, height)
        if left >= right or top >= bottom:
            return None
        return Mask(left, top, self.seen.coverage[top - y : bottom - y, left - x : right - x])

    def shrunk(self, factor: float) -> Template:
        """The same at `factor` of its size (below 1), for work at a smaller scale."""
        scale = factor / self.fine
        size = [max(1, round(side * scale)) for side in self.shape.shape[::-1]]
        shape = cv2.resize(self.shape, size, interpolation=cv2.INTER_AREA)
        middle = self.centre * np.array(size) / self.shape.shape[::-1]
        return Template(
            self.seen, shape, middle, 1, self.picture, float(shape.sum()), self.before * factor, self.after * factor
        )

    @property
    def _steps(self) -> int:
        """Steps of a pixel in which the shape can be shifted."""
        return self.fine if self.fine > 1 else QUARTERS

    def _shifted(self, right: int, down: int) -> np.ndarray:
        """The shape at the frame's scale, shifted by some steps of a pixel."""
        height, width = self.shape.shape
        if self.fine == 1:
            if not right and not down:
                return self.shape
            matrix = np.array([[1, 0, right / QUARTERS], [0, 1, down / QUARTERS]])
            return np.asarray(cv2.warpAffine(self.shape, matrix, (width + 1, height + 1)))
        columns, rows = -(-(width + right) // self.fine), -(-(height + down) // self.fine)
        canvas = np.zeros((rows * self.fine, columns * self.fine), np.float32)
        canvas[down : down + height, right : right + width] = self.shape
        return np.asarray(cv2.resize(canvas, (columns, rows), interpolation=cv2.INTER_AREA))


def mean_colour(coverage: np.ndarray, picture: np.ndarray) -> np.ndarray:
    """Mean Lab colour (3,) of the pixels of an RGB picture (h, w, 3) that lie deep inside a mask (h, w) uint8."""
    step = max(1, int((coverage.size / COLOUR_PIXELS) ** 0.5))
    deep = cv2.blur(coverage, (3, 3), borderType=cv2.BORDER_CONSTANT)[::step, ::step]
    inside = deep >= 0.85 * max(int(deep.max()), 1)
    colours = picture[::step, ::step][inside]
    if not len(colours):
        colours = picture.reshape(-1, 3)
    mean = np.float32(colours.mean(0) / 255).reshape(1, 1, 3)
    light, a, b = cv2.cvtColor(mean, cv2.COLOR_RGB2LAB)[0, 0]
    return np.array([light * 2.55, a + 128, b + 128])
