"""Checkpoints of the published sizes with random weights, written as the published ones are: what do they cost to run?

Takes a folder to keep weights in and fills it by `weights.add`, so that everything behind it is what a user runs. The
labels mean nothing; times and memory do not depend on what the numbers are.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from transformers import Dinov2Config, Dinov2Model, Sam2VideoConfig, Sam2VideoModel

from labeling import weights
from labeling.config import WeightChoice
from labeling.proposals.videocutler_keys import PUBLISHED, Sizes, names
from labeling.proposals.videocutler_network import VideoCutLERNetwork

TINY = Sizes(8, (16, 16, 32, 32), (1, 1, 1, 1), 32, 16, 4, 1, 32, 3, 32, 12, 1)
SURE = 2.0  # logit by which every query is an object, and every object in view
HIERA: dict[str, dict[str, Any]] = {  # what sets the image encoders of SAM 2.1 apart
    "micro": {
        "hidden_size": 16, "embed_dim_per_stage": [16, 32, 64, 128], "num_attention_heads_per_stage": [1, 1, 2, 4],
        "blocks_per_stage": [1, 1, 2, 1], "global_attention_blocks": [3], "window_size_per_stage": [8, 4, 7, 7],
    },
    "tiny": {"blocks_per_stage": [1, 2, 7, 2], "global_attention_blocks": [5, 7, 9]},
    "small": {"blocks_per_stage": [1, 2, 11, 2], "global_attention_blocks": [7, 10, 13]},
    "base-plus": {
        "hidden_size": 112, "embed_dim_per_stage": [112, 224, 448, 896],
        "num_attention_heads_per_stage": [2, 4, 8, 16], "blocks_per_stage": [2, 3, 16, 3],
        "global_attention_blocks": [12, 16, 20], "window_positional_embedding_background_size": [14, 14],
    },
    "large": {
        "hidden_size": 144, "embed_dim_per_stage": [144, 288, 576, 1152],
        "num_attention_heads_per_stage": [2, 4, 8, 16], "blocks_per_stage": [2, 6, 36, 4],
        "global_attention_blocks": [23, 33, 43], "window_size_per_stage": [8, 4, 16, 8],
    },
}  # fmt: skip


def write_all(folder: Path, sam: str, quick: bool) -> WeightChoice:
    """Write VideoCutLER, DINOv2-small and a SAM 2.1, or tiny ones, and say where they are."""
    torch.manual_seed(0)
    made, home = folder / "made", folder / "weights"
    write_videocutler(made / "videocutler.pth", TINY if quick else PUBLISHED)
    write_dinov2(made / "dinov2", quick)
    write_sam(made / "sam2", "micro" if quick else sam)
    choice = WeightChoice(folder=str(home))
    for name, path in (("videocutler", "videocutler.pth"), ("dinov2", "dinov2"), ("sam2", "sam2")):
        weights.add(getattr(choice, name), made / path, home, link=True)
    return choice


def write_videocutler(path: Path, sizes: Sizes) -> None:
    """A VideoCutLER under the names of the published file."""
    with torch.device("meta"):
        ours = VideoCutLERNetwork(sizes).state_dict()
    tensors = {}
    for name, parts in names(sizes).items():
        shape = ours[parts[0]].shape
        tensors[name] = _random(name, (len(parts) * shape[0], *shape[1:]))
    tensors["sem_seg_head.predictor.class_embed.bias"] = torch.tensor([SURE, 0.0])
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model": tensors}, path)


def write_dinov2(folder: Path, tiny: bool) -> None:
    """A DINOv2-small, or one of two narrow layers."""
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3} if tiny else {
        "hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6
    }  # fmt: skip
    Dinov2Model(Dinov2Config(patch_size=14, image_size=518, **sizes)).save_pretrained(folder)


def write_sam(folder: Path, size: str) -> None:
    """A SAM 2.1 of one of the published sizes, or a micro one."""
    hiera = {"model_type": "sam2_hiera_det_model", **HIERA[size]}
    channels = hiera.get("embed_dim_per_stage", [96, 192, 384, 768])[::-1]
    vision = {"model_type": "sam2_vision_model", "backbone_config": hiera, "backbone_channel_list": channels}
    small = {"memory_attention_num_layers": 1, "memory_attention_feed_forward_hidden_size": 64}
    model: Any = Sam2VideoModel(Sam2VideoConfig(vision_config=vision, **(small if size == "micro" else {})))
    weights = {name: _random(name, tuple(value.shape)) for name, value in model.state_dict().items()}
    weights["mask_decoder.pred_obj_score_head.proj_out.bias"] += SURE
    model.load_state_dict(weights)
    model.save_pretrained(folder)


def _random(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Weights that keep the size of what they are applied to."""
    if name.endswith(("bias", "running_mean")):
        return torch.zeros(shape)
    if len(shape) == 1:
        return torch.ones(shape)
    learned = any(part in name for part in ("query_feat", "query_embed", "level_embed"))
    return torch.randn(shape) / (1 if learned else math.sqrt(math.prod(shape[1:])))
