"""Which of them matter?

Takes the tracks of one video as the tracker saw them and decides which belong together and which to drop, each with
its reason. The rules know nothing of the scene: they speak of overlap, size, life span, motion and extent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, Field

from labeling.observations import Observations


class FilterConfig(BaseModel, frozen=True, extra="forbid"):
    """What is dropped, and what is combined."""

    min_frames: int = Field(4, ge=1, description="Tracks seen on fewer frames are short-lived.")
    min_life: float = Field(
        0.04, ge=0, le=1, description="Tracks seen on a smaller share of the video are short-lived."
    )
    longest: int = Field(
        300, ge=1, description="Frames beyond which a longer video asks no more of a track: it is judged as in a clip."
    )
    min_area: float = Field(6.0, ge=0, description="Smaller tracks (median pixels) are tiny.")
    max_extent: float = Field(0.7, gt=0, le=1, description="Tracks that cover more of the frame are background.")
    still_range: float = Field(0.01, ge=0, description="A track that stays within this share of the width is static.")
    overlap: float = Field(
        0.7, gt=0, le=1, description="Tracks that share this much of the smaller one are combined ..."
    )
    together: float = Field(0.6, gt=0, le=1, description="... if they do so on this share of the shorter one's frames.")
    min_prominence: float = Field(0.04, ge=0, le=1, description="Tracks that matter less than this are faint.")


@dataclass(frozen=True)
class Verdict:
    """What becomes of an instance."""

    instance: int
    members: tuple[int, ...]  # the tracker's track numbers that make it up
    prominence: float
    frames: int  # on how many frames it is seen
    reason: str = ""  # empty: kept
    detail: str = ""


def combine(seen: Observations, instance: np.ndarray, config: FilterConfig) -> np.ndarray:
    """Give tracks whose masks overlap often one instance number: (N,) in, (N,) out, over `seen.tracks`."""
    tracks = seen.tracks
    place = {int(track): index for index, track in enumerate(tracks)}
    length = {int(track): len(seen.rows(int(track))) for track in tracks}
    merged = instance.copy()
    for (first, second), overlap in seen.overlaps.items():
        often = overlap.frames >= config.together * min(length[first], length[second])
        if often and overlap.share >= config.overlap:
            a, b = merged[place[first]], merged[place[second]]
            merged[merged == max(a, b)] = min(a, b)
    return merged


def judge(
    seen: Observations, instance: np.ndarray, size: tuple[int, int], keep_static: bool, config: FilterConfig
) -> list[Verdict]:
    """Keep or drop every instance of a video whose frames are `size` (height, width); most prominent first."""
    tracks, columns = seen.tracks, seen.columns
    frames = min(len(seen.time), config.longest)
    verdicts = []
    for number in np.unique(instance):
        members = tuple(int(track) for track in tracks[instance == number])
        rows = seen.rows(*members)
        prominence = _prominence(columns, rows, frames, size)
        reason, detail = _reason(columns, rows, frames, size, keep_static, config)
        if not reason and prominence < config.min_prominence:
            reason, detail = "faint", f"prominence {prominence:.3f} is below {config.min_prominence:g}"
        life = len(np.unique(columns["frame"][rows]))
        verdicts.append(Verdict(int(number), members, prominence, life, reason, detail))
    return sorted(verdicts, key=lambda verdict: (-verdict.prominence, verdict.instance))


def _reason(
    columns: dict[str, np.ndarray], rows: np.ndarray, frames: int, size: tuple[int, int], keep_static: bool,
    config: FilterConfig,
) -> tuple[str, str]:  # fmt: skip
    height, width = size
    life = len(np.unique(columns["frame"][rows]))
    needed = min(frames, max(config.min_frames, round(config.min_life * frames)))
    if life < needed:
        return "short-lived", f"seen on {life} frames; {needed} are needed"
    area = float(np.median(columns["area"][rows]))
    if area < config.min_area:
        return "tiny", f"{area:.1f} pixels; {config.min_area:g} are needed"
    if area > config.max_extent * height * width:
        return "background-like", f"covers {area / (height * width):.0%} of the frame"
    if not keep_static:
        travelled = _range(columns["mass"][rows])
        limit = max(1.0, config.still_range * width)
        fastest = float(np.percentile(columns["motion"][rows], 95))
        if travelled <= limit and fastest < limit:
            return "static", f"stays within {travelled:.1f} pixels; moving objects travel more than {limit:.1f}"
    return "", ""


def _range(points: np.ndarray) -> float:
    """How far points (n, 2) spread, outliers aside."""
    low, high = np.percentile(points, [2, 98], axis=0)
    return float(np.hypot(*(high - low)))


def _prominence(columns: dict[str, np.ndarray], rows: np.ndarray, frames: int, size: tuple[int, int]) -> float:
    """How much an instance matters, 0 to 1: seen long, large, moving by itself, and seen clearly."""
    life = min(1.0, len(np.unique(columns["frame"][rows])) / max(1, frames))
    extent = float(np.mean(columns["area"][rows])) / (size[0] * size[1])
    speed = float(np.mean(columns["motion"][rows])) / size[1]
    certain = float(np.mean(columns["score"][rows]))
    moving = 0.3 + 0.7 * min(1.0, speed / 0.005)
    return float(np.clip(certain * life * moving * extent**0.25, 0, 1))
