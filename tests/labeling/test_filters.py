"""What is kept and what is dropped, with its reason; what is combined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labeling.filters import FilterConfig, combine, judge
from labeling.observations import COLUMNS, Observations, Overlap

CONFIG = FilterConfig()
SIZE = (100, 200)
FRAMES = 60


def track(
    number: int, frames: range = range(FRAMES), side: float = 12, speed: float = 2.0, score: float = 0.9
) -> dict[str, np.ndarray]:
    count = len(frames)
    left = 10 + speed * np.arange(count) % 150
    top = np.full(count, 30.0)
    box = np.stack([left, top, left + side, top + side], 1)
    return {
        "frame": np.array(frames), "track": np.full(count, number), "box": box, "mass": (box[:, :2] + box[:, 2:]) / 2,
        "oriented": np.zeros((count, 5)), "area": np.full(count, side**2), "score": np.full(count, score),
        "motion": np.full(count, abs(speed)), "runs": np.zeros(count),
    }  # fmt: skip


def seen(*tracks: dict[str, np.ndarray], overlaps: dict[tuple[int, int], Overlap] | None = None) -> Observations:
    columns = {name: np.concatenate([t[name] for t in tracks]).astype(kind) for name, (_, kind) in COLUMNS.items()}
    rows = len(columns["frame"])
    return Observations(
        columns, np.arange(FRAMES) / 10, np.zeros((0, 4)), np.zeros(0, int), overlaps or {},
        np.zeros(rows + 1, int), None,
    )  # fmt: skip


def reasons(observed: Observations, keep_static: bool = False) -> dict[int, str]:
    verdicts = judge(observed, np.arange(len(observed.tracks)), SIZE, keep_static, CONFIG)
    return {verdict.instance: verdict.reason for verdict in verdicts}


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (track(1, frames=range(10, 12)), "short-lived"),
        (track(1, side=1.5), "tiny"),
        (track(1, side=130), "background-like"),
        (track(1, speed=0.0), "static"),
    ],
)
def test_what_does_not_matter_is_dropped_with_its_reason(odd: dict[str, np.ndarray], reason: str) -> None:
    assert reasons(seen(track(0), odd)) == {0: "", 1: reason}


def test_every_drop_says_how_far_off_it_was() -> None:
    verdicts = judge(seen(track(0, speed=0.0)), np.array([0]), SIZE, False, CONFIG)
    assert "stays within" in verdicts[0].detail


def test_static_objects_are_kept_when_asked_for() -> None:
    assert reasons(seen(track(0, speed=0.0)), keep_static=True) == {0: ""}


def test_object_that_moves_late_is_not_static() -> None:
    still, late = track(0, range(40), speed=0.0), track(0, range(40, FRAMES), speed=2.0)
    joined = {name: np.concatenate([still[name], late[name]]) for name in still}
    assert reasons(seen(joined)) == {0: ""}


def test_larger_faster_and_longer_seen_objects_come_first() -> None:
    observed = seen(track(0, side=8), track(1, side=30), track(2, range(20), side=30), track(3, speed=0.2, side=30))
    verdicts = judge(observed, np.arange(4), SIZE, True, CONFIG)
    assert verdicts[0].instance == 1
    assert [v.prominence for v in verdicts] == sorted((v.prominence for v in verdicts), reverse=True)


@pytest.mark.parametrize(
    ("overlap", "instances"),
    [
        (Overlap(frames=50, share=0.9), [0, 0]),
        (Overlap(frames=50, share=0.3), [0, 1]),
        (Overlap(frames=5, share=0.9), [0, 1]),
    ],
)
def test_masks_that_overlap_often_are_combined(overlap: Overlap, instances: list[int]) -> None:
    observed = seen(track(0), track(1), overlaps={(0, 1): overlap})
    assert combine(observed, np.arange(2), CONFIG).tolist() == instances


def test_an_object_matters_as_much_in_a_long_recording_as_in_a_clip() -> None:
    crossing, day = seen(track(0, frames=range(40), side=30)), 20_000
    in_a_clip, in_a_day = replace(crossing, time=np.arange(300) / 10), replace(crossing, time=np.arange(day) / 10)
    assert reasons(in_a_day) == reasons(in_a_clip) == {0: ""}
