"""Looking back: every frame can be had again, and little is decoded twice."""

from itertools import islice

import numpy as np
import pytest

import labeling.video
from labeling import streams
from labeling.rewinding import PACKING, ROOM, Rewinder
from labeling.trackers.sam_config import SamConfig
from labeling.video import Frame, Video
from tests.labeling.odd_videos import pictures, video

pytestmark = pytest.mark.usefixtures("silent")


class CountedPacket:
    """A packet that counts the pictures it becomes."""

    decoded = 0

    def __init__(self, packet):
        self._packet = packet

    def __getattr__(self, name):
        return getattr(self._packet, name)

    def decode(self):
        frames = self._packet.decode()
        CountedPacket.decoded += len(frames)
        return frames


@pytest.fixture
def decoded(monkeypatch):
    """How many pictures were decoded so far."""
    read = streams.packets
    for place in (streams, labeling.video):
        monkeypatch.setattr(place, "packets", lambda *where: map(CountedPacket, read(*where)))
    CountedPacket.decoded = 0
    return lambda: CountedPacket.decoded


WINDOW, REACH, LONG = 24, 120, 360
LOOKED_BACK = [
    # name, codec, options, pictures decoded for each that is handed out while looking back
    ("mjpeg.avi", "mjpeg", {}, 1),
    ("clip.avi", "mpeg4", {"g": "10"}, 2),
    ("b_frames.avi", "mpeg4", {"g": "10", "bf": "2"}, 2),
    ("h264.avi", "libx264", {"g": "10"}, 2),
    ("clip.mp4", "libx264", {"g": "10"}, 2),
    ("one_key.avi", "mpeg4", {"g": "600"}, 0),
    ("clip.gif", "gif", {}, 0),
    ("one_key.mp4", "libx264", {"g": "600", "sc_threshold": "0"}, 0),
    ("raw.h264", "libx264", {}, 0),
]


@pytest.mark.parametrize(("name", "codec", "options", "cost"), LOOKED_BACK, ids=[row[0] for row in LOOKED_BACK])
def test_looking_back_again_and_again_decodes_little_twice(tmp_path, decoded, name, codec, options, cost):
    container = "h264" if name.endswith("h264") else None
    path = video(tmp_path / name, pictures(LONG), codec, container=container, **options)
    whole = [frame.image for frame in Video(path).frames()]
    opened = Video(path)
    before, handed = decoded(), 0
    for frame in opened.frames():
        if frame.index % WINDOW:
            continue
        for begin in range(frame.index - WINDOW, max(0, frame.index - REACH - 1), -WINDOW):
            chunk = list(islice(opened.frames(begin), WINDOW))
            assert [late.index for late in chunk] == list(range(begin, begin + WINDOW))
            for late in chunk:
                np.testing.assert_array_equal(late.image, whole[late.index])
            handed += WINDOW
    assert handed > 3 * LONG
    assert decoded() - before <= 2 * LONG + cost * handed


def test_a_rewinder_holds_no_more_than_it_may_and_still_gives_every_frame():
    rng = np.random.default_rng(0)
    made = [Frame(index, index / 10, rng.integers(0, 256, (16, 16, 3), np.uint8)) for index in range(100)]
    begun = []

    def read():
        begun.append(0)
        yield from made

    rewinder = Rewinder(read, room=10 * 16 * 16 * 3)
    for start in (50, 45, 60, 20, 99, 3, 100):
        for frame, expected in zip(rewinder.frames(start), made[start:], strict=True):
            assert (frame.index, frame.time) == (expected.index, expected.time)
            np.testing.assert_array_equal(frame.image, expected.image)
            frame.image[:] = 0  # a frame is the reader's own
            assert sum(len(packed) for _, _, packed in rewinder._held.values()) <= rewinder._room
    assert len(begun) <= 6
    begun.clear()
    for stop in range(60, 100, 4):
        assert [frame.index for frame in islice(rewinder.frames(stop - 5), 5)] == list(range(stop - 5, stop))
    assert len(begun) == 1


@pytest.mark.parametrize(("room", "once"), [(24, True), (10, False)])
def test_a_look_back_decodes_nothing_twice_if_there_is_room_for_its_reach(room, once):
    """Windows of 8 frames, each followed by a look back over 24 frames, as a tracker does it."""
    rng = np.random.default_rng(1)
    made = [Frame(index, index / 10, rng.integers(0, 256, (16, 16, 3), np.uint8)) for index in range(96)]
    decoded = []

    def read():
        for frame in made:
            decoded.append(frame.index)
            yield frame

    packed = max(len(PACKING.encode(frame.image)) for frame in made)
    rewinder = Rewinder(read, room=room * packed)
    for stop in range(8, 97, 8):
        for begin in range(stop - 8, max(0, stop - 24) - 1, -8):
            for frame, expected in zip(islice(rewinder.frames(begin), 8), made[begin : begin + 8], strict=True):
                np.testing.assert_array_equal(frame.image, expected.image)
    assert (decoded == list(range(96))) == once


def test_a_rewinder_has_room_for_as_far_as_sam_looks_back():
    assert SamConfig().reach * 960 * 720 * 3 <= ROOM
