"""What moves, seen from a moving camera?

Takes the frames of a shot in order and yields each with soft masks of what moves by itself. It works on chunks of
frames: own motion along paths of flow says where something moves, colours learned from that say what belongs to it,
and both are carried along the flow. The chance of every pixel becomes regions, the main one first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from pydantic import BaseModel, Field

from labeling.proposals import FrameProposals, Proposal
from labeling.proposals.colour import BINS, colour_codes, count, log_ratio
from labeling.proposals.flow import SLIGHT, FlowMaps, Step, motion_along_paths, pull
from labeling.proposals.regions import OddsMap, Region, find_regions
from labeling.video import Frame

CONTEXT = 6  # frames before and behind a chunk that are looked at as well
ROUNDS = 2  # times that colours are learned anew from what they and motion say together
FAINT_MOTION = 4.0  # times the noise: own motion that is as likely as not
FAST_SHARE = 0.4  # of the fastest own motion of the frame: as likely as not the same thing
FASTEST = 0.97  # quantile that stands for the fastest
CARRY = 0.6  # how much motion evidence comes from frames before and behind
SETTLE = 0.3  # the same, for the result of each round
PEAK = 1.5  # the clearest motion of a chunk counts as at least this (log odds), so that slow things get a shape
FINE_PLACE = 1.0  # weight of the map's odds at flow size ...
FINE_COLOUR = 0.3  # ... and of the colours there
UNLIKELY = 0.05  # chance below which nobody looks closer
NEAR_FRAMES = 2  # frames before and behind whose colours count as nearby
MEMORY = 0.5  # weight of the colours of earlier chunks of the shot


class MovingConfig(BaseModel, extra="forbid", frozen=True):
    """What is proposed in shots whose camera moves."""

    chunk: int = Field(48, ge=4, description="Frames that are judged together.")
    most: int = Field(4, ge=1, description="Most proposals on one frame.")
    min_area: float = Field(0.0005, ge=0, description="Smallest region, as a share of the frame.")
    min_score: float = Field(0.1, ge=0, le=1, description="Least certain proposal.")


DEFAULT = MovingConfig()


@dataclass(slots=True)
class Seen:
    """A frame as the small maps see it."""

    step: Step
    codes: np.ndarray  # (h, w) uint16, colour bins on the map
    fine_codes: np.ndarray  # (2h, 2w) uint16, colour bins at flow size


def propose_moving(frames: Iterator[Frame], cut: bool, config: MovingConfig = DEFAULT) -> Iterator[FrameProposals]:
    """Yield all frames of a shot in order, each with its proposals; `cut` if a new scene begins with the first."""
    first = next(frames, None)
    if first is None:
        return
    maps = FlowMaps(*first.image.shape[:2])
    memory = np.zeros((2, BINS))
    history: list[Seen] = []
    waiting: list[tuple[Frame, Seen]] = []
    stream = _look(maps, first, frames)
    more = True
    while more or waiting:
        while more and len(waiting) < config.chunk + CONTEXT:
            item = next(stream, None)
            if item is None:
                more = False
            else:
                waiting.append(item)
        done = len(waiting) if not more else config.chunk
        window = history + [seen for _, seen in waiting]
        odds, certainty = _judge(maps, window, memory)
        regions = find_regions(maps, [seen.step for seen in window], odds, config.most)
        for place in range(done):
            frame, _ = waiting[place]
            at = len(history) + place
            camera = _full_size(window[at - 1].step.camera, maps) if at else np.eye(3)
            begins = cut and frame.index == first.index
            yield FrameProposals(frame, _proposals(regions[at], certainty, frame, config), begins, camera)
        history = window[: len(history) + done][-CONTEXT:]
        del waiting[:done]


def _proposals(regions: list[Region], certainty: float, frame: Frame, config: MovingConfig) -> list[Proposal]:
    proposals = []
    for region in regions:
        score = float(region.score * certainty)
        mask = region.mask(frame.image.shape) if score >= config.min_score and region.share >= config.min_area else None
        if mask is not None:
            proposals.append(Proposal(mask, score))
    return proposals


def _look(maps: FlowMaps, first: Frame, frames: Iterator[Frame]) -> Iterator[tuple[Frame, Seen]]:
    """See frames on the small maps, each with the flow to the next."""
    frame, small = first, _shrink(maps, first)
    grey, previous = maps.grey(small), None
    while True:
        following = next(frames, None)
        next_small = _shrink(maps, following) if following is not None else None
        next_grey = maps.grey(next_small) if next_small is not None else None
        step = maps.step(grey, next_grey, previous)
        codes = colour_codes(small)
        yield frame, Seen(step, np.ascontiguousarray(codes[::2, ::2]), codes)
        if following is None or next_small is None or next_grey is None:
            return
        frame, small, grey, previous = following, next_small, next_grey, step


def _shrink(maps: FlowMaps, frame: Frame) -> np.ndarray:
    return cv2.resize(frame.image, maps.flow_size, interpolation=cv2.INTER_AREA)


def _full_size(camera: np.ndarray, maps: FlowMaps) -> np.ndarray:
    """A homography of the map in pixels of the frame."""
    return np.linalg.inv(maps.to_map) @ camera @ maps.to_map


def _judge(maps: FlowMaps, window: list[Seen], memory: np.ndarray) -> tuple[list[OddsMap], float]:
    """Log odds of each pixel of each frame to move by itself, and the certainty.

    `memory` (2, BINS) holds the colours of earlier chunks and is brought up to date.
    """
    steps = [seen.step for seen in window]
    motion = motion_along_paths(steps)
    evidence = [_evidence(maps, step, *own) for step, own in zip(steps, motion, strict=True)]
    lift = max(0.0, PEAK - float(np.quantile(np.stack([odds[::3, ::3] for odds in evidence]), 0.98)))
    evidence = [odds + lift for odds in evidence]
    chance = _carry(steps, [_chance(odds) for odds in evidence], CARRY)
    for _ in range(ROUNDS):
        everywhere, nearby, totals = _colours(maps, window, chance, memory)
        chance = [
            _chance(0.3 * own + 0.7 * _odds(before) + 0.5 * everywhere[seen.codes] + 0.8 * here[seen.codes])
            for own, before, seen, here in zip(evidence, chance, window, nearby, strict=True)
        ]
        chance = _carry(steps, [cv2.GaussianBlur(each, (0, 0), 1.0) for each in chance], SETTLE)
    memory[:] = MEMORY * memory + totals
    fine = [_refine(maps, each, here, seen.fine_codes) for each, here, seen in zip(chance, nearby, window, strict=True)]
    return fine, 1 / (1 + np.exp(lift - PEAK))


def _refine(maps: FlowMaps, chance: np.ndarray, nearby: np.ndarray, codes: np.ndarray) -> OddsMap:
    """Log odds at flow size, where anything is likely at all: the map's (h, w), sharpened by colours (2h, 2w)."""
    x, y, w, h = cv2.boundingRect((chance > UNLIKELY).astype(np.uint8))
    width, height = maps.flow_size
    left, top, right, bottom = 2 * x, 2 * y, min(2 * (x + w), width), min(2 * (y + h), height)
    if not w or right <= left or bottom <= top:
        return OddsMap(np.zeros((0, 0), np.float32), 0, 0, (height, width))
    half = np.array([[0.5, 0, 0], [0, 0.5, 0]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    coarse = _odds(chance[y : y + h, x : x + w])
    odds = cv2.warpAffine(coarse, half, (right - left, bottom - top), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    odds = FINE_PLACE * odds + FINE_COLOUR * nearby[codes[top:bottom, left:right]]
    return OddsMap(cv2.GaussianBlur(odds, (0, 0), 1.0), left, top, (height, width))


def _evidence(maps: FlowMaps, step: Step, total: np.ndarray, noise: float) -> np.ndarray:
    """Log odds (h, w) that a pixel moves by itself, from its motion `total` (h, w, 2) alone."""
    length = np.hypot(total[..., 0], total[..., 1])
    trusted = cv2.GaussianBlur(step.texture, (0, 0), 1.0) + 0.05
    length = cv2.GaussianBlur(length * step.texture, (0, 0), 1.0) / trusted
    fastest = float(np.quantile(length[::2, ::2], FASTEST))
    clear = _log_ratio(length, FAINT_MOTION * float(np.hypot(noise, SLIGHT)))
    fast = _log_ratio(length, FAST_SHARE * fastest)
    return 0.3 * clear + 0.7 * fast + 1.1 * np.minimum(clear, fast) - 3.0 * maps.rim - 0.5


def _colours(
    maps: FlowMaps, window: list[Seen], chance: list[np.ndarray], memory: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """How much colours speak for what moves: in the whole chunk (BINS,), around it on each frame, and the counts."""
    totals = np.zeros((2, BINS))
    close = np.zeros((len(window), 2, BINS), np.float32)
    behind = 1 + 2 * maps.rim
    for place, (seen, inside) in enumerate(zip(window, chance, strict=True)):
        totals += count(seen.codes, inside), count(seen.codes, (1 - inside) * behind)
        around = _surroundings(maps, inside)
        close[place] = count(seen.codes, inside * around), count(seen.codes, (1 - inside) * around)
    nearby = []
    for place in range(len(window)):
        inside, outside = close[max(0, place - NEAR_FRAMES) : place + NEAR_FRAMES + 1].sum(0)
        nearby.append(log_ratio(inside, outside))
    return log_ratio(*(totals + memory)), nearby, totals


def _surroundings(maps: FlowMaps, chance: np.ndarray) -> np.ndarray:
    """A soft window (h, w) about two and a half times as large as what moves."""
    weight = chance * chance
    across, down = weight.sum(0), weight.sum(1)
    total = float(across.sum()) + 1e-6
    windows = []
    for profile in (down, across):
        place = np.arange(len(profile), dtype=np.float32)
        middle = float(profile @ place) / total
        spread = np.sqrt(float(profile @ (place - middle) ** 2) / total) + 4
        windows.append(np.exp(-0.5 * ((place - middle) / (2.4 * spread)) ** 2))
    return windows[0][:, None] * windows[1][None]


def _carry(steps: list[Step], values: list[np.ndarray], share: float) -> list[np.ndarray]:
    """Mix each frame's values (h, w) with those that flow brings from before and from behind."""
    onward, back = list(values), list(values)
    for t in range(1, len(values)):
        onward[t] = (1 - share) * values[t] + share * pull(onward[t - 1], steps[t].backward)
    for t in range(len(values) - 2, -1, -1):
        back[t] = (1 - share) * values[t] + share * pull(back[t + 1], steps[t].forward)
    return [(first + second) / 2 for first, second in zip(onward, back, strict=True)]


def _log_ratio(values: np.ndarray, reference: float) -> np.ndarray:
    return cv2.log(np.clip(values / max(reference, 1e-6), 0.135, 7.39))


def _odds(chance: np.ndarray) -> np.ndarray:
    clipped = np.clip(chance, 0.01, 0.99)
    return cv2.log(clipped / (1 - clipped))


def _chance(odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + cv2.exp(-odds))
