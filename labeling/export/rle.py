"""How does COCO write masks?

Run lengths as the store has them, packed into COCO's strings, many at once; masks that are stored at a smaller size are
brought to the size of the video.
"""

from __future__ import annotations

import cv2
import numpy as np

from labeling.masks import Mask, decode_runs, encode_runs


def compress_runs(runs: np.ndarray, offsets: np.ndarray) -> list[str]:
    """COCO's strings of many masks at once: mask i has the run lengths `runs[offsets[i]:offsets[i + 1]]`.

    From the fourth run on, a number is the difference to the run before the last; each number is cut into groups of
    five bits, lowest first, and a sixth bit says that more follow.
    """
    lengths = np.diff(offsets)
    number = runs.astype(np.int64)
    place = np.arange(len(number)) - np.repeat(offsets[:-1], lengths)
    later = np.flatnonzero(place > 2)
    number[later] -= runs[later - 2].astype(np.int64)
    groups = np.ones(len(number), np.int64)
    for count in range(1, 7):  # 35 bits hold every difference of two uint32
        limit = 1 << (5 * count - 1)
        groups += (number < -limit) | (number >= limit)
    ends = np.cumsum(groups)
    text = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    for group in range(int(groups.max(initial=0))):
        has = groups > group
        more = (groups[has] > group + 1) * 32
        text[ends[has] - groups[has] + group] = ((number[has] >> (5 * group)) & 31) + more + 48
    cuts = np.concatenate([[0], ends])[offsets]
    whole = text.tobytes().decode("ascii")
    return [whole[begin:end] for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)]


def resize_runs(runs: np.ndarray, size: tuple[int, int], target: tuple[int, int]) -> np.ndarray:
    """Run lengths of a mask of `size` (height, width), brought to the size `target`."""
    mask = Mask.cut(decode_runs(runs, *size).astype(np.uint8) * 255)
    if mask is None or size == target:
        return runs
    vertical, horizontal = target[0] / size[0], target[1] / size[1]
    x1, y1, x2, y2 = mask.bounds
    left, top, right, bottom = max(0, x1 - 1), max(0, y1 - 1), min(size[1], x2 + 1), min(size[0], y2 + 1)
    crop = np.zeros((bottom - top, right - left), np.uint8)
    crop[y1 - top : y2 - top, x1 - left : x2 - left] = mask.coverage
    x, y = int(left * horizontal), int(top * vertical)
    width, height = int(np.ceil(right * horizontal)) - x, int(np.ceil(bottom * vertical)) - y
    back = np.array([
        [1 / horizontal, 0, (x + 0.5) / horizontal - 0.5 - left],
        [0, 1 / vertical, (y + 0.5) / vertical - 0.5 - top],
    ])  # fmt: skip
    # A border that repeats keeps an object that touches the frame's edge there; elsewhere the border is empty.
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    large = cv2.warpAffine(crop, back, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return encode_runs(Mask(x, y, large), *target)
