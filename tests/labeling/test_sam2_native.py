"""The makers' own SAM 2 and transformers' give the same masks, through one protocol."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labeling.checkpoints import WeightsError
from labeling.embeddings.appearance import AppearanceEmbedder
from labeling.trackers.sam2 import SamConfig, SamTracker
from labeling.trackers.sam2_native import NativeSegmenter, _refuse_if_in_our_way, load_native
from labeling.trackers.sam_loading import IMAGENET, SAM2
from labeling.trackers.sam_session import SamSegmenter
from tests.labeling.moving_discs import RED, line
from tests.labeling.test_sam_tracker import Scene, write_video
from tests.labeling.tiny_sam import recipe_tensor, sam2_model

OURS = "configs/sam2.1/sam2.1_hiera_t.yaml"
SMALL = [
    "++model.image_size=64", "++model.image_encoder.trunk.embed_dim=16", "++model.image_encoder.trunk.stages=[1,1,2,1]",
    "++model.image_encoder.trunk.global_att_blocks=[3]", "++model.image_encoder.trunk.window_spec=[8,4,7,7]",
    "++model.image_encoder.neck.backbone_channel_list=[128,64,32,16]", "++model.memory_attention.num_layers=1",
    "++model.memory_attention.layer.dim_feedforward=64", "++model.memory_encoder.fuser.num_layers=1",
    "++model.memory_attention.layer.self_attention.feat_sizes=[4,4]",
    "++model.memory_attention.layer.cross_attention.feat_sizes=[4,4]",
]  # fmt: skip
NAMES = (  # of tensors, the package's -> transformers'
    (r"^image_encoder\.trunk\.patch_embed\.proj", "vision_encoder.backbone.patch_embed.projection"),
    (r"^image_encoder\.trunk", "vision_encoder.backbone"),
    (r"^image_encoder\.neck\.convs\.(\d)\.conv", r"vision_encoder.neck.convs.\1"),
    (
        r"^sam_prompt_encoder\.pe_layer\.positional_encoding_gaussian_matrix",
        "shared_image_embedding.positional_embedding",
    ),
    (r"^sam_prompt_encoder\.mask_downscaling\.0", "prompt_encoder.mask_embed.conv1"),
    (r"^sam_prompt_encoder\.mask_downscaling\.1", "prompt_encoder.mask_embed.layer_norm1"),
    (r"^sam_prompt_encoder\.mask_downscaling\.3", "prompt_encoder.mask_embed.conv2"),
    (r"^sam_prompt_encoder\.mask_downscaling\.4", "prompt_encoder.mask_embed.layer_norm2"),
    (r"^sam_prompt_encoder\.mask_downscaling\.6", "prompt_encoder.mask_embed.conv3"),
    (r"^sam_prompt_encoder", "prompt_encoder"),
    (r"^sam_mask_decoder", "mask_decoder"),
    (r"output_upscaling\.0", "upscale_conv1"),
    (r"output_upscaling\.1", "upscale_layer_norm"),
    (r"output_upscaling\.3", "upscale_conv2"),
    (r"norm_final_attn", "layer_norm_final_attn"),
    (r"mask_downsampler\.encoder\.12", "mask_downsampler.final_conv"),
    (r"^memory_encoder\.pix_feat_proj", "memory_encoder.feature_projection"),
    (r"^memory_encoder\.out_proj", "memory_encoder.projection"),
    (r"fuser\.layers\.(\d)\.gamma", r"memory_fuser.layers.\1.scale"),
    (r"fuser\.layers\.(\d)\.dwconv", r"memory_fuser.layers.\1.depthwise_conv"),
    (r"fuser\.layers\.(\d)\.norm", r"memory_fuser.layers.\1.layer_norm"),
    (r"fuser\.layers\.(\d)\.pwconv", r"memory_fuser.layers.\1.pointwise_conv"),
    (r"\.norm(\d?)\.", r".layer_norm\1."),
    (r"\.out_proj\.", ".o_proj."),
    (r"^obj_ptr_proj", "object_pointer_proj"),
    (r"^obj_ptr_tpos_proj", "temporal_positional_encoding_projection_layer"),
    (r"^maskmem_tpos_enc", "memory_temporal_positional_encoding"),
    (r"^no_mem_embed", "no_memory_embedding"),
    (r"^no_mem_pos_enc", "no_memory_positional_encoding"),
    (r"^no_obj_ptr", "no_object_pointer"),
    (r"^no_obj_embed_spatial", "occlusion_spatial_embedding_parameter"),
    (r"(mlps\.\d|iou_prediction_head|pred_obj_score_head|object_pointer_proj)\.layers\.0", r"\1.proj_in"),
    (r"(mlps\.\d|iou_prediction_head|pred_obj_score_head|object_pointer_proj)\.layers\.1", r"\1.layers.0"),
    (r"(mlps\.\d|iou_prediction_head|pred_obj_score_head|object_pointer_proj)\.layers\.2", r"\1.proj_out"),
    (r"\.mlp\.layers\.0", ".mlp.proj_in"),
    (r"\.mlp\.layers\.1", ".mlp.proj_out"),
)


def renamed(key: str) -> str:
    if found := re.search(r"mask_downsampler\.encoder\.(\d+)\.", key):
        layer, part = divmod(int(found[1]), 3)
        if layer < 4:
            return key.replace(found[0], f"mask_downsampler.layers.{layer}.{('conv', 'layer_norm')[part]}.")
    for pattern, name in NAMES:
        key = re.sub(pattern, name, key)
    return key


@pytest.fixture(scope="module")
def predictor() -> Any:
    build = pytest.importorskip("sam2.build_sam", reason="the optional package sam2 is not installed")
    built = build.build_sam2_video_predictor(OURS, device="cpu", hydra_overrides_extra=SMALL)
    weights = {key: recipe_tensor(key, tuple(value.shape)) for key, value in built.state_dict().items()}
    weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += 2
    built.load_state_dict(weights)
    return built


@pytest.fixture(scope="module")
def twin(predictor: Any) -> SamSegmenter:
    """transformers' model with the package's weights."""
    model = sam2_model(64, mask_decoder_config={"mlp_dim": 2048}, memory_fuser_intermediate_dim=1024).eval()
    weights, points = {}, []
    for key, value in predictor.state_dict().items():
        if ".point_embeddings." in key:
            points.append(value)
        else:
            weights[renamed(key)] = value
    weights["prompt_encoder.point_embed.weight"] = torch.cat(points)
    weights["prompt_encoder.shared_embedding.positional_embedding"] = weights[
        "shared_image_embedding.positional_embedding"
    ]
    model.load_state_dict(weights)
    return SamSegmenter(model, SAM2.part("InferenceSession"), *IMAGENET)


def square(top: int, left: int, side: int = 30) -> np.ndarray:
    coverage = np.zeros((64, 64), np.uint8)
    coverage[top : top + side, left : left + side] = 255
    return coverage


def below(row: int) -> np.ndarray:
    coverage = np.zeros((64, 64), np.uint8)
    coverage[row:] = 255
    return coverage


@pytest.mark.slow
def test_both_follow_an_object_alike_for_longer_than_their_memory(predictor: Any, twin: SamSegmenter) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (40, 64, 64, 3), dtype=np.uint8)
    native = NativeSegmenter(predictor)
    ours, theirs = twin.session(), native.session()
    for index, picture in enumerate(pictures):
        if index in (0, 22):  # without corners: the package rounds those of a prompt before it remembers it
            ours.add(3, below(index + 10))
            theirs.add(3, below(index + 10))
        one, other = ours.step(twin.encode(picture))[3], theirs.step(native.encode(picture))[3]
        assert abs(one.presence - other.presence) < 5e-3
        assert np.abs(one.logits - other.logits).max() < 5e-2
        assert one.logits.std() > 0.1


def test_an_object_may_be_added_and_known_again(predictor: Any) -> None:
    pictures = np.random.default_rng(1).integers(0, 256, (6, 64, 64, 3), dtype=np.uint8)
    native = NativeSegmenter(predictor)
    session, heir, alone = native.session(), native.session(), native.session()
    assert session.step(native.encode(pictures[0])) == {}
    for index, picture in enumerate(pictures[:4]):
        if index < 2:
            session.add(index, square(4 * index, 8))
        assert len(session.step(native.encode(picture))) == min(index + 1, 2)
    for each in (heir, alone):
        each.add(1, square(20, 20))
        each.step(native.encode(pictures[4]))
    heir.inherit(1, session)
    encoding = native.encode(pictures[5])
    assert not np.array_equal(heir.step(encoding)[1].logits, alone.step(encoding)[1].logits)


def test_what_a_session_holds_does_not_grow(predictor: Any) -> None:
    native = NativeSegmenter(predictor, conditioning=2)
    session, rng, held = native.session(), np.random.default_rng(2), []
    for index in range(80):
        if index % 10 == 0:
            session.add(1, square(index % 30, 8))
        session.step(native.encode(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)))
        outputs = session._state["output_dict_per_obj"][0]
        held.append(sum(len(entry) for kind in outputs.values() for entry in kind.values()))
        assert not session._state["cached_features"]
        assert not session._state["mask_inputs_per_obj"][0]
    assert max(held[40:]) <= max(held[20:40])


def test_the_tracker_takes_either(predictor: Any, tmp_path: Path) -> None:
    scene = Scene([(line((30, 40), (0.5, 0)), RED, 15)], 10)
    video = write_video(tmp_path / "frames", scene.images())
    tracker = SamTracker(SamConfig(window=5, max_objects=2), NativeSegmenter(predictor))
    found = list(tracker.track(scene.proposed(video), AppearanceEmbedder(), video))
    assert {seen.frame for seen in found} == set(range(10))


@pytest.mark.slow
def test_a_published_file_is_known_by_its_tensors(tmp_path: Path) -> None:
    build = pytest.importorskip("sam2.build_sam", reason="the optional package sam2 is not installed")
    whole = build.build_sam2_video_predictor(OURS, device="cpu").state_dict()
    path = tmp_path / "any_name.pt"
    torch.save({"model": whole}, path)
    segmenter = load_native(path, 256, "cpu")
    assert segmenter.image_size == 256
    session = segmenter.session()
    session.add(1, square(10, 10))
    assert session.step(segmenter.encode(np.zeros((64, 64, 3), np.uint8)))[1].logits.shape == (64, 64)
    torch.save({"model": {key: value for key, value in whole.items() if key != "no_obj_ptr"}}, path)
    with pytest.raises(WeightsError, match=r"1 tensors are missing and 0 unknown, e.g. no_obj_ptr"):
        load_native(path, 256, "cpu")
    with pytest.raises(WeightsError, match=r"multiples of 32, such as 256"):
        load_native(path, 250, "cpu")
    torch.save({"model": {"a": torch.zeros(2)}}, path)
    with pytest.raises(WeightsError, match="is none of the published SAM 2 models"):
        load_native(path, 256, "cpu")
    path.write_bytes(b"no checkpoint")
    with pytest.raises(WeightsError, match="is no SAM 2 checkpoint"):
        load_native(path, 256, "cpu")


def test_the_package_may_not_hide_our_training_package(tmp_path: Path) -> None:
    _refuse_if_in_our_way()  # as this environment was made
    _refuse_if_in_our_way(tmp_path)
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "loss_fns.py").touch()
    with pytest.raises(WeightsError, match="hides the one of spectrabox"):
        _refuse_if_in_our_way(tmp_path)
