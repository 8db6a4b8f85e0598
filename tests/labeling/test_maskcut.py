from __future__ import annotations

import time
from pathlib import Path

import cv2
import numpy as np
import pytest
import scipy.linalg

from labeling.embeddings import dinov2_network
from labeling.masks import Mask
from labeling.proposals import normalised_cuts, segments
from labeling.proposals.maskcut import MaskCutConfig, MaskCutProposer, segmented
from labeling.proposals.normalised_cuts import FAINT, best_cuts, likeness, second_eigenvectors
from labeling.proposals.refinement import refined
from labeling.proposals.segments import Segment
from labeling.scan import scan
from labeling.video import Video
from tests.labeling.conftest import COLOURS, FRAMES, SIDE, square_at
from tests.labeling.tiny_dino import write_dino, write_dinov2_with_registers

ROWS, COLUMNS, PATCH, DEPTH = 34, 60, 14, 384
CONFIG = MaskCutConfig()
Ellipse = tuple[float, float, float, float]  # row and column of the middle, half height and half width, in patches

SCENES: dict[str, list[Ellipse]] = {
    "one": [(15, 20, 6, 8)],
    "one of four patches": [(16, 20, 1.2, 1.2)],
    "one that fills half the picture": [(17, 30, 14, 24)],
    "one at the border": [(33, 30, 6, 10)],
    "one in the corner": [(0, 0, 10, 12)],
    "two that touch": [(15, 20, 6, 6), (15, 31, 4, 5)],
    "three": [(10, 10, 5, 6), (25, 30, 4, 4), (10, 45, 4, 8)],
}


def shares(scene: list[Ellipse], fine: int = 8) -> np.ndarray:
    """How much of each patch shows the background and each object, (ROWS, COLUMNS, 1 + objects)."""
    y, x = (np.mgrid[: ROWS * fine, : COLUMNS * fine] + 0.5) / fine
    what = np.zeros(y.shape, int)
    for number, (row, column, high, wide) in enumerate(scene, 1):
        what[((y - row) / high) ** 2 + ((x - column) / wide) ** 2 <= 1] = number
    each = [what == number for number in range(len(scene) + 1)]
    return np.stack([one.reshape(ROWS, fine, COLUMNS, fine).mean((1, 3)) for one in each], -1)


def features_of(parts: np.ndarray, noise: float, seed: int = 0, one_kind: bool = False) -> np.ndarray:
    """Every part of the scene has a feature of its own; patches that show several parts have the mixture, and noise.

    `noise` is its length against that of a feature: at 1.8 two patches of one object have a cosine of .24 on average.
    """
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((parts.shape[-1], DEPTH)) / np.sqrt(DEPTH)
    if one_kind:
        own[2:] = own[1]
    noisy = parts @ own + noise * rng.standard_normal((*parts.shape[:2], DEPTH)) / np.sqrt(DEPTH)
    return noisy.astype(np.float32)


def overlap(first: np.ndarray, second: np.ndarray) -> float:
    return float((first & second).sum() / max(1, (first | second).sum()))


def segments_of(features: np.ndarray, config: MaskCutConfig = CONFIG) -> list[Segment]:
    """The segments of one picture."""
    (found,) = segments.find_segments(features[None], config)
    return found


def patches_of(found: list[Segment]) -> list[np.ndarray]:
    return [segment.patches for segment in found]


def found_of(parts: np.ndarray, found: list[Segment]) -> list[float]:
    """How well each object of a scene was found."""
    objects = [parts[..., number] > 0.5 for number in range(1, parts.shape[-1])]
    return [max((overlap(segment.patches, one) for segment in found), default=0.0) for one in objects]


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0, 1.8])
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_each_object_is_one_segment_whatever_the_noise(scene, noise):
    parts = shares(scene)
    found = segments_of(features_of(parts, noise))
    assert len(found) == len(scene)
    assert min(found_of(parts, found)) >= 0.95
    assert np.sum(patches_of(found), 0).max() <= 1


@pytest.mark.parametrize("noise", [0.0, 1.0, 1.8])
def test_equal_objects_apart_are_several_segments(noise):
    parts = shares(SCENES["three"])
    found = segments_of(features_of(parts, noise, one_kind=True))
    assert len(found) == 3
    assert min(found_of(parts, found)) >= 0.95


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0, 1.8, 2.5, 4.0, 20.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_empty_scene_has_no_segment(noise, seed):
    assert segments_of(features_of(shares([]), noise, seed)) == []


def test_features_without_any_length_have_no_segment():
    assert segments_of(np.zeros((8, 8, 16), np.float32)) == []
    assert segments_of(np.ones((1, 1, 16), np.float32)) == []


def test_no_more_masks_than_wanted_and_small_ones_are_noise():
    features = features_of(shares(SCENES["three"]), 0.5)
    assert len(segments_of(features, MaskCutConfig(masks=2))) == 2
    sizes = [int(segment.patches.sum()) for segment in segments_of(features, MaskCutConfig(min_patches=60))]
    assert len(sizes) == 2
    assert min(sizes) >= 60


def test_stray_patches_are_no_segment_and_do_not_hide_the_object():
    """Networks without registers put a few odd patches anywhere, alike among themselves."""
    parts = shares(SCENES["one"])
    features = features_of(parts, 0.5)
    rng = np.random.default_rng(3)
    odd = rng.standard_normal(DEPTH)
    for row, column in [(2, 3), (5, 50), (14, 40), (15, 21), (28, 11), (30, 30), (31, 55), (20, 45), (8, 33)]:
        features[row, column] = odd
    features[3, 30], features[25, 25] = rng.standard_normal((2, DEPTH))
    found = segments_of(features)
    assert len(found) == 1
    assert found_of(parts, found)[0] >= 0.95


MIXED = [("three", 1.8), ("", 1.0), ("one", 0.5), ("two that touch", 1.0), ("", 4.0), ("one in the corner", 0.0)]


def mixed_batch() -> tuple[list[np.ndarray], np.ndarray]:
    """The parts and the features of pictures with three, no, one, two, no and one object."""
    parts = [shares(SCENES[name] if name else []) for name, _ in MIXED]
    return parts, np.stack([features_of(parts[seed], noise, seed) for seed, (_, noise) in enumerate(MIXED)])


def same(first: list[list[Segment]], second: list[list[Segment]]) -> bool:
    """Whether the segments of several pictures are the same to the last bit."""
    facts = [[[(one.cut, one.patches.tobytes()) for one in found] for found in each] for each in (first, second)]
    return facts[0] == facts[1]


def test_pictures_of_a_batch_have_as_many_segments_as_they_hold():
    parts, features = mixed_batch()
    together = segments.find_segments(features, CONFIG)
    assert [len(found) for found in together] == [3, 0, 1, 2, 0, 1]
    for one, found in zip(parts, together, strict=True):
        assert min(found_of(one, found), default=1.0) >= 0.95


@pytest.mark.parametrize("room", [None, 2 * 4 * (ROWS * COLUMNS) ** 2], ids=["one stack", "stacks of two"])
def test_what_else_is_in_a_batch_changes_nothing(room, monkeypatch):
    _, features = mixed_batch()
    alone = [segments_of(one) for one in features]
    if room:
        monkeypatch.setattr(segments, "ROOM", room)
    assert same(segments.find_segments(features, CONFIG), alone)
    assert same(segments.find_segments(features[::-1].copy(), CONFIG), alone[::-1])


def test_a_picture_that_is_done_is_not_multiplied_any_more(monkeypatch):
    _, features = mixed_batch()
    multiply, products = normalised_cuts._linked, []

    def watched(vectors, alike, going):
        products.append(going.copy())
        return multiply(vectors, alike, going)

    monkeypatch.setattr(normalised_cuts, "_linked", watched)
    alone = []
    for one in features:
        segments_of(one)
        alone.append(len(products))
        products.clear()
    segments.find_segments(features, CONFIG)
    assert np.sum(products, 0).tolist() == alone
    assert len(products) < 0.6 * sum(alone)  # the hardest alone takes 54


def graphs_of(*noise: float) -> np.ndarray:
    features = np.stack([features_of(shares(SCENES["three"]), each).reshape(-1, DEPTH) for each in noise])
    return likeness(features / np.linalg.norm(features, axis=2, keepdims=True), CONFIG.threshold)


@pytest.mark.slow
@pytest.mark.alone
def test_cut_is_that_of_a_dense_solver_and_many_times_as_fast():
    alike = graphs_of(1.8, 0.5)
    nodes = np.ones(alike.shape[:2], bool)
    weights = np.where(alike > 0, 1.0, FAINT)
    degree = weights.sum(2)
    places = second_eigenvectors(alike, nodes, degree)
    dense = 0.0
    for place, w, d in zip(places, weights, degree, strict=True):
        began = time.perf_counter()
        values, vectors = scipy.linalg.eigh(np.diag(d) - w, np.diag(d), subset_by_index=[1, 1])
        dense += time.perf_counter() - began
        assert abs(np.corrcoef(place, vectors[:, 0])[0, 1]) > 0.9999
        assert (place @ (d * place) - place @ w @ place) / (place @ (d * place)) == pytest.approx(values[0])
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        best_cuts(alike, nodes)
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < dense / 8


def test_value_of_a_cut_is_the_share_of_links_that_it_severs():
    alike = graphs_of(1.8)
    nodes = np.ones(alike.shape[:2], bool)
    nodes[:, ::7] = False
    (cut,) = best_cuts(alike, nodes)
    weights = np.where(alike[0] > 0, 1.0, FAINT) * np.outer(nodes[0], nodes[0])
    low = nodes[0] & ~cut.high
    assert not cut.high[~nodes[0]].any()
    across = weights[np.ix_(cut.high, low)].sum()
    assert cut.value == pytest.approx(across / weights[cut.high].sum() + across / weights[low].sum(), rel=1e-4)


@pytest.mark.parametrize("size", [0, 1, 2, 9])
def test_a_graph_that_is_all_alike_has_no_good_cut(size):
    nodes = np.arange(9)[None] < size
    (cut,) = best_cuts(np.ones((1, 9, 9), np.float32), nodes)
    assert cut.value >= 1


def star(radius: float, arms: float, centre: tuple[float, float] = (230.0, 400.0)) -> np.ndarray:
    y, x = np.mgrid[: ROWS * PATCH, : COLUMNS * PATCH]
    angle, distance = np.arctan2(y - centre[0], x - centre[1]), np.hypot(y - centre[0], x - centre[1])
    return distance < radius * (1 + arms * np.cos(5 * angle))


def painted(solid: np.ndarray, noise: float, texture: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: solid.shape[0], : solid.shape[1]]
    image = np.where(solid[..., None], (200, 70, 60), (70, 120, 130)).astype(float)
    image += texture * np.where(solid, np.sin(x / 6), np.sin(y / 9 + x / 30))[..., None]
    image += noise * rng.standard_normal(image.shape)
    return np.clip(image, 0, 255).astype(np.uint8)


PICTURES = [
    (star(80, 0.0), 2.0, 0.0),
    (star(50, 0.0), 8.0, 15.0),
    (star(40, 0.25), 4.0, 0.0),
    (star(120, 0.25), 8.0, 15.0),
    (star(90, 0.2, (470.0, 20.0)), 4.0, 10.0),
    (star(80, 0.25), 15.0, 0.0),
]


@pytest.mark.parametrize(("solid", "noise", "texture"), PICTURES)
def test_segment_is_refined_to_the_pixel(solid, noise, texture):
    covered = solid.reshape(ROWS, PATCH, COLUMNS, PATCH).mean((1, 3))
    features = features_of(np.stack([1 - covered, covered], -1), 1.0)
    (proposals,) = segmented([painted(solid, noise, texture)], features[None], CONFIG)
    assert len(proposals) == 1
    assert 0 < proposals[0].score <= 1
    mask = proposals[0].mask.placed(*solid.shape)
    patches = cv2.resize((covered > 0.5).astype(np.uint8), solid.shape[::-1], interpolation=cv2.INTER_NEAREST) > 0
    assert overlap(mask >= 128, solid) >= 0.95
    assert overlap(mask >= 128, solid) > overlap(patches, solid)
    rows, columns = np.flatnonzero(solid.any(1)), np.flatnonzero(solid.any(0))
    true_box = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    np.testing.assert_allclose(Mask.cut(mask * (mask >= 128)).bounds, true_box, atol=3)


def test_object_of_the_background_colour_keeps_its_patches():
    """Colour says nothing here, the network does."""
    patches = np.zeros((ROWS, COLUMNS), bool)
    patches[10:20, 20:34] = True
    grey = np.full((ROWS * PATCH, COLUMNS * PATCH, 3), 90, np.uint8)
    expected = np.repeat(np.repeat(patches, PATCH, 0), PATCH, 1)
    assert overlap(refined(grey, patches) >= 128, expected) > 0.95


def test_thin_part_is_not_refined_away():
    """Nothing in the picture shows the rope, only the patches do."""
    solid = star(60, 0.0)
    patches = solid.reshape(ROWS, PATCH, COLUMNS, PATCH).mean((1, 3)) > 0.5
    middle = 400 // PATCH
    patches[: 230 // PATCH, middle] = True
    coverage = refined(painted(solid, 2.0, 0.0), patches)
    assert np.flatnonzero((coverage >= 128).any(1))[0] < PATCH


@pytest.mark.parametrize("size", [(20, 30), (64, 96), (333, 517)])
def test_pictures_of_any_size_are_refined(size):
    patches = np.zeros((24, 36), bool)
    patches[6:18, 9:27] = True
    image = np.zeros((*size, 3), np.uint8)
    inside = np.s_[size[0] // 4 : size[0] * 3 // 4, size[1] // 4 : size[1] * 3 // 4]
    image[inside] = 200
    expected = np.zeros(size, bool)
    expected[inside] = True
    assert overlap(refined(image, patches) >= 128, expected) > 0.95
    assert not refined(image, np.zeros((24, 36), bool)).any()


class ColourNetwork:
    """Stands for the network: the feature of a patch says how much of it is red, blue or background."""

    calls: list[int]

    def __init__(self, *_: object) -> None:
        self.calls = []

    def __call__(self, images: list[np.ndarray], longest: int) -> np.ndarray:
        self.calls.append(len(images))
        height, width = images[0].shape[:2]
        grid = longest, round(longest * height / width)
        known = np.array([(235, 235, 235), *COLOURS], float)
        nearest = [np.linalg.norm(image[:, :, None] - known, axis=-1).argmin(-1) for image in images]
        return np.stack([
            cv2.resize(np.eye(3, dtype=np.float32)[which], grid, interpolation=cv2.INTER_AREA) for which in nearest
        ])  # fmt: skip


def test_video_yields_every_frame_and_masks_on_sparse_ones(tmp_path, write_video, monkeypatch):
    monkeypatch.setattr(dinov2_network, "PatchNetwork", ColourNetwork)
    write_video(tmp_path / "squares.mp4")
    video = Video(tmp_path / "squares.mp4")
    proposer = MaskCutProposer(MaskCutConfig(every=5, batch=2, patches=24), Path("nowhere"), "cpu")
    frames = list(proposer.propose(video, scan(video)))
    assert [seen.frame.index for seen in frames] == list(range(FRAMES))
    assert [seen.frame.index for seen in frames if seen.looked] == [0, 5, 10, 15, 20]
    assert proposer._network.calls == [2, 2, 1]
    assert all(not seen.proposals for seen in frames if not seen.looked)
    for seen in frames[::5]:
        squares = [place for track in (0, 1) if (place := square_at(seen.frame.index, track))]
        assert len(seen.proposals) == len(squares)
        boxes = sorted((proposal.mask.bounds for proposal in seen.proposals), key=lambda box: box[1])
        for (x, y), box in zip(squares, boxes, strict=True):
            np.testing.assert_allclose(box, (x, y, x + SIDE, y + SIDE), atol=2)


@pytest.mark.parametrize("write", [write_dinov2_with_registers, write_dino])
@pytest.mark.parametrize("features", ["keys", "tokens"])
def test_proposer_runs_on_a_checkpoint_from_disk(tmp_path, write, features):
    config = MaskCutConfig(patches=12, features=features)
    proposer = MaskCutProposer(config, write(tmp_path / "network"), "cpu")
    images = [painted(star(80, 0.0), 4.0, 10.0, seed)[::4, ::4] for seed in range(3)]
    together = proposer.propose_clip(images)
    assert len(together) == 3
    assert all(len(some) <= config.masks for some in together)
    assert all(proposal.mask.area > 0 for some in together for proposal in some)
