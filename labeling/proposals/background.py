"""What does a scene look like without its objects?

Takes the sampled pictures of a shot whose camera stands still and gives the background: its colour at every pixel and
how much a pixel of it varies by itself (sensor and compression noise). Most pixels show one colour all the time. Where
several colours stay for a while, an object stood there, and the background is the colour that continues the
surroundings, even if the object covered it for most of the shot.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

LEAST_NOISE = 1.0  # grey levels; even a rendered video is rounded and compressed
MOST_NOISE = 12.0  # a pixel that varies more, varies because objects pass
ALIKE_LEVELS, ALIKE_NOISE = 6.0, 4.0  # two samples of a pixel show the same thing if they differ by less
CERTAIN = 0.95  # a colour seen this often at a pixel leaves no doubt
PASSING = 0.75  # nor does one seen this often, and first and last: something else passed by in between
STATE_SAMPLES = 24  # pictures that are searched for them
STATES = 6  # colours a pixel may show for a while; more are objects in passing
CONTRAST_NOISE = 5.0  # contrast to the neighbours counts up to 1, and half at so many deviations
SURE, SURE_SHARE = 0.2, 0.3  # pixels decided in one round: those that cost this little, and at least this share
NEIGHBOURS = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
SEEN_OFTEN = 0.4  # how much contrast e times as many sightings outweigh
SEEN_OFTEN_LASTING = 0.25  # the same for what was there first or last: an object came or went, so counts say little
WHILE = 0.08  # share of the samples that it must have been there for
ISLAND_CONTRAST = 20.0  # grey levels by which a part of an object differs from the background around it
LARGE = 0.05  # share of the picture from which on a region is background whatever surrounds it


@dataclass(frozen=True)
class Background:
    """The scene without its objects."""

    picture: np.ndarray  # (H, W, 3) uint8, RGB
    noise: np.ndarray  # (H, W) float32, standard deviation in grey levels


def background_of(pictures: np.ndarray) -> Background:
    """The background of pictures (K, H, W, 3) uint8 taken by a camera that stands still."""
    picture = _ranked(pictures, len(pictures) // 2)
    deviations = np.stack([largest_difference(image, picture) for image in pictures])
    noise = _noise(deviations)
    usual = float(np.median(noise))
    alike = np.clip(ALIKE_LEVELS + ALIKE_NOISE * np.minimum(noise, 2 * usual), 0, 255).astype(np.uint8)
    same = deviations <= alike
    seen = same.mean(0)
    while_ = _while(len(pictures))
    certain = (seen >= CERTAIN) | ((seen >= PASSING) & same[:while_].any(0) & same[-while_:].any(0))
    if certain.any() and not certain.all():
        picture = _continue(picture, certain, pictures, alike, usual)
        deviations = np.stack([largest_difference(image, picture) for image in pictures])
        noise = _noise(deviations)
        noise = np.where(noise > alike / ALIKE_NOISE, usual, noise)
    return Background(picture, noise)


def largest_difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """By how much the channel that differs most differs between two pictures (H, W, 3) uint8; (H, W) uint8."""
    red, green, blue = cv2.split(cv2.absdiff(first, second))
    return cv2.max(cv2.max(red, green), blue)


def _while(samples: int) -> int:
    """How many samples in a row count as a while."""
    return max(2, round(WHILE * samples))


def _largest_channel(values: np.ndarray) -> np.ndarray:
    return np.maximum(np.maximum(values[..., 0], values[..., 1]), values[..., 2])


def _ranked(pictures: np.ndarray, rank: int) -> np.ndarray:
    """The value of that rank at each pixel and channel of (K, ...) uint8, by a sorting network of whole pictures."""
    stack = list(pictures)
    for first, second in _comparators(len(stack)):
        stack[first], stack[second] = cv2.min(stack[first], stack[second]), cv2.max(stack[first], stack[second])
    return stack[rank]


def _comparators(count: int) -> list[tuple[int, int]]:
    """Batcher's odd-even merge sort of `count` items as pairs to put in order."""
    pairs, p = [], 1
    while p < count:
        k = p
        while k >= 1:
            for j in range(k % p, count - k, 2 * k):
                pairs += [
                    (i + j, i + j + k)
                    for i in range(min(k, count - j - k))
                    if (i + j) // (p * 2) == (i + j + k) // (p * 2)
                ]
            k //= 2
        p *= 2
    return pairs


def _noise(deviations: np.ndarray) -> np.ndarray:
    """How much each pixel varies while nothing covers it, (H, W) float32, from (K, H, W) uint8.

    The quarter of the samples that come closest to the background shows it even where objects are most of the time;
    twice their deviation stands for the standard deviation of a pixel's largest channel.
    """
    low = _ranked(deviations, (len(deviations) - 1) // 4).astype(np.float32)
    return np.maximum(cv2.blur(np.minimum(2 * low, MOST_NOISE), (5, 5)), LEAST_NOISE)


def _continue(
    picture: np.ndarray, certain: np.ndarray, pictures: np.ndarray, alike: np.ndarray, usual: float
) -> np.ndarray:
    """Choose a colour for every doubtful pixel, from the certain ones inwards; (H, W, 3) uint8."""
    height, width = certain.shape
    rows, columns = np.nonzero(~certain)
    chosen = pictures[np.unique(np.linspace(0, len(pictures) - 1, STATE_SAMPLES).round().astype(int))]
    samples, tolerance = chosen[:, rows, columns], alike[rows, columns]
    colours, counts, lasting = _states(samples, tolerance, picture[rows, columns])
    weight = np.where(lasting, SEEN_OFTEN_LASTING, SEEN_OFTEN)
    with np.errstate(divide="ignore"):
        prior = -weight * np.log(counts / len(chosen))

    number = np.full((height + 2, width + 2), -1)
    number[rows + 1, columns + 1] = np.arange(len(rows))
    result = np.zeros((height + 2, width + 2, 3), np.float32)
    result[1:-1, 1:-1] = picture
    known = np.zeros((height + 2, width + 2), np.uint8)
    known[1:-1, 1:-1] = _trusted(certain)
    lowest = np.full((2, *prior.shape), np.inf, np.float32)  # contrast to the two neighbours each colour fits best
    is_open = np.ones(len(rows), bool)
    y, x = np.nonzero(known & cv2.dilate((number >= 0).astype(np.uint8), np.ones((3, 3), np.uint8)))
    while len(y):
        for dy, dx in NEIGHBOURS:
            met = number[y + dy, x + dx]
            fits = (met >= 0) & is_open[met]
            met, here = met[fits], result[y[fits], x[fits]]
            apart = _largest_channel(np.abs(colours[met] - here[:, None]))
            contrast = apart / (apart + CONTRAST_NOISE * usual)
            first, second = lowest[0, met], lowest[1, met]
            lowest[1, met] = np.minimum(second, np.maximum(first, contrast))
            lowest[0, met] = np.minimum(first, contrast)
        front = np.flatnonzero(is_open & np.isfinite(lowest[0, :, 0]))
        first, second = lowest[:, front]
        cost = (first + np.where(np.isfinite(second), second, first)) / 2 + prior[front]
        best = cost.argmin(1)
        cost = cost[np.arange(len(front)), best]
        # The surest pixels first, so that a line goes on along itself before the sides close over it.
        sure = cost <= max(SURE, np.quantile(cost, SURE_SHARE)) if len(front) else np.zeros(0, bool)
        front, best = front[sure], best[sure]
        y, x = rows[front] + 1, columns[front] + 1
        result[y, x] = colours[front, best]
        known[y, x] = 1
        is_open[front] = False
    grown = np.clip(np.round(result[1:-1, 1:-1]), 0, 255).astype(np.uint8)
    return _without_islands(grown, certain & (known[1:-1, 1:-1] == 0))


def _without_islands(picture: np.ndarray, islands: np.ndarray) -> np.ndarray:
    """Paint over regions that never changed, lie amid ones that did, and stand out: parts of an object always there."""
    if not islands.any():
        return picture
    count, labels, stats, _ = cv2.connectedComponentsWithStats(islands.astype(np.uint8), connectivity=8)
    hidden = np.zeros(islands.shape, np.uint8)
    for label in range(1, count):
        x, y, w, h = stats[label, :4]
        window = np.s_[max(y - 2, 0) : y + h + 2, max(x - 2, 0) : x + w + 2]
        island = (labels[window] == label).astype(np.uint8)
        around = (cv2.dilate(island, np.ones((3, 3), np.uint8)) > 0) & (island == 0) & ~islands[window]
        rim = island.astype(bool) & (cv2.erode(island, np.ones((3, 3), np.uint8)) == 0)
        if not around.any():
            continue
        colours = picture[window].astype(np.float32)
        if np.abs(colours[rim].mean(0) - colours[around].mean(0)).max() > ISLAND_CONTRAST:
            hidden[window] |= island
    if not hidden.any():
        return picture
    return cv2.inpaint(picture, cv2.dilate(hidden, np.ones((3, 3), np.uint8)), 3, cv2.INPAINT_TELEA)


def _trusted(certain: np.ndarray) -> np.ndarray:
    """The certain pixels that surely show background: those in large regions or in ones that reach the border."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(certain.astype(np.uint8), connectivity=4)
    trusted = stats[:, cv2.CC_STAT_AREA] >= LARGE * certain.size
    trusted[np.unique(np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]]))] = True
    trusted[0] = False
    return trusted[labels].astype(np.uint8)


def _states(samples: np.ndarray, alike: np.ndarray, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The colours that pixels show for a while.

    Args:
        samples: (K, M, 3) uint8, pictures in order of time.
        alike: (M,) uint8, differences up to this are noise.
        middle: (M, 3) uint8, the median.

    Returns:
        colours (M, STATES, 3) float32; how many samples show each, (M, STATES), 0 for unused ones; and whether one was
        there for the first or the last while of a pixel whose ends differ, (M, STATES) bool.
    """
    pixels = samples.shape[1]
    leaders = np.repeat(middle[None], STATES, axis=0)
    sums = np.zeros((pixels, STATES, 3), np.float32)
    counts = np.zeros((pixels, STATES), np.float32)
    opened = np.ones(pixels, np.intp)
    everyone = np.arange(pixels)
    shown = np.zeros(samples.shape[:2], np.int8)
    for number, sample in enumerate(samples):
        apart = np.stack([largest_difference(sample[None], leaders[s][None])[0] for s in range(STATES)])
        apart[np.arange(STATES)[:, None] >= opened] = 255
        nearest = apart.argmin(0)
        new = apart[nearest, everyone] > alike
        make = new & (opened < STATES)
        nearest[make] = opened[make]
        leaders[opened[make], make] = sample[make]
        opened[make] += 1
        shown[number] = np.where(new & ~make, -1, nearest)
        joins = everyone[~new | make]
        counts[joins, nearest[joins]] += 1
        sums[joins, nearest[joins]] += sample[joins]
    lasting = np.zeros(counts.shape, bool)
    while_ = _while(len(samples))
    for ends in (shown[:while_], shown[-while_:]):
        stays = np.flatnonzero((ends == ends[0]).all(0) & (ends[0] >= 0) & (shown[0] != shown[-1]))
        lasting[stays, ends[0, stays]] = True
    return sums / np.maximum(counts, 1)[:, :, None], counts, lasting
