"""The SAM tracker finds objects, follows them both ways and knows them again.

The network is an oracle at the edge where weights would be needed: it follows the colour of what it was shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from labeling.embeddings.appearance import AppearanceEmbedder
from labeling.geometry import box, centre_of_mass
from labeling.masks import Mask
from labeling.proposals import FrameProposals, Proposal
from labeling.trackers import Observation
from labeling.trackers.sam2 import SamConfig, SamTracker
from labeling.trackers.sam_protocol import Segment
from labeling.video import Frame, Video
from tests.labeling.moving_discs import BLUE, GREEN, RED, WHITE, disc, draw, line
from tests.labeling.tiny_sam import MAKERS, write_tiny_sam

SHAPE = (96, 128)
Disc = tuple[Any, tuple[int, int, int], float]


class OracleSession:
    """Follows pixels of the colour under its last prompt; sees nothing where there are none."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._prompts: dict[int, np.ndarray] = {}
        self.colours: dict[int, np.ndarray] = {}
        self.told = 0

    def add(self, number: int, coverage: np.ndarray) -> None:
        self._prompts[number] = coverage
        self.told += 1

    def step(self, encoding: np.ndarray) -> dict[int, Segment]:
        image = encoding.astype(np.float32)
        for number, coverage in self._prompts.items():
            self.colours[number] = np.median(image[coverage >= 200], 0)
        self._prompts = {}
        self._oracle.steps += 1
        found = {}
        for number, colour in self.colours.items():
            logits = 5 - np.linalg.norm(image - colour, axis=2) / 12
            found[number] = Segment(logits.astype(np.float32), 4.0 if (logits > 0).sum() > 12 else -4.0)
        return found

    def inherit(self, number: int, other: OracleSession) -> None:
        self.told += other.told


@dataclass
class Oracle:
    """A segmenter whose encoding is the picture."""

    kind: type[OracleSession] = OracleSession
    encoded: list[bytes] = field(default_factory=list)
    steps: int = 0
    sessions: list[OracleSession] = field(default_factory=list)

    def encode(self, image: np.ndarray) -> np.ndarray:
        self.encoded.append(image.tobytes())
        return image

    def session(self) -> OracleSession:
        self.sessions.append(self.kind(self))
        return self.sessions[-1]


def write_video(folder: Path, images: list[np.ndarray]) -> Video:
    folder.mkdir()
    for index, image in enumerate(images):
        cv2.imwrite(str(folder / f"{index:04}.png"), image[..., ::-1])
    return Video(folder)


def proposal(path: Any, radius: float, frame: int, score: float = 0.9) -> Proposal | None:
    centre = path(frame)
    mask = None if centre is None else Mask.cut((disc(SHAPE, centre, radius) * 255).astype(np.uint8))
    return None if mask is None or mask.area < 20 else Proposal(mask, score)


@dataclass
class Scene:
    """Discs on a still background, proposed on every fifth frame, each only on the frames where it may be."""

    discs: list[Disc]
    frames: int
    shown: dict[int, range] = field(default_factory=dict)  # disc -> frames on which it is proposed
    cuts: tuple[int, ...] = (0,)
    every: int = 5

    def images(self) -> list[np.ndarray]:
        return [draw(self.discs, index, SHAPE)[0] for index in range(self.frames)]

    def proposed(self, video: Video) -> Iterator[FrameProposals]:
        for frame in video.frames():
            looked = frame.index % self.every == 0
            found = [
                proposal(path, radius, frame.index)
                for number, (path, _, radius) in enumerate(self.discs)
                if looked and frame.index in self.shown.get(number, range(self.frames))
            ]
            kept = [each for each in found if each is not None]
            yield FrameProposals(frame, kept, cut=frame.index in self.cuts, looked=looked)


def run(scene: Scene, folder: Path, config: SamConfig | None = None, oracle: Oracle | None = None) -> list[Observation]:
    video = write_video(folder / "frames", scene.images())
    tracker = SamTracker(config or SamConfig(window=12, reach=60), oracle or Oracle())
    return list(tracker.track(scene.proposed(video), AppearanceEmbedder(), video))


def frames_of(observations: list[Observation], track: int) -> list[int]:
    return [seen.frame for seen in observations if seen.track == track]


def between(path: Any, *ranges: range) -> Any:
    """A path that is there only on some frames."""
    return lambda t: path(t) if any(t in each for each in ranges) else None


def test_every_object_is_followed_on_every_frame_in_frame_order(tmp_path: Path) -> None:
    discs = [(line((20, 30), (1.3, 0)), RED, 9), (line((110, 70), (-1.2, 0)), BLUE, 11)]
    found = run(Scene(discs, 50), tmp_path)
    assert [seen.frame for seen in found] == sorted(seen.frame for seen in found)
    assert {seen.track for seen in found} == {0, 1}
    for track in (0, 1):
        assert frames_of(found, track) == list(range(50))
    for seen in found:
        path, _, radius = discs[0 if centre_of_mass(seen.mask)[1] < 50 else 1]
        x, y = path(seen.frame)
        assert np.abs(box(seen.mask) - [x - radius, y - radius, x + radius, y + radius]).max() < 1.0
        assert 0 <= seen.score <= 1
        assert (seen.embedding is not None) == (seen.frame % 5 == 0)


def test_an_object_proposed_late_is_followed_back_beyond_its_window_to_where_it_appeared(tmp_path: Path) -> None:
    path = between(line((30, 40), (0.8, 0.3)), range(13, 70))
    scene = Scene([(path, GREEN, 9)], 70, shown={0: range(50, 56)})
    oracle = Oracle()
    found = run(scene, tmp_path, oracle=oracle)
    assert frames_of(found, 0) == list(range(13, 70))
    assert {seen.track for seen in found} == {0}
    assert len(oracle.encoded) < 70 + 10  # stops soon before it appeared


def test_looking_back_ends_at_the_reach_and_at_a_cut(tmp_path: Path) -> None:
    scene = Scene([(line((30, 40), (0.5, 0)), GREEN, 9)], 70, shown={0: range(60, 70)})
    (tmp_path / "near").mkdir()
    assert frames_of(run(scene, tmp_path / "near", SamConfig(window=12, reach=20)), 0) == list(range(40, 70))
    (tmp_path / "cut").mkdir()
    cut = replace(scene, cuts=(0, 33))
    assert frames_of(run(cut, tmp_path / "cut"), 0) == list(range(33, 70))


def test_an_object_begins_at_its_best_proposal(tmp_path: Path) -> None:
    scene = Scene([(line((-3, 40), (2, 0)), RED, 9)], 24)  # enters from the left, whole from frame 6 on
    prompts: list[int] = []

    class Watched(OracleSession):
        def add(self, number: int, coverage: np.ndarray) -> None:
            prompts.append(int(np.count_nonzero(coverage[:, 0])))
            super().add(number, coverage)

    found = run(scene, tmp_path, SamConfig(window=24), Oracle(Watched))
    assert prompts == [0, 0]  # both ways from one proposal, which does not touch the border
    assert frames_of(found, 0)[0] == 0


def test_a_lost_object_keeps_its_number_when_it_comes_back(tmp_path: Path) -> None:
    red = line((30, 30), (0.5, 0))
    away = between(red, range(30), range(60, 90))
    discs = [(away, RED, 9), (line((100, 70), (-0.5, 0)), BLUE, 9)]
    oracle = Oracle()
    config = SamConfig(window=12, reach=24, patience=6, likeness=0.9)
    found = run(Scene(discs, 90), tmp_path, config, oracle)
    assert {seen.track for seen in found} == {0, 1}
    reds = {seen.track for seen in found if centre_of_mass(seen.mask)[1] < 50}
    assert len(reds) == 1
    assert frames_of(found, reds.pop()) == [*range(30), *range(60, 90)]
    assert max(session.told for session in oracle.sessions) == 2  # the memory of before was carried over


def test_an_object_of_other_looks_is_not_taken_for_the_lost_one(tmp_path: Path) -> None:
    discs = [
        (between(line((30, 30), (0.5, 0)), range(30)), RED, 9),
        (between(line((30, 30), (0.5, 0)), range(60, 90)), GREEN, 9),
    ]
    config = SamConfig(window=12, reach=24, patience=6, likeness=0.9)
    found = run(Scene(discs, 90), tmp_path, config)
    assert frames_of(found, 0) == list(range(30))
    assert frames_of(found, 1) == list(range(60, 90))


def test_numbers_go_on_after_a_cut_and_nothing_is_carried_over(tmp_path: Path) -> None:
    scene = Scene([(line((30, 40), (0.5, 0)), RED, 9)], 40, cuts=(0, 20))
    found = run(scene, tmp_path)
    assert frames_of(found, 0) == list(range(20))
    assert frames_of(found, 1) == list(range(20, 40))


def test_a_frame_is_encoded_once_for_all_objects(tmp_path: Path) -> None:
    discs = [(line((20, 15 + 20 * row), (1.1, 0)), colour, 7) for row, colour in enumerate((RED, BLUE, GREEN, WHITE))]
    oracle = Oracle()
    found = run(Scene(discs, 36), tmp_path, oracle=oracle)
    assert {seen.track for seen in found} == {0, 1, 2, 3}
    assert len(oracle.encoded) == len(set(oracle.encoded)) == 36


def test_two_objects_that_touch_on_one_look_stay_two(tmp_path: Path) -> None:
    discs = [(line((20, 40), (1, 0)), RED, 9), (line((100, 40), (-1, 0)), BLUE, 9)]
    scene = Scene(discs, 60)
    video = write_video(tmp_path / "frames", scene.images())

    def merged_when_near() -> Iterator[FrameProposals]:
        for proposed in scene.proposed(video):
            first, second = (path(proposed.frame.index) for path, _, _ in discs)
            if proposed.looked and abs(first[0] - second[0]) < 19:
                whole = np.maximum(disc(SHAPE, first, 9), disc(SHAPE, second, 9))
                mask = Mask.cut((whole * 255).astype(np.uint8))
                assert mask is not None
                proposed = replace(proposed, proposals=[Proposal(mask, 0.9)])
            yield proposed

    tracker = SamTracker(SamConfig(window=60), Oracle())
    found = list(tracker.track(merged_when_near(), AppearanceEmbedder(), video))
    assert {seen.track for seen in found} == {0, 1}
    assert max(seen.mask.area for seen in found) < 300


class DriftingSession(OracleSession):
    """From some frame on, the session of the second object slips onto the first."""

    def step(self, encoding: np.ndarray) -> dict[int, Segment]:
        if len(self._oracle.encoded) > 26 and self in self._oracle.sessions[2:4]:
            self.colours = {number: np.array(RED, np.float32) for number in self.colours}
        return super().step(encoding)


def test_of_two_tracks_with_one_mask_the_younger_ends(tmp_path: Path) -> None:
    discs = [(line((30, 30), (0.5, 0)), RED, 12), (line((80, 70), (-0.5, 0)), BLUE, 9)]
    found = run(Scene(discs, 60), tmp_path, SamConfig(window=12), Oracle(kind=DriftingSession))
    assert frames_of(found, 0) == list(range(60))
    reds = [seen for seen in found if centre_of_mass(seen.mask)[1] < 50]
    assert {seen.track for seen in reds} == {0}
    assert frames_of(found, 1) == list(range(60))  # found anew from its proposals, and known by the way back
    assert len(found) == 120


class ForgetfulSession(OracleSession):
    """Loses the first object that it followed forward for good once that is hidden."""

    def step(self, encoding: np.ndarray) -> dict[int, Segment]:
        found = super().step(encoding)
        if self in self._oracle.sessions[:2] and any(segment.presence < 0 for segment in found.values()):
            self.colours = {number: np.full(3, -999.0) for number in self.colours}
        return found


@pytest.mark.parametrize("hidden", [6, 26, 30, 33, 36])  # windows go from 0 to 11 and from 24 to 35
def test_a_newcomer_that_leads_back_to_a_lost_object_is_that_object(hidden: int, tmp_path: Path) -> None:
    path = between(line((30, 40), (0.5, 0)), range(hidden), range(hidden + 3, 70))
    scene = Scene([(path, RED, 9)], 70)
    config = SamConfig(window=12, reach=40, likeness=1.0)  # no looks are as alike as that
    found = run(scene, tmp_path, config, Oracle(kind=ForgetfulSession))
    assert {seen.track for seen in found} == {0}
    assert frames_of(found, 0) == [*range(hidden), *range(hidden + 3, 70)]


class FadingSession(DriftingSession):
    """Drifts as above; a little later the first object is lost for good."""

    def step(self, encoding: np.ndarray) -> dict[int, Segment]:
        if len(self._oracle.encoded) > 32 and self in self._oracle.sessions[:2]:
            self.colours = {number: np.full(3, -999.0) for number in self.colours}
        return super().step(encoding)


def test_a_track_that_slips_onto_an_object_beside_it_does_not_become_that_object(tmp_path: Path) -> None:
    discs = [(line((30, 30), (0.5, 0)), RED, 12), (line((80, 70), (-0.5, 0)), BLUE, 9)]
    found = run(Scene(discs, 60), tmp_path, SamConfig(window=12, reach=12), Oracle(kind=FadingSession))
    assert {seen.track for seen in found} == {0, 1}
    places = [(seen.frame, bool(centre_of_mass(seen.mask)[1] > 50)) for seen in found]
    assert len(set(places)) == len(places)
    assert {frame for frame, blue in places if blue} == set(range(60))


def test_no_more_objects_are_followed_than_allowed(tmp_path: Path) -> None:
    discs = [(line((20, 15 + 20 * row), (1, 0)), colour, 7) for row, colour in enumerate((RED, BLUE, GREEN, WHITE))]
    found = run(Scene(discs, 30), tmp_path, SamConfig(window=12, max_objects=2))
    assert {seen.track for seen in found} == {0, 1}


def test_motion_is_that_against_the_scene(tmp_path: Path) -> None:
    # The camera pans by 2 pixels a frame; what stands still on the picture moves in the scene.
    scene = Scene([(line((60, 40), (0, 0)), RED, 9), (line((100, 70), (-2, 0)), BLUE, 9)], 20)
    video = write_video(tmp_path / "frames", scene.images())
    pan = np.array([[1.0, 0, -2], [0, 1, 0], [0, 0, 1]])
    proposed = (replace(each, camera=pan) for each in scene.proposed(video))
    found = list(SamTracker(SamConfig(window=12), Oracle()).track(proposed, AppearanceEmbedder(), video))
    for seen in found[4:]:
        moves = centre_of_mass(seen.mask)[1] < 55
        assert seen.motion == pytest.approx(2.0 if moves else 0.0, abs=0.2)


def test_what_is_held_does_not_grow_with_the_video() -> None:
    image = draw([(line((40, 40), (0, 0)), RED, 9)], 0, SHAPE)[0]
    shown = proposal(line((40, 40), (0, 0)), 9, 0)
    assert shown is not None
    taken = 0

    def frames() -> Iterator[FrameProposals]:
        nonlocal taken
        for index in range(400):
            taken = index
            yield FrameProposals(Frame(index, index / 10, image), [shown], cut=index == 0)

    tracker = SamTracker(SamConfig(window=10, reach=30), Oracle())
    behind = [taken - seen.frame for seen in tracker.track(frames(), AppearanceEmbedder(), None)]  # type: ignore[arg-type]  # not asked for
    assert len(behind) == 400
    assert max(behind) <= 10 + 30


@pytest.mark.slow
@pytest.mark.parametrize("family", MAKERS)
def test_a_checkpoint_on_disk_follows_proposals_through_a_video(family: str, tmp_path: Path) -> None:
    write_tiny_sam(tmp_path / "weights", family)
    scene = Scene([(line((30, 40), (0.5, 0)), RED, 15), (line((100, 70), (-0.5, 0)), BLUE, 15)], 16)
    video = write_video(tmp_path / "frames", scene.images())
    config = SamConfig(image_size=84 if family == "sam3" else 96, window=8, max_objects=3)
    tracker = SamTracker.from_checkpoint(tmp_path / "weights", config, "cpu")
    found = list(tracker.track(scene.proposed(video), AppearanceEmbedder(), video))
    assert [seen.frame for seen in found] == sorted(seen.frame for seen in found)
    assert {seen.frame for seen in found} == set(range(16))
    again = list(tracker.track(scene.proposed(video), AppearanceEmbedder(), video))
    for one, other in zip(found, again, strict=True):
        assert (one.frame, one.track, one.score, one.motion) == (other.frame, other.track, other.score, other.motion)
        assert np.array_equal(one.mask.coverage, other.mask.coverage)


@pytest.mark.slow
def test_a_real_network_follows_many_objects_that_come_and_go(tmp_path: Path) -> None:
    """Random weights know nothing of discs: what is promised is the bookkeeping around a real session."""
    write_tiny_sam(tmp_path / "weights")
    discs: list[Disc] = [
        (between(line((16 + 15 * number, 20 + 9 * number), (0.4, 0.2)), range(6 * number, 6 * number + 20)), colour, 8)
        for number, colour in enumerate((RED, BLUE, GREEN, WHITE, RED, BLUE))
    ]
    scene = Scene(discs, 56, cuts=(0, 40))
    video = write_video(tmp_path / "frames", scene.images())
    config = SamConfig(image_size=64, window=8, reach=16, max_objects=4, patience=4, min_area=1)
    tracker = SamTracker.from_checkpoint(tmp_path / "weights", config, "cpu")
    encode, encoded = tracker._segmenter.encode, []
    tracker._segmenter.encode = lambda image: encoded.append(0) or encode(image)  # type: ignore[method-assign]  # to count
    found = list(tracker.track(scene.proposed(video), AppearanceEmbedder(), video))
    frames = [seen.frame for seen in found]
    assert frames == sorted(frames)
    assert len({(seen.frame, seen.track) for seen in found}) == len(found), "an object is seen once a frame"
    assert len({seen.track for seen in found}) >= 4
    before = {seen.track for seen in found if seen.frame < 40}
    assert not before & {seen.track for seen in found if seen.frame >= 40}, "nothing is carried over a cut"
    assert all(0 <= seen.score <= 1 and seen.mask.area > 0 for seen in found)
    assert len(encoded) <= 56 * (1 + config.reach / config.window), "windows once, and what was looked back into"
    again = list(tracker.track(scene.proposed(video), AppearanceEmbedder(), video))
    assert [(one.frame, one.track, one.score) for one in again] == [(one.frame, one.track, one.score) for one in found]
