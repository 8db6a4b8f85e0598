"""How do labels look on a picture?

Takes an RGB picture and draws boxes with their instance numbers, and trails of where objects were, in category colours.
Every line has a dark rim, so that it reads on any background; sizes follow the picture's, so that labels are as
legible on a thumbnail as on a large frame. Coordinates are continuous pixels, drawn to a fraction of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np

from labeling.palette import ink, rgb

SHIFT = 4  # OpenCV draws coordinates in sixteenths of a pixel
RIM = (16, 18, 22)
RIM_OPACITY = 0.55


@dataclass(frozen=True)
class Style:
    """Sizes of lines and letters for a picture, in its pixels."""

    line: int
    letters: int

    @classmethod
    def for_size(cls, height: int, width: int) -> Style:
        """Sizes that look the same on a screen, whatever the picture's size."""
        longest = max(height, width)
        return cls(max(2, round(longest / 480)), max(13, round(longest / 60)))


def draw_box(image: np.ndarray, box: np.ndarray, colour: str, style: Style) -> None:
    """Draw the outline of `box` (x1, y1, x2, y2) on `image` (H, W, 3)."""
    x1, y1, x2, y2 = (int(v) for v in _sixteenths(np.asarray(box, np.float64)))
    rim = style.line + max(2, 2 * (style.line // 2))
    margin = (rim + 2) << SHIFT
    area = _window(image, x1 - margin, y1 - margin, x2 + margin, y2 + margin)
    if area is None:
        return
    part, left, top = area
    corners = (x1 - (left << SHIFT), y1 - (top << SHIFT)), (x2 - (left << SHIFT), y2 - (top << SHIFT))
    shade = part.copy()
    cv2.rectangle(shade, *corners, RIM, rim, cv2.LINE_AA, SHIFT)
    cv2.addWeighted(shade, RIM_OPACITY, part, 1 - RIM_OPACITY, 0, dst=part)
    cv2.rectangle(part, *corners, rgb(colour), style.line, cv2.LINE_AA, SHIFT)


def draw_tag(image: np.ndarray, box: np.ndarray, text: str, colour: str, style: Style) -> None:
    """Draw `text` on a small plate above `box`, or inside it where there is no room above."""
    plate = _plate(text, colour, style.letters)
    height, width = plate.shape[:2]
    x = round(float(box[0]) - style.line / 2)
    y = round(float(box[1]) - style.line / 2) - height
    if y < 0:
        y = round(float(box[1]) + style.line / 2)
    x, y = min(max(0, x), image.shape[1] - width), min(max(0, y), image.shape[0] - height)
    if x >= 0 and y >= 0:
        image[y : y + height, x : x + width] = plate


def draw_trail(image: np.ndarray, points: np.ndarray, colour: str, style: Style) -> None:
    """Draw the way through `points` (n, 2), oldest first and fainter the older; a NaN point interrupts it."""
    known = np.isfinite(points).all(1)
    if known.sum() < 2:
        return
    at = np.zeros(points.shape, np.int64)
    at[known] = _sixteenths(points[known].astype(np.float64))
    margin = (style.line + 3) << SHIFT
    low, high = at[known].min(0) - margin, at[known].max(0) + margin
    area = _window(image, int(low[0]), int(low[1]), int(high[0]), int(high[1]))
    if area is None:
        return
    part, left, top = area
    opacity = np.zeros(part.shape[:2], np.uint8)
    at -= np.array([left, top]) << SHIFT
    for step in range(1, len(points)):
        if known[step - 1] and known[step]:
            strength = round(225 * (step / (len(points) - 1)) ** 1.3)
            start, end = at[step - 1].tolist(), at[step].tolist()
            cv2.line(opacity, start, end, strength, style.line, cv2.LINE_AA, SHIFT)
    share = opacity[..., None].astype(np.uint16)
    tint = np.array(rgb(colour), np.uint16)
    part[:] = ((part * (255 - share) + tint * share + 127) // 255).astype(np.uint8)


def enlarged(image: np.ndarray, at_least: int) -> tuple[np.ndarray, int]:
    """`image` with every pixel repeated until the longest side has `at_least` pixels; and how often."""
    factor = max(1, -(-at_least // max(image.shape[:2])))
    if factor == 1:
        return image, 1
    return cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_NEAREST), factor


def _sixteenths(points: np.ndarray) -> np.ndarray:
    """Continuous coordinates as OpenCV takes them: whole numbers are the centres of pixels there."""
    return np.round((points - 0.5) * (1 << SHIFT)).astype(np.int64)


def _window(image: np.ndarray, x1: int, y1: int, x2: int, y2: int) -> tuple[np.ndarray, int, int] | None:
    """The part of `image` that a drawing between these sixteenths touches, and its left and top pixel."""
    left, top = max(0, x1 >> SHIFT), max(0, y1 >> SHIFT)
    part = image[top : max(0, (y2 >> SHIFT) + 1), left : max(0, (x2 >> SHIFT) + 1)]
    return (part, left, top) if part.size else None


@cache
def _font() -> cv2.FontFace:
    return cv2.FontFace("sans")


@cache
def _plate(text: str, colour: str, letters: int) -> np.ndarray:
    """A coloured plate with text, (h, w, 3)."""
    canvas = (8 * letters * max(1, len(text)), 4 * letters)
    x, _, width, _ = cv2.getTextSize(canvas, text, (0, 0), _font(), letters, 600)
    pad = max(2, letters // 4)
    digits = round(0.72 * letters)  # digits stand on the line and are this high
    plate = np.empty((digits + 2 * pad, width + 2 * pad, 3), np.uint8)
    plate[:] = rgb(colour)
    cv2.putText(plate, text, (pad - x, pad + digits), rgb(ink(colour)), _font(), letters, 600)
    return plate


def draw_tracks(
    image: np.ndarray, boxes: np.ndarray, tags: Sequence[str], colours: Sequence[str], style: Style
) -> None:
    """Draw boxes (N, 4) with tags; rows of NaN are left out, and the first track ends up on top."""
    there = np.flatnonzero(np.isfinite(boxes).all(1))[::-1]
    for track in there:
        draw_box(image, boxes[track], colours[track], style)
    for track in there:
        draw_tag(image, boxes[track], tags[track], colours[track], style)
