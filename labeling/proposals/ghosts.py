"""What is behind an object that stood still for most of a shot?

Takes the sampled pictures and the pixels whose colour is beyond doubt, and chooses a colour for all others among those
that they showed: the one that continues the surroundings, grown from the certain pixels inwards. Parts of an object
that covered the same pixels on all pictures are recognised as islands and painted over.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from scipy.ndimage import uniform_filter

from labeling.proposals.stacks import largest_difference

STATES = 6  # colours a pixel may show for a while; more are objects in passing
CONTRAST_NOISE = 5.0  # contrast to the neighbours counts up to 1, and half at so many deviations
SURE, SURE_SHARE = 0.2, 0.3  # pixels decided in one round: those that cost this little, and at least this share
SEEN_OFTEN = 0.4  # how much contrast e times as many sightings outweigh
SEEN_OFTEN_LASTING = 0.25  # the same for what was there first or last: an object came or went, so counts say little
WHILE = 0.08  # share of the samples that it must have been there for
MOVING_COLOUR = 0.7  # contrast that a colour is worth which is seen on moving things only
BINS = 16  # a channel of the histogram of colours
PASSED = 200  # pixels of moving things needed to know their colours
RARE = 1e-5  # share of a histogram that says nothing yet
CONVINCING = 0.7  # share of the samples that show a colour of which there is no doubt in hindsight
SPECK = 0.03  # size of a speck against the picture
PLAIN = 0.1  # share of a picture that may be structure of that size, or the ground is not plain
LARGE = 0.05  # share of the picture from which on a region is background whatever surrounds it
EDGE_LEVELS, EDGE_NOISE = 12.0, 4.0  # a step that separates two regions
SUSPICIOUS = 0.2  # share of a region's rim that once showed the region's own colour: it may be part of what moved
STANDS_OUT = 0.6  # share of that rim whose background is another colour: it is
BLOCK, RIM = np.ones((3, 3), np.uint8), np.ones((5, 5), np.uint8)


def behind_objects(
    picture: np.ndarray, certain: np.ndarray, pictures: Sequence[np.ndarray], alike: np.ndarray, usual: float
) -> np.ndarray:
    """Choose a colour for every doubtful pixel, from the certain ones inwards; (H, W, 3) uint8."""
    rows, columns = np.nonzero(~certain)
    places, tolerance = np.flatnonzero(~certain), alike[~certain]
    samples = np.stack([_packed(image).take(places) for image in pictures])
    colours, counts, lasting = _states(samples, tolerance, _packed(picture).take(places))
    weight = np.where(lasting, SEEN_OFTEN_LASTING, SEEN_OFTEN)
    with np.errstate(divide="ignore"):
        prior = -weight * np.log(counts / len(pictures))

    prior += MOVING_COLOUR * _moving_colours(pictures, picture, certain, alike, colours)

    islands, count = _islands(picture, certain, usual)
    meets = _rims(islands)[rows, columns]
    own = _means(picture, islands, count)[meets]
    alike_own = _largest_channel(np.abs(colours - own[:, None])) <= np.maximum(tolerance, EDGE_LEVELS)[:, None]
    showed = (alike_own & (counts >= 2)).any(1) & (meets > 0)
    rim = np.bincount(_rims(islands).ravel(), minlength=count) - np.bincount(islands.ravel(), minlength=count)
    suspicious = np.bincount(meets[showed], minlength=count) >= SUSPICIOUS * np.maximum(rim, 1)
    suspicious[0] = False
    doubted = cv2.dilate(suspicious[islands].astype(np.uint8), RIM)
    grown, choices = _grown(picture, certain & (doubted == 0), places, colours, prior.astype(np.float32), usual)
    doubtful = np.zeros(certain.shape, bool)
    doubtful[rows, columns] = counts[np.arange(len(rows)), choices] < CONVINCING * len(pictures)
    grown = _without_specks(grown, doubtful, usual)
    apart = _largest_channel(np.abs(grown[rows, columns] - own)) > np.maximum(tolerance, EDGE_LEVELS)
    contrasts = np.bincount(meets[showed & apart], minlength=count)
    hidden = suspicious & (contrasts >= STANDS_OUT * np.bincount(meets[showed], minlength=count))
    if not hidden.any():
        return grown
    return cv2.inpaint(grown, cv2.dilate(hidden[islands].astype(np.uint8), RIM) & certain, 3, cv2.INPAINT_TELEA)


def _grown(
    picture: np.ndarray, known: np.ndarray, places: np.ndarray, colours: np.ndarray, prior: np.ndarray, usual: float
) -> tuple[np.ndarray, np.ndarray]:
    """Decide on doubtful pixels from the known ones inwards.

    Args:
        picture: (H, W, 3) uint8.
        known: (H, W) bool.
        places: (M,) flat indices of the doubtful pixels.
        colours: (M, S, 3) float32 to choose from.
        prior: (M, S) float32, what each costs whatever its neighbours are.
        usual: The noise.

    Returns:
        The picture with the chosen colours, and which those are, (M,).
    """
    height, width = known.shape
    stride = width + 2
    around = np.array([dy * stride + dx for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx])[:, None]
    padded = places + 2 * (places // width) + stride + 1
    number = np.full((height + 2) * stride, -1)  # of the doubtful pixels that are still open
    number[padded] = np.arange(len(places))
    result = np.zeros((height + 2, stride, 3), np.float32)
    result[1:-1, 1:-1] = picture
    result = result.reshape(-1, 3)
    first, second = np.full((2, *prior.shape), np.inf, np.float32)  # contrast to the two best-fitting neighbours
    costs, choices = np.full(len(places), np.inf, np.float32), np.zeros(len(places), np.intp)
    front = np.zeros(0, np.intp)
    near = cv2.dilate((number >= 0).astype(np.uint8).reshape(height + 2, stride), BLOCK)
    decided = np.flatnonzero(near & np.pad(known, 1))
    while len(decided):
        met = number.take(decided + around)
        pairs = np.flatnonzero(met >= 0)
        ends = np.cumsum((met >= 0).sum(1))
        met, here = met.ravel()[pairs], result.take(decided.take(pairs % len(decided)), axis=0)
        apart = _largest_channel(np.abs(colours.take(met, axis=0) - here[:, None]))
        contrast = apart / (apart + np.float32(CONTRAST_NOISE * usual))
        for start, end in zip((0, *ends), ends, strict=False):  # one direction at a time: it meets a pixel only once
            some, now = met[start:end], contrast[start:end]
            before = first.take(some, axis=0)
            second[some] = np.minimum(second.take(some, axis=0), np.maximum(before, now))
            first[some] = np.minimum(before, now)
        met = np.unique(met)
        front = np.concatenate([front, met[np.isinf(costs[met])]])
        low, high = first.take(met, axis=0), second.take(met, axis=0)
        cost = (low + np.where(np.isfinite(high), high, low)) / 2 + prior.take(met, axis=0)
        choices[met] = best = cost.argmin(1)
        costs[met] = cost[np.arange(len(met)), best]
        if not len(front):
            break
        # The surest pixels first, so that a line goes on along itself before the sides close over it.
        cost, share = costs[front], int(SURE_SHARE * len(front))
        sure = cost <= max(SURE, np.partition(cost, share)[share])
        front, chosen = front[~sure], front[sure]
        decided = padded[chosen]
        result[decided] = colours[chosen, choices[chosen]]
        number[decided] = -1
    grown = result.reshape(height + 2, stride, 3)[1:-1, 1:-1]
    return np.clip(np.round(grown), 0, 255).astype(np.uint8), choices


def _without_specks(picture: np.ndarray, doubtful: np.ndarray, usual: float) -> np.ndarray:
    """A picture (H, W, 3) uint8 whose doubtful pixels are replaced where they make up specks on plain ground."""
    window = 2 * round(SPECK * max(doubtful.shape)) + 1
    plain = cv2.medianBlur(picture, window)
    differs = largest_difference(picture, plain) > EDGE_LEVELS + EDGE_NOISE * usual
    if differs.mean() > PLAIN:
        return picture
    count, labels = cv2.connectedComponents(differs.astype(np.uint8), connectivity=8)
    trusted = np.bincount(labels[~doubtful], minlength=count) > 0
    trusted[0] = True
    return np.where(trusted[labels][:, :, None], picture, plain)


def _moving_colours(
    pictures: Sequence[np.ndarray], picture: np.ndarray, certain: np.ndarray, alike: np.ndarray, colours: np.ndarray
) -> np.ndarray:
    """How typical each of `colours` (M, S, 3) is of things that pass over certain background, 0 to 1, (M, S)."""
    passing = np.zeros(BINS**3)
    for image in pictures:
        passes = certain & (largest_difference(image, picture) > alike)
        passing += np.bincount(_bins(image[passes]), minlength=BINS**3)
    if passing.sum() < PASSED:
        return np.zeros(colours.shape[:2], np.float32)
    scenery = np.bincount(_bins(picture[certain]), minlength=BINS**3).astype(float)
    passing, scenery = (
        uniform_filter((counts / counts.sum()).reshape(BINS, BINS, BINS), 3, mode="constant").ravel()
        for counts in (passing, scenery)
    )
    return ((passing + RARE) / (passing + scenery + 2 * RARE))[_bins(colours.astype(np.uint8))].astype(np.float32)


def _bins(colours: np.ndarray) -> np.ndarray:
    """The bin of each colour (..., 3) uint8 in a coarse histogram."""
    step = 256 // BINS
    red, green, blue = (colours[..., channel].astype(np.intp) // step for channel in range(3))
    return (red * BINS + green) * BINS + blue


def _islands(picture: np.ndarray, certain: np.ndarray, usual: float) -> tuple[np.ndarray, int]:
    """Certain regions of one colour, small and away from the picture's border, as labels (H, W) from 1 on."""
    spread = largest_difference(cv2.dilate(picture, BLOCK), cv2.erode(picture, BLOCK))
    flat = certain & (spread <= EDGE_LEVELS + EDGE_NOISE * usual)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(flat.astype(np.uint8), connectivity=4)
    scenery = stats[:, cv2.CC_STAT_AREA] >= LARGE * certain.size
    scenery[np.unique(np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]]))] = True
    scenery[0] = True
    return np.where(scenery[labels], 0, labels), count


def _rims(labels: np.ndarray) -> np.ndarray:
    """Labels (H, W) grown by two pixels."""
    return np.maximum(cv2.dilate(labels.astype(np.float32), RIM).astype(np.intp), labels)


def _means(picture: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    """The mean colour of each label, (count, 3)."""
    area = np.maximum(np.bincount(labels.ravel(), minlength=count), 1)
    sums = [np.bincount(labels.ravel(), picture[:, :, channel].ravel(), minlength=count) for channel in range(3)]
    return (np.stack(sums, 1) / area[:, None]).astype(np.float32)


def _states(samples: np.ndarray, alike: np.ndarray, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The colours that pixels show for a while.

    Args:
        samples: (K, M) `_packed` colours, pictures in order of time.
        alike: (M,) uint8, differences up to this are noise.
        middle: (M,) `_packed`, the median.

    Returns:
        colours (M, STATES, 3) float32; how many samples show each, (M, STATES), 0 for unused ones; and whether one was
        there for the first or the last while of a pixel whose ends differ, (M, STATES) bool.
    """
    pixels = samples.shape[1]
    leaders = np.empty((STATES, pixels), np.uint32)
    leaders[0] = middle
    opened = np.ones(pixels, np.intp)
    shown = np.zeros(samples.shape[:2], np.uint8)
    for nearest, sample in zip(shown, samples, strict=True):
        apart = _apart(sample, leaders[0])
        for state in range(1, int(opened.max())):
            some = np.flatnonzero(opened > state)
            there = _apart(sample.take(some), leaders[state].take(some))
            closer = there < apart[some]
            apart[some[closer]], nearest[some[closer]] = there[closer], state
        new = np.flatnonzero(apart > alike)
        nearest[new] = opened[new]  # one too many for those that have shown all they may
        new = new[opened[new] < STATES]
        leaders[opened[new], new] = sample[new]
        opened[new] += 1
    kinds = pixels * (STATES + 1)
    kind = (np.arange(pixels) * (STATES + 1) + shown).ravel()
    counts = np.bincount(kind, minlength=kinds).reshape(pixels, -1)[:, :STATES].astype(np.float32)
    channels = [samples.view(np.uint8).reshape(*samples.shape, 4)[:, :, channel].ravel() for channel in range(3)]
    sums = [np.bincount(kind, values, minlength=kinds).reshape(pixels, -1)[:, :STATES] for values in channels]
    colours = np.stack(sums, 2).astype(np.float32) / np.maximum(counts, 1)[:, :, None]
    lasting = np.zeros((pixels, STATES), bool)
    while_ = a_while(len(samples))
    for ends in (shown[:while_], shown[-while_:]):
        stays = np.flatnonzero((ends == ends[0]).all(0) & (ends[0] < STATES) & (shown[0] != shown[-1]))
        lasting[stays, ends[0, stays]] = True
    return colours, counts, lasting


def _packed(picture: np.ndarray) -> np.ndarray:
    """A picture (H, W, 3) uint8 as one number a pixel, (H * W,) uint32: much quicker to pick from."""
    return cv2.cvtColor(picture, cv2.COLOR_RGB2RGBA).reshape(-1, 4).view(np.uint32).ravel()


def _apart(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """By how much `_packed` colours (n,) differ in the channel that differs most, (n,) uint8."""
    return largest_difference(*(packed.view(np.uint8).reshape(1, -1, 4) for packed in (first, second)))[0]


def a_while(samples: int) -> int:
    """How many samples in a row count as a while."""
    return max(2, round(WHILE * samples))


def _largest_channel(values: np.ndarray) -> np.ndarray:
    return np.maximum(np.maximum(values[..., 0], values[..., 1]), values[..., 2])
