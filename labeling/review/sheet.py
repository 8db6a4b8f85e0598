"""What does the page need to know of one video?

`Sheet` lists all tracks of a video, kept and dropped, with when they are in view, and packs the boxes of a stretch of
frames into bytes that a browser reads as typed arrays. Boxes come in stretches, so a long video is never sent whole.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from functools import cached_property
from typing import Any

import numpy as np

from labeling.store import VideoLabels
from labeling.table import blocks

STRETCH = 256  # frames whose boxes are sent together
HELD = 64  # packed stretches that are kept


class Sheet:
    """The tracks of one video; a track's place in the lists is its index in the packed boxes."""

    def __init__(self, labels: VideoLabels, version: str) -> None:
        self.labels, self.version = labels, version
        self._packed: OrderedDict[int, bytes] = OrderedDict()

    @cached_property
    def present(self) -> np.ndarray:
        """Where each track is in view, (T, N) bool; kept tracks come first."""
        return np.concatenate([np.isfinite(_boxes(part)[..., 0]) for part in blocks(self.labels)])

    @cached_property
    def instances(self) -> list[int]:
        """The number of each track."""
        none = self.labels[:0]
        return [*none.tracks.instance.tolist(), *none.dropped.instance.tolist()]

    def facts(self) -> dict[str, Any]:
        """The tracks and times, in columns."""
        none, present = self.labels[:0], self.present
        kept = len(none.tracks)
        why = {int(row["instance"]): f"{row['reason']} {row['detail']}".strip() for row in self.labels.reasons}
        spans = _spans(present)
        return {
            "id": self.labels.id, "version": self.version, "frames": self.labels.frames,
            "times": np.asarray(self.labels.tracks.time).round(5).tolist(),
            "cuts": [int(frame) for frame in self.labels.attributes.get("cuts", [])],
            "tracks": {
                "instance": self.instances,
                "category": [*none.tracks.category.tolist(), *none.dropped.category.tolist()],
                "kept": [place < kept for place in range(len(self.instances))],
                "why": [why.get(number, "") if place >= kept else "" for place, number in enumerate(self.instances)],
                "count": present.sum(axis=0).tolist(), "spans": spans,
            },
            "stretch": STRETCH,
        }  # fmt: skip

    def boxes(self, stretch: int) -> bytes:
        """The boxes of frames from `stretch` * STRETCH on, packed.

        Little-endian: number of frames F and of boxes B (uint32), where the boxes of each frame begin (F + 1 uint32),
        the track of each box (B uint32), its edges (B x 4 float32).
        """
        if stretch not in self._packed:
            begin = stretch * STRETCH
            self._packed[stretch] = _pack(_boxes(self.labels[begin : begin + STRETCH]))
            while len(self._packed) > HELD:
                self._packed.popitem(last=False)
        return self._packed[stretch]

    def in_view(self, instance: int, begin: int, end: int) -> bool:
        """Whether a track is in view on any frame from `begin` to before `end`."""
        return bool(self.present[begin:end, self.instances.index(instance)].any())


def _boxes(part: VideoLabels) -> np.ndarray:
    return np.concatenate([part.tracks.boxes, part.dropped.boxes], axis=1)


def _pack(boxes: np.ndarray) -> bytes:
    there = np.isfinite(boxes[..., 0])
    begin = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype("<u4")
    track = np.nonzero(there)[1].astype("<u4")
    return b"".join(
        [
            struct.pack("<II", len(boxes), len(track)),
            begin.tobytes(),
            track.tobytes(),
            boxes[there].astype("<f4").tobytes(),
        ]
    )


def _spans(present: np.ndarray) -> list[list[int]]:
    """For each track: first frame in view, first frame out of view, and so on."""
    edge = np.zeros((1, present.shape[1]), bool)
    track, frame = np.nonzero(np.diff(np.concatenate([edge, present, edge]), axis=0).T)
    edges = np.split(frame, np.cumsum(np.bincount(track, minlength=present.shape[1]))[:-1]) if present.shape[1] else []
    return [one.tolist() for one in edges]
