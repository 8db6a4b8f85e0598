"""SAM streams through any length of video with the outputs of an unpruned session."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from labeling.checkpoints import WeightsError
from labeling.trackers.sam_loading import IMAGENET, SAM2, load
from labeling.trackers.sam_session import SamSegmenter
from tests.labeling.tiny_sam import FIXTURES, MAKERS, recipe_model, write_tiny_sam

FAMILIES = {"sam2": (64, 96), "sam3": (56, 84), "edgetam": (64, 96)}


def square(top: int, left: int, side: int = 30, shape: tuple[int, int] = (64, 64)) -> np.ndarray:
    coverage = np.zeros(shape, np.uint8)
    coverage[top : top + side, left : left + side] = 255
    return coverage


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: write_tiny_sam(tmp_path_factory.mktemp(family), family) for family in MAKERS}


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (60, 64, 64, 3), dtype=np.uint8)


@pytest.mark.slow
def test_a_stream_gives_the_recorded_masks_and_scores() -> None:
    segmenter = SamSegmenter(recipe_model(), SAM2.part("InferenceSession"), *IMAGENET)
    session, expected = segmenter.session(), np.load(FIXTURES / "stream.npz")
    probe = np.floor(np.linspace(0, 1023, 256)).astype(int)
    for index, frame in enumerate(expected["frames"]):
        for number, begin in ((1, 0), (2, 9)):
            if index == begin:
                coverage = np.zeros((128, 128), np.uint8)
                coverage[10 + index : 60 + index, 30:70] = 255
                session.add(number, coverage)
        found = session.step(segmenter.encode_pixels(torch.from_numpy(frame).float() / 64 - 2))
        assert set(found) == ({1, 2} if index >= 9 else {1})
        for number, segment in found.items():
            assert abs(segment.presence - expected["object_score_logits"][index, number - 1]) <= 5e-3
            difference = segment.logits.ravel()[probe] - expected["pred_masks_probe"][index, number - 1]
            assert np.abs(difference).max() <= 5e-2


def unpruned(segmenter: SamSegmenter, pictures: np.ndarray, prompts: dict[int, dict[int, np.ndarray]]) -> list[Any]:
    """What transformers' own session gives, nothing dropped and each picture encoded by itself."""
    state = segmenter._session_type(dtype=torch.float32)
    found = []
    for index, picture in enumerate(pictures):
        for number, coverage in prompts.get(index, {}).items():
            mask = torch.from_numpy((coverage > 127).astype(np.float32))[None, None]
            state.add_mask_inputs(state.obj_id_to_idx(number), index, mask)
            state.obj_with_new_inputs.append(number)
        found.append(segmenter.model(state, frame=segmenter.pixels(picture)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", MAKERS)
def test_pruning_changes_no_bit_over_sixty_frames_with_an_object_added_and_one_prompted_again(
    family: str, folders: dict[str, Path], pictures: np.ndarray
) -> None:
    segmenter = load(folders[family], device="cpu")
    size = segmenter.image_size
    prompts = {
        0: {1: square(5, 8, 30, (size, size))}, 25: {2: square(20, 2, 30, (size, size))},
        40: {1: square(9, 9, 30, (size, size))},
    }  # fmt: skip
    session, expected = segmenter.session(), unpruned(segmenter, pictures, prompts)
    varied = []
    for index, picture in enumerate(pictures):
        for number, coverage in prompts.get(index, {}).items():
            session.add(number, coverage)
        found = session.step(segmenter.encode(picture))
        assert list(found) == expected[index].object_ids
        masks = expected[index].pred_masks.numpy()
        for place, segment in enumerate(found.values()):
            assert segment.presence == float(expected[index].object_score_logits.ravel()[place])
            assert np.array_equal(segment.logits, masks[place].reshape(segment.logits.shape))
            varied.append(segment.logits.std())
    assert min(varied) > 0  # the masks that were compared show something


@pytest.mark.slow
def test_memory_is_flat_over_a_thousand_frames_with_prompts_again_and_again(folders: dict[str, Path]) -> None:
    segmenter = load(folders["sam2"], device="cpu", conditioning=3)
    session, process, rng = segmenter.session(), psutil.Process(), np.random.default_rng(1)
    held, resident = [], []
    for index in range(1000):
        if index % 50 == 0:
            session.add(1, square(index % 30, 4))
        session.step(segmenter.encode(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)))
        held.append(session.held_bytes())
        if index % 100 == 99:
            gc.collect()
            resident.append(process.memory_info().rss)
    assert max(held[150:]) <= max(held[100:150])
    assert max(resident[2:]) - resident[1] < 8 << 20  # unpruned: 0.1 MB a frame


@pytest.mark.parametrize("family", MAKERS)
def test_every_family_streams_at_another_picture_size(
    family: str, folders: dict[str, Path], pictures: np.ndarray
) -> None:
    for size in FAMILIES[family]:
        segmenter = load(folders[family], size, "cpu")
        assert segmenter.pixels(pictures[0]).shape == (3, size, size)
        session = segmenter.session()
        session.add(7, square(10, 12))
        for picture in pictures[:3]:
            segment = session.step(segmenter.encode(picture))[7]
        patch = 14 if family == "sam3" else 16
        assert segment.logits.shape == (4 * size // patch, 4 * size // patch)
        assert np.isfinite(segment.logits).all()


def test_the_prompt_is_the_answer_on_its_own_picture(folders: dict[str, Path], pictures: np.ndarray) -> None:
    segmenter = load(folders["sam2"], device="cpu")
    session = segmenter.session()
    session.add(1, square(16, 8, 32, (64, 128)))
    segment = session.step(segmenter.encode(np.zeros((64, 128, 3), np.uint8)))[1]
    solid = segment.logits > 0
    assert segment.presence > 0
    assert solid[4:12, 1:5].all()
    assert solid.sum() == 32  # (16, 16): 64 x 128 pixels stretched to a square


def test_a_picture_is_encoded_once_however_many_objects(folders: dict[str, Path], pictures: np.ndarray) -> None:
    segmenter = load(folders["sam2"], device="cpu")
    calls = []
    segmenter.model.vision_encoder.register_forward_hook(lambda *_: calls.append(1))
    session, other = segmenter.session(), segmenter.session()
    for number in range(4):
        (session if number else other).add(number, square(5 * number, 6 * number))
    for picture in pictures[:5]:
        encoding = segmenter.encode(picture)
        assert len(session.step(encoding)) == 3
        assert len(other.step(encoding)) == 1
    assert len(calls) == 5


def test_prompts_of_an_earlier_session_are_remembered_and_capped(
    folders: dict[str, Path], pictures: np.ndarray
) -> None:
    segmenter = load(folders["sam2"], device="cpu", conditioning=2)
    earlier, heir, alone = segmenter.session(), segmenter.session(), segmenter.session()
    for index, picture in enumerate(pictures[:10]):
        if index % 3 == 0:
            earlier.add(5, square(index, 4))
        earlier.step(segmenter.encode(picture))
    for session in (heir, alone):
        session.add(5, square(20, 20))
        session.step(segmenter.encode(pictures[10]))
    heir.inherit(5, earlier)
    encoding = segmenter.encode(pictures[11])
    assert not np.array_equal(heir.step(encoding)[5].logits, alone.step(encoding)[5].logits)
    assert heir.held_bytes() - alone.held_bytes() < alone.held_bytes()  # one prompt more, not four


def test_a_checkpoint_of_the_whole_sam3_gives_its_tracker(folders: dict[str, Path], tmp_path: Path) -> None:
    settings = json.loads((folders["sam3"] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "sam3_video", "tracker_config": settings}))
    weights = load_file(folders["sam3"] / "model.safetensors")
    weights = {key.removeprefix("tracker_model."): value for key, value in weights.items()}
    renamed = {"detector_model.text_encoder.weight": torch.zeros(2)}
    for key, value in weights.items():
        if "vision_encoder.backbone." in key:
            key = "detector_model.vision_encoder.backbone." + key.split("vision_encoder.backbone.")[1]
        elif "vision_encoder.neck." in key:
            key = "tracker_neck." + key.split("vision_encoder.neck.")[1]
        elif not key.startswith(("detector_model.", "tracker_neck.")):
            key = "tracker_model." + key
        renamed[key] = value
    save_file(renamed, tmp_path / "model.safetensors", {"format": "pt"})
    whole, tracker = load(tmp_path, device="cpu"), load(folders["sam3"], device="cpu")
    assert type(whole.model).__name__ == "Sam3TrackerVideoModel"
    for (name, first), (_, second) in zip(
        whole.model.state_dict().items(), tracker.model.state_dict().items(), strict=True
    ):
        assert torch.equal(first, second), name


def test_a_checkpoint_with_missing_or_foreign_weights_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((folders["sam2"] / "config.json").read_text())
    weights = load_file(folders["sam2"] / "model.safetensors")
    lost = next(key for key in weights if key.startswith("memory_encoder"))
    for changed, word in (
        ({k: v for k, v in weights.items() if k != lost}, f"missing_keys, e.g. {lost}"),
        ({**weights, "stranger": torch.zeros(2)}, "unexpected_keys, e.g. stranger"),
    ):
        save_file(changed, tmp_path / "model.safetensors", {"format": "pt"})
        with pytest.raises(WeightsError, match=word):
            load(tmp_path, device="cpu")


def test_an_unfit_folder_or_size_is_named_with_the_remedy(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"multiples of 32, such as 96"):
        load(folders["sam2"], 100, "cpu")
    with pytest.raises(WeightsError, match=r"has no config.json. Give the folder"):
        load(tmp_path, device="cpu")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(WeightsError, match=r"describes 'bert'; the tracker takes one of edgetam_video, sam2"):
        load(tmp_path, device="cpu")
    (tmp_path / "config.json").write_text((folders["sam2"] / "config.json").read_text())
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(WeightsError, match="holds no weights that can be read"):
        load(tmp_path, device="cpu")


@pytest.mark.skipif(find_spec("timm") is not None, reason="timm is installed")
def test_the_published_edgetam_says_that_it_needs_timm(tmp_path: Path) -> None:
    encoder = {"model_type": "timm_wrapper", "architecture": "repvit_m1.dist_in1k"}
    vision = {"model_type": "edgetam_vision_model", "backbone_config": encoder}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "edgetam_video", "vision_config": vision}))
    with pytest.raises(WeightsError, match=r"is not installed: .*timm.* SAM 2 and SAM 3 need neither"):
        load(tmp_path, device="cpu")


@pytest.mark.parametrize("family", MAKERS)
def test_half_precision_as_on_a_gpu_works(family: str, folders: dict[str, Path], pictures: np.ndarray) -> None:
    segmenter = load(folders[family], device="cpu")
    segmenter.model.to(torch.bfloat16)
    session = segmenter.session()
    for index, picture in enumerate(pictures[:10]):
        if index in (0, 5):
            session.add(index, square(10, index))
        found = session.step(segmenter.encode(picture))
    assert all(np.isfinite(segment.logits).all() and segment.logits.dtype == np.float32 for segment in found.values())


def test_settings_are_read_without_loading_a_network() -> None:
    code = "import sys, labeling.trackers.sam2; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
