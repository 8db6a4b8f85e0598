"""VideoCutLER: the published file loads, gives the reference's numbers, and its masks lie where the objects are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import psutil
import pytest
import safetensors.torch
import torch

from labeling.geometry import box
from labeling.masks import Mask
from labeling.proposals import Proposal
from labeling.proposals import videocutler_masks as masks
from labeling.proposals.videocutler import VideoCutLER, VideoCutLERConfig, VideoCutLERProposer
from labeling.proposals.videocutler_keys import PUBLISHED, CheckpointError, Sizes, names, sizes_in
from labeling.scan import ScanConfig, scan
from labeling.video import Video
from tests.labeling.moving_discs import BLUE, GREEN, RED, disc
from tests.labeling.test_scan import shots
from tests.labeling.tiny_videocutler import random_tensor, save, tiny_tensors, write_colour_finder, write_videocutler

FIXTURES = Path(__file__).parents[1] / "fixtures" / "videocutler"
PREDICTOR = "sem_seg_head.predictor"
Disc = tuple[tuple[float, float], float, tuple[int, int, int]]  # centre, radius, colour


def reference_tensors(device: str = "cpu") -> dict[str, torch.Tensor]:
    rows = json.loads((FIXTURES / "keys.json").read_text())["tensors"]
    if device == "meta":
        return {row["key"]: torch.empty(row["shape"], device="meta") for row in rows}
    tensors = {row["key"]: random_tensor(row["key"], row["shape"]) for row in rows}
    for row in rows:  # otherwise the recipe is wrong, not the network
        assert float(tensors[row["key"]].flatten()[0]) == pytest.approx(row["first"], abs=1e-6)
        assert float(tensors[row["key"]].double().norm()) == pytest.approx(row["l2"], rel=1e-6)
    return tensors


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VideoCutLER]:
    path = tmp_path_factory.mktemp("published") / "videocutler_m2f_rn50.pth"
    save(path, reference_tensors() | {"criterion.empty_weight": torch.tensor([1.0, 0.1])})
    yield VideoCutLER.from_checkpoint(path)
    path.unlink()  # 176 MB


@pytest.fixture(scope="module")
def finder_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_colour_finder(tmp_path_factory.mktemp("finder") / "finder.pth")


def painted(shape: tuple[int, int], *discs: Disc) -> np.ndarray:
    image = np.full((*shape, 3), 120, np.float32)
    for centre, radius, colour in discs:
        share = disc(shape, centre, radius)[..., None]
        image = image * (1 - share) + share * np.array(colour, np.float32)
    return image.round().astype(np.uint8)


def centre_of(proposal: Proposal) -> np.ndarray:
    x1, y1, x2, y2 = box(proposal.mask)
    return np.array([(x1 + x2) / 2, (y1 + y2) / 2])


@pytest.mark.slow
@pytest.mark.parametrize("clip", ["clip", "clip_pad"])
def test_numbers_are_those_of_the_reference(published: VideoCutLER, clip: str) -> None:
    expected = np.load(FIXTURES / f"{clip}.npz")
    queries = expected["top10_queries"]
    class_logits, mask_logits = published.predict(expected["frames"])
    np.testing.assert_allclose(class_logits.numpy(), expected["pred_logits"], atol=5e-5, rtol=0)
    if clip == "clip":
        np.testing.assert_allclose(mask_logits.numpy(), expected["pred_masks"], atol=5e-4, rtol=0)
    else:
        np.testing.assert_allclose(mask_logits[queries].numpy(), expected["pred_masks_top10"], atol=5e-4, rtol=0)
        np.testing.assert_allclose(mask_logits.numpy(), expected["pred_masks_f16"], atol=1e-2, rtol=0)

    shape = tuple(expected["out_masks_shape"].tolist())
    found = published.segment(expected["frames"], size=(shape[2], shape[3]))
    assert found.queries.tolist() == queries.tolist()
    np.testing.assert_allclose(found.scores, expected["top10_scores"], atol=1e-5, rtol=0)
    final = np.unpackbits(expected["out_masks_packed"], axis=-1, count=shape[3]).astype(bool)
    assert found.masks.shape == shape
    assert np.count_nonzero(found.masks != final) <= 20


def test_every_tensor_of_the_published_file_has_its_place() -> None:
    tensors = reference_tensors("meta")
    assert Sizes.of(tensors) == PUBLISHED
    assert set(names(PUBLISHED)) == set(tensors)
    places = [place for parts in names(PUBLISHED).values() for place in parts]
    assert len(places) == len(set(places)) == 593


@pytest.mark.parametrize("kind", ["nested", "bare", "safetensors", "old name", "half", "with the loss"])
def test_all_kinds_of_files_give_the_same(tmp_path: Path, kind: str) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (2, 64, 96, 3), np.uint8)
    tensors = {name: tensor.half().float() for name, tensor in tiny_tensors(3).items()}
    expected = VideoCutLER.from_checkpoint(save(tmp_path / "expected.pth", tensors)).predict(frames)
    path = tmp_path / "file.pth"
    if kind == "nested":
        torch.save({"model": {"state_dict": tensors}}, path)
    elif kind == "bare":
        torch.save(tensors, path)
    elif kind == "safetensors":
        path = path.with_suffix(".safetensors")
        safetensors.torch.save_file(tensors, path)
    elif kind == "old name":
        tensors[f"{PREDICTOR}.static_query.weight"] = tensors.pop(f"{PREDICTOR}.query_feat.weight")
        save(path, tensors)
    elif kind == "half":
        save(path, {name: tensor.half() for name, tensor in tensors.items()})
    else:
        save(path, tensors | {"criterion.empty_weight": torch.ones(2)})
    for got, wanted in zip(VideoCutLER.from_checkpoint(path).predict(frames), expected, strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("lost", ["query_feat.weight", "mask_embed.layers.1.bias"])
def test_missing_and_unexpected_tensors_are_named(tmp_path: Path, lost: str) -> None:
    tensors = tiny_tensors()
    del tensors[f"{PREDICTOR}.{lost}"]
    path = save(tmp_path / "other.pth", tensors | {"roi_heads.box.weight": torch.ones(3)})
    with pytest.raises(CheckpointError, match=r"other\.pth.*missing.*unexpected") as error:
        VideoCutLER.from_checkpoint(path)
    assert f"{PREDICTOR}.{lost}" in str(error.value)
    assert "roi_heads.box.weight" in str(error.value)


def test_published_file_cut_short_by_whole_layers_is_refused() -> None:
    tensors = {name: tensor for name, tensor in reference_tensors("meta").items() if "_layers.8." not in name}
    with pytest.raises(CheckpointError, match=r"18 missing \(.*transformer_cross_attention_layers\.8"):
        sizes_in(tensors, "short.pth")


def test_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    name = f"{PREDICTOR}.transformer_self_attention_layers.1.self_attn.in_proj_weight"
    path = save(tmp_path / "wide.pth", tiny_tensors() | {name: torch.ones(96, 48)})
    with pytest.raises(CheckpointError, match=rf"{name} has shape \(96, 48\), not \(96, 32\)"):
        VideoCutLER.from_checkpoint(path)


class Trap:
    """Touches a file if it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("kind", ["absent", "text", "cut", "folder", "numbers", "trap"])
def test_what_is_no_checkpoint_is_refused_in_words(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "weights.pth"
    if kind == "text":
        path.write_text("<html>404</html>")
    elif kind == "cut":
        write_videocutler(path)
        path.write_bytes(path.read_bytes()[:5000])
    elif kind == "folder":
        path.mkdir()
    elif kind == "numbers":
        torch.save([1, 2, 3], path)
    elif kind == "trap":
        torch.save({"model": Trap(tmp_path / "sprung")}, path)
    with pytest.raises(CheckpointError, match=r"weights\.pth .*videocutler_m2f_rn50\.pth"):
        VideoCutLER.from_checkpoint(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("shape", [(64, 64), (117, 243), (240, 101), (360, 640)])
@pytest.mark.parametrize("count", [1, 3])
def test_masks_lie_where_the_objects_are(finder_file: Path, shape: tuple[int, int], count: int) -> None:
    height, width = shape
    radius = min(shape) / 8
    places = [((0.3 + 0.05 * t) * width, 0.6 * height) for t in range(count)]
    other = (0.7 * width, 0.3 * height)
    frames = [painted(shape, (place, radius, RED), (other, radius, BLUE)) for place in places]
    found = VideoCutLERProposer(VideoCutLERConfig(), finder_file).propose_clip(frames)
    cell = 4 * min(shape) / 360  # the side of one mask logit, in pixels of the video
    assert len(found) == count
    for (red, blue), place in zip(found, places, strict=True):
        np.testing.assert_allclose(centre_of(red), place, atol=cell / 2)
        np.testing.assert_allclose(centre_of(blue), other, atol=cell / 2)
        x1, y1, x2, y2 = box(red.mask)
        np.testing.assert_allclose([x2 - x1, y2 - y1], 2 * radius, atol=2.5 * cell)  # pooling spreads a colour


def test_object_is_proposed_on_the_frames_that_show_it(finder_file: Path) -> None:
    red, green = ((40.0, 50.0), 15.0, RED), ((90.0, 40.0), 15.0, GREEN)
    frames = [painted((96, 128), red, green), painted((96, 128), green), painted((96, 128), red)]
    found = VideoCutLERProposer(VideoCutLERConfig(), finder_file).propose_clip(frames)
    centres = [[centre_of(proposal).round(-1).tolist() for proposal in here] for here in found]
    assert centres == [[[40, 50], [90, 40]], [[90, 40]], [[40, 50]]]
    speck = painted((96, 128), red, ((90.0, 40.0), 1.5, GREEN))
    assert len(VideoCutLERProposer(VideoCutLERConfig(min_area=1), finder_file).propose_clip([speck])[0]) == 2
    assert len(VideoCutLERProposer(VideoCutLERConfig(min_area=60), finder_file).propose_clip([speck])[0]) == 1


def test_score_and_top_choose_the_surest(finder_file: Path) -> None:
    discs = [((x, 48.0), 12.0, colour) for x, colour in ((20.0, RED), (60.0, GREEN), (100.0, BLUE))]
    frame = painted((96, 128), *discs)

    def places(config: VideoCutLERConfig) -> list[float]:
        return [centre_of(p)[0] for p in VideoCutLERProposer(config, finder_file).propose_clip([frame])[0]]

    assert places(VideoCutLERConfig()) == pytest.approx([20, 60, 100], abs=1)
    assert places(VideoCutLERConfig(score=0.87)) == pytest.approx([20, 60], abs=1)
    assert places(VideoCutLERConfig(top=1)) == pytest.approx([20], abs=1)
    assert places(VideoCutLERConfig(score=0.99)) == []


def test_of_two_queries_for_one_object_the_surer_is_kept(tmp_path: Path) -> None:
    path = write_colour_finder(tmp_path / "twice.pth", scores=(0.7, 0.8, 0.75, 0.9))  # the first and last find red
    frames = [painted((96, 128), ((40.0, 48.0), 15.0, RED), ((90.0, 48.0), 15.0, GREEN))] * 2
    model = VideoCutLER.from_checkpoint(path)
    assert model.segment(frames, score=0.5).queries.tolist() == [3, 1, 2, 0]
    assert model.segment(frames, score=0.5, overlap=0.7).queries.tolist() == [3, 1, 2]
    here = VideoCutLERProposer(VideoCutLERConfig(), path).propose_clip(frames)[0]
    assert [round(float(centre_of(proposal)[0])) for proposal in here] == [40, 90]
    assert 0.5 < here[0].score < 0.9  # the object's score times how sure its pixels are


@pytest.mark.parametrize("slope", [0.3, 1.0, 5.0])
def test_boxes_are_precise_to_a_fraction_of_a_pixel(slope: float) -> None:
    rows, columns = np.mgrid[:80, :100] + 0.5
    inside = np.minimum.reduce([columns - 20.3, 70.6 - columns, rows - 11.75, 60.1 - rows])
    coverage = masks.covered(torch.from_numpy(slope * inside).float()[None])[0].numpy()
    mask = Mask.cut(coverage)
    assert mask is not None
    np.testing.assert_allclose(box(mask), [20.3, 11.75, 70.6, 60.1], atol=0.15)
    assert np.array_equal(mask.placed(80, 100) >= 128, inside >= 0)


def test_only_the_chosen_masks_are_enlarged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = VideoCutLER.from_checkpoint(write_videocutler(tmp_path / "tiny.pth"))
    made: list[int] = []
    interpolate = masks.functional.interpolate

    def watched(*args: object, **kwargs: object) -> torch.Tensor:
        made.append((result := interpolate(*args, **kwargs)).numel())
        return result

    monkeypatch.setattr(masks.functional, "interpolate", watched)
    found = model.segment(np.zeros((2, 64, 96, 3), np.uint8), size=(480, 720), top=3)
    assert found.coverage.shape == (3, 2, 480, 720)
    assert [size for size in made if size >= 480 * 720] == [2 * 480 * 720] * 3  # one query at a time, three in all


def test_a_clip_gives_the_same_twice(tmp_path: Path) -> None:
    path = write_videocutler(tmp_path / "tiny.pth")
    frames = list(np.random.default_rng(1).integers(0, 256, (3, 50, 70, 3), np.uint8))
    first, second = (VideoCutLER.from_checkpoint(path).segment(frames) for _ in range(2))
    assert len(first.queries) == 10
    assert np.array_equal(first.coverage, second.coverage)
    assert np.array_equal(first.scores, second.scores)


def test_video_is_looked_at_in_clips_of_one_scene(
    tmp_path: Path, finder_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).integers(-25, 25, (2, 72, 96, 1))
    scenes = [[painted((72, 96), ((20.0 + t, 36.0), 9.0, RED)) for t in range(26)]]
    scenes.append([255 - painted((72, 96), ((70.0 - t, 36.0), 9.0, GREEN)) // 2 for t in range(14)])
    pictures = [np.clip(image + noise[place], 0, 255).astype(np.uint8) for place in (0, 1) for image in scenes[place]]
    shots(tmp_path / "video", pictures)
    proposer = VideoCutLERProposer(VideoCutLERConfig(every=4, clip=3), finder_file)
    shown: list[int] = []
    predict = proposer.model.predict
    monkeypatch.setattr(proposer.model, "predict", lambda frames: (shown.append(len(frames)), predict(frames))[1])
    video = Video(tmp_path / "video")
    found = list(proposer.propose(video, scan(video)))
    assert [item.frame.index for item in found] == list(range(40))
    assert [item.frame.index for item in found if item.cut] == [0, 26]
    assert [item.frame.index for item in found if item.looked] == [*range(0, 26, 4), *range(26, 40, 4)]
    assert shown == [3, 3, 1, 3, 1]
    red = [item for item in found if item.looked and item.frame.index < 26]
    assert [round(float(centre_of(item.proposals[0])[0])) for item in red] == [20 + item.frame.index for item in red]
    assert not any(item.proposals for item in found if not item.looked)


@pytest.mark.slow
def test_long_video_takes_no_more_memory_than_a_short_one(
    tmp_path: Path, finder_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labeling.scan.KEPT_BYTES", 0)  # the scan may keep frames up to a limit of its own
    proposer = VideoCutLERProposer(VideoCutLERConfig(every=5, clip=4, short_side=96), finder_file)
    process, most = psutil.Process(), []
    for count in (40, 150):
        (tmp_path / str(count)).mkdir()
        for number in range(count):
            image = painted((480, 640), ((100.0 + 2 * number, 240.0), 60.0, RED))
            cv2.imwrite(str(tmp_path / str(count) / f"{number:03}.jpg"), image[..., ::-1])
        video = Video(tmp_path / str(count))
        found = proposer.propose(video, scan(video, ScanConfig(samples=2)))
        most.append(max(process.memory_info().rss / 1e6 for _ in found))
    assert most[1] - most[0] < 50  # the frames themselves differ by 101 MB, what torch keeps for later by some 30


def test_settings_load_without_torch() -> None:
    code = (
        "import sys, labeling.proposals.videocutler; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
