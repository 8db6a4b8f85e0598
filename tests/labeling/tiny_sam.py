"""Small randomly initialised checkpoints of the three SAM families, written as the hub has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sam2"
DRAWN_AS_IS = {
    "cls_token", "mask_token", "position_embeddings", "pos_embedding", "query_feat", "query_embed", "level_embed"
}  # fmt: skip
SMALL: dict[str, Any] = {  # parts that all three share
    "memory_attention_num_layers": 1, "memory_fuser_num_layers": 1, "memory_fuser_intermediate_dim": 64,
    "mask_decoder_config": {"mlp_dim": 64},
}  # fmt: skip
HIERA = {
    "model_type": "sam2_hiera_det_model", "hidden_size": 16, "blocks_per_stage": [1, 1, 2, 1],
    "embed_dim_per_stage": [16, 32, 64, 128], "num_attention_heads_per_stage": [1, 2, 4, 8],
    "window_size_per_stage": [8, 4, 7, 7], "global_attention_blocks": [3],
    "window_positional_embedding_background_size": [7, 7],
}  # fmt: skip
HIERA_VISION = {"backbone_config": HIERA, "backbone_channel_list": [128, 64, 32, 16]}


def grids(size: int, patch: int = 16) -> list[list[int]]:
    """Sides of the three feature maps."""
    return [[scale * size // patch] * 2 for scale in (4, 2, 1)]


def sam2_model(size: int = 64, **changes: Any) -> Any:
    """A SAM 2 with a narrow image encoder; `changes` are settings of its configuration."""
    from transformers import Sam2VideoConfig, Sam2VideoModel

    hiera = {**HIERA, "image_size": [size, size]}
    vision = {
        **HIERA_VISION, "model_type": "sam2_vision_model", "backbone_config": hiera,
        "backbone_feature_sizes": grids(size),
    }  # fmt: skip
    return Sam2VideoModel(
        Sam2VideoConfig(
            image_size=size, prompt_encoder_config={"image_size": size}, vision_config=vision,
            memory_attention_rope_feat_sizes=[size // 16] * 2, memory_attention_feed_forward_hidden_size=64,
            **{**SMALL, **changes},
        )
    )  # fmt: skip


def sam3_model(size: int = 56) -> Any:
    """A SAM 3 tracker with a transformer of two layers."""
    from transformers import Sam3TrackerVideoConfig, Sam3TrackerVideoModel

    vit = {
        "model_type": "sam3_vit_model", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "window_size": 2, "global_attn_indexes": [1], "pretrain_image_size": 28,
        "image_size": size,
    }  # fmt: skip
    vision = {"model_type": "sam3_vision_model", "backbone_config": vit, "backbone_feature_sizes": grids(size, 14)}
    return Sam3TrackerVideoModel(
        Sam3TrackerVideoConfig(
            vision_config=vision, prompt_encoder_config={"image_size": size}, image_size=size,
            memory_attention_feed_forward_hidden_size=64, **SMALL,
        )
    )  # fmt: skip


def edgetam_model(size: int = 64) -> Any:
    """An EdgeTAM; its published image encoder needs timm, this one has SAM 2's."""
    from transformers import EdgeTamVideoConfig, EdgeTamVideoModel

    hiera = {**HIERA, "image_size": [size, size]}
    vision = {
        **HIERA_VISION, "model_type": "sam2_vision_model", "backbone_config": hiera,
        "backbone_feature_sizes": grids(size),
    }  # fmt: skip
    return EdgeTamVideoModel(
        EdgeTamVideoConfig(
            image_size=size, prompt_encoder_config={"image_size": size}, vision_config=vision,
            memory_attention_rope_feat_sizes=[size // 16] * 2, memory_attention_rope_k_sizes=[2, 2],
            perceiver_resampler_num_latents=4, perceiver_resampler_num_latents_2d=4,
            memory_attention_mlp_hidden_size=64, **SMALL,
        )
    )  # fmt: skip


MAKERS = {"sam2": sam2_model, "sam3": sam3_model, "edgetam": edgetam_model}


def write_tiny_sam(folder: Path, family: str = "sam2") -> Path:
    """Write a checkpoint of a family into a folder; the same weights every time."""
    model = MAKERS[family]()
    weights = {key: recipe_tensor(key, tuple(value.shape)) for key, value in model.state_dict().items()}
    weights["mask_decoder.pred_obj_score_head.proj_out.bias"] += 2  # an object out of view has no mask to compare
    model.load_state_dict(weights)
    model.save_pretrained(folder)
    return folder


def recipe_model() -> Any:
    """The fixture's model, its weights made from the names of its tensors (see the fixture's README)."""
    from transformers import Sam2VideoConfig, Sam2VideoModel

    model = Sam2VideoModel(Sam2VideoConfig(**json.loads((FIXTURES / "tiny_config.json").read_text()))).eval()
    rows = json.loads((FIXTURES / "keys.json").read_text())["tensors"]
    weights = {row["key"]: recipe_tensor(row["key"], tuple(row["shape"])) for row in rows}
    for row in rows:
        assert np.isclose(weights[row["key"]].norm(), row["l2"], rtol=1e-5), row["key"]
    model.load_state_dict(weights)
    return model


def recipe_tensor(key: str, shape: tuple[int, ...]) -> torch.Tensor:
    """The weights that belong to a name."""
    drawn = np.random.Generator(np.random.PCG64(crc32(key.encode()))).standard_normal(shape)
    *_, leaf = parts = key.split(".")
    if leaf.endswith("bias"):
        values = 0.1 * drawn
    elif DRAWN_AS_IS & set(parts[-2:]):
        values = drawn
    elif len(shape) == 1:
        values = 1 + 0.1 * drawn
    else:
        rest = tuple(range(1, len(shape)))
        values = (drawn - drawn.mean(rest, keepdims=True)) / np.sqrt(np.prod(shape[1:]))
    return torch.from_numpy(values.astype(np.float32))
