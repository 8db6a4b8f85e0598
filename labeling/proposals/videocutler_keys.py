"""Which tensor of a VideoCutLER checkpoint goes where?

Reads the published file (names as detectron2 gives them, at the top or under "model") and hands out its sizes, and its
tensors under the names of `videocutler_network`. A file that lacks a tensor, or has one too many, is refused by name.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from labeling.checkpoints import WeightsError
from labeling.problems import shown

WRAPPERS = ("model", "state_dict")  # what training code nests the tensors under
UNUSED = {"criterion.empty_weight"}  # only of use in training
FORMER_NAMES = {"sem_seg_head.predictor.static_query.weight": "sem_seg_head.predictor.query_feat.weight"}
SAMPLED = 3 * 4 * 2  # numbers that place one head's samples: levels x points x coordinates
LISTED = 12  # names in a message; a wrong file would list hundreds
NORMS = ("weight", "bias", "running_mean", "running_var")
REMEDY = "`spectrabox weights fetch videocutler` gets the published videocutler_m2f_rn50.pth."

PIXEL = "sem_seg_head.pixel_decoder"
PREDICTOR = "sem_seg_head.predictor"


class CheckpointError(WeightsError, ValueError):
    """A file is no checkpoint of VideoCutLER; the message names the file, what is wrong with it and what to do."""


@dataclass(frozen=True)
class Sizes:
    """How large a network of this kind is: read from the file, so that tests can use a small one."""

    stem: int  # channels of the first convolution
    stages: tuple[int, ...]  # channels of the four stages of the ResNet
    depths: tuple[int, ...]  # blocks in each
    channels: int  # of pixel features and queries
    mask_channels: int
    heads: int
    encoder_layers: int
    encoder_width: int  # channels inside the feed-forward parts
    decoder_layers: int
    decoder_width: int
    queries: int
    classes: int  # without "no object"

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Sizes:
        """Read the sizes off the shapes; KeyError names a tensor that is needed for that and missing."""

        def rows(name: str) -> int:
            return int(tensors[name].shape[0])

        encoder, cross = f"{PIXEL}.transformer.encoder.layers.", f"{PREDICTOR}.transformer_cross_attention_layers."
        queries, channels = tensors[f"{PREDICTOR}.query_feat.weight"].shape
        return cls(
            stem=rows("backbone.stem.conv1.weight"),
            stages=tuple(rows(f"backbone.res{stage}.0.conv3.weight") for stage in range(2, 6)),
            depths=tuple(_count(tensors, f"backbone.res{stage}.") for stage in range(2, 6)),
            channels=int(channels),
            mask_channels=rows(f"{PIXEL}.mask_features.weight"),
            heads=max(1, rows(f"{encoder}0.self_attn.sampling_offsets.weight") // SAMPLED),
            encoder_layers=_count(tensors, encoder),
            encoder_width=rows(f"{encoder}0.linear1.weight"),
            decoder_layers=_count(tensors, cross),
            decoder_width=rows(f"{PREDICTOR}.transformer_ffn_layers.0.linear1.weight"),
            queries=int(queries),
            classes=rows(f"{PREDICTOR}.class_embed.weight") - 1,
        )


PUBLISHED = Sizes(64, (256, 512, 1024, 2048), (3, 4, 6, 3), 256, 256, 8, 6, 1024, 9, 2048, 100, 1)


def read_checkpoint(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a file by their detectron2 names, float32; nothing in the file is executed."""
    path = Path(path)
    try:
        content: Any = (
            safetensors.torch.load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except FileNotFoundError as error:
        raise CheckpointError(f"{shown(path)} does not exist. {REMEDY}") from error
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, SafetensorError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise CheckpointError(f"{shown(path)} cannot be read as a checkpoint: {reason}. {REMEDY}") from error
    for wrapper in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise CheckpointError(f"{shown(path)} holds something else than named tensors. {REMEDY}")
    used = {name: tensor for name, tensor in content.items() if name not in UNUSED}
    return {FORMER_NAMES.get(name, name): tensor.float() for name, tensor in used.items()}


def sizes_in(tensors: Mapping[str, Tensor], path: str | Path) -> Sizes:
    """The sizes of the network in a file; CheckpointError if it does not hold exactly the tensors of one."""
    lost = ""  # a tensor without which the sizes are not known
    try:
        sizes = Sizes.of(tensors)
    except KeyError as error:
        lost, sizes = error.args[0], PUBLISHED
    if sizes.stages == PUBLISHED.stages and sizes.channels == PUBLISHED.channels:
        # A file cut short by whole layers would otherwise pass as a smaller network.
        layers = {name: getattr(PUBLISHED, name) for name in ("depths", "encoder_layers", "decoder_layers")}
        sizes = replace(sizes, **layers)
    expected = names(sizes)
    missing = sorted((name for name in expected if name not in tensors), key=lambda name: name != lost)
    unexpected = [name for name in tensors if name not in expected]
    if missing or unexpected:
        said = [f"{len(found)} {what} ({listed(found)})" for what, found in
                (("missing", missing), ("unexpected", unexpected)) if found]  # fmt: skip
        raise CheckpointError(f"{shown(path)} does not fit VideoCutLER: tensors {' and '.join(said)}. {REMEDY}")
    return sizes


def renamed(tensors: Mapping[str, Tensor], sizes: Sizes) -> dict[str, Tensor]:
    """Tensors by the names of our network, out of tensors by detectron2's."""
    return {
        ours: part
        for theirs, parts in names(sizes).items()
        for ours, part in zip(parts, tensors[theirs].chunk(len(parts)), strict=True)
    }


def names(sizes: Sizes) -> dict[str, tuple[str, ...]]:
    """Every detectron2 name of a checkpoint -> our name; or three, for a tensor that stacks query, key and value."""
    table = _backbone_names(sizes.depths) | _pixel_decoder_names(sizes.encoder_layers)
    return {theirs: (ours,) for theirs, ours in table.items()} | _predictor_names(sizes.decoder_layers)


def _backbone_names(depths: tuple[int, ...]) -> dict[str, str]:
    stem, stages = "backbone.embedder.embedder", "backbone.encoder.stages"
    convolutions = {"backbone.stem.conv1": stem}
    for stage, depth in enumerate(depths):
        for block in range(depth):
            theirs, ours = f"backbone.res{stage + 2}.{block}", f"{stages}.{stage}.layers.{block}"
            if block == 0:
                convolutions[f"{theirs}.shortcut"] = f"{ours}.shortcut"
            convolutions |= {f"{theirs}.conv{part + 1}": f"{ours}.layer.{part}" for part in range(3)}
    table = {}
    for theirs, ours in convolutions.items():
        table[f"{theirs}.weight"] = f"{ours}.convolution.weight"
        table |= {f"{theirs}.norm.{leaf}": f"{ours}.normalization.{leaf}" for leaf in NORMS}
    return table


def _pixel_decoder_names(layers: int) -> dict[str, str]:
    modules = {f"{PIXEL}.mask_features": "pixel_decoder.mask_projection"}
    for level, step in product(range(3), range(2)):
        modules[f"{PIXEL}.input_proj.{level}.{step}"] = f"pixel_decoder.input_projections.{level}.{step}"
    for layer in range(layers):
        theirs, ours = f"{PIXEL}.transformer.encoder.layers.{layer}", f"pixel_decoder.encoder.layers.{layer}"
        for part in ("sampling_offsets", "attention_weights", "value_proj", "output_proj"):
            modules[f"{theirs}.self_attn.{part}"] = f"{ours}.self_attn.{part}"
        modules |= {
            f"{theirs}.norm1": f"{ours}.self_attn_layer_norm", f"{theirs}.norm2": f"{ours}.final_layer_norm",
            f"{theirs}.linear1": f"{ours}.fc1", f"{theirs}.linear2": f"{ours}.fc2",
        }  # fmt: skip
    table = {f"{PIXEL}.transformer.level_embed": "pixel_decoder.level_embed"}
    for part in ("adapter_1", "layer_1"):
        table[f"{PIXEL}.{part}.weight"] = f"pixel_decoder.{part}.0.weight"
        modules[f"{PIXEL}.{part}.norm"] = f"pixel_decoder.{part}.1"
    return table | _with_leaves(modules)


def _predictor_names(layers: int) -> dict[str, tuple[str, ...]]:
    modules = {
        f"{PREDICTOR}.class_embed": "class_predictor",
        f"{PREDICTOR}.decoder_norm": "transformer.decoder.layernorm",
    }
    for part in range(3):
        ours = f"transformer.decoder.mask_predictor.mask_embedder.{part}.0"
        modules[f"{PREDICTOR}.mask_embed.layers.{part}"] = ours
    table: dict[str, tuple[str, ...]] = {
        f"{PREDICTOR}.query_feat.weight": ("transformer.queries_features.weight",),
        f"{PREDICTOR}.query_embed.weight": ("transformer.queries_embedder.weight",),
        f"{PREDICTOR}.level_embed.weight": ("transformer.level_embed.weight",),
    }
    for layer in range(layers):
        ours = f"transformer.decoder.layers.{layer}"
        looks = f"{PREDICTOR}.transformer_cross_attention_layers.{layer}"
        talks = f"{PREDICTOR}.transformer_self_attention_layers.{layer}"
        thinks = f"{PREDICTOR}.transformer_ffn_layers.{layer}"
        modules |= {
            f"{looks}.multihead_attn.out_proj": f"{ours}.cross_attn.out_proj",
            f"{looks}.norm": f"{ours}.cross_attn_layer_norm",
            f"{talks}.self_attn.out_proj": f"{ours}.self_attn.out_proj",
            f"{talks}.norm": f"{ours}.self_attn_layer_norm",
            f"{thinks}.linear1": f"{ours}.fc1",
            f"{thinks}.linear2": f"{ours}.fc2",
            f"{thinks}.norm": f"{ours}.final_layer_norm",
        }
        for leaf in ("weight", "bias"):
            table[f"{looks}.multihead_attn.in_proj_{leaf}"] = (f"{ours}.cross_attn.in_proj_{leaf}",)
            table[f"{talks}.self_attn.in_proj_{leaf}"] = tuple(f"{ours}.self_attn.{part}_proj.{leaf}" for part in "qkv")
    return table | {theirs: (ours,) for theirs, ours in _with_leaves(modules).items()}


def _with_leaves(modules: Mapping[str, str]) -> dict[str, str]:
    return {f"{theirs}.{leaf}": f"{ours}.{leaf}" for theirs, ours in modules.items() for leaf in ("weight", "bias")}


def _count(tensors: Mapping[str, Tensor], prefix: str) -> int:
    """How many numbered parts there are behind a prefix."""
    return len({name[len(prefix) :].split(".")[0] for name in tensors if name.startswith(prefix)})


def listed(found: list[str]) -> str:
    """The first few of a list, for a message."""
    rest = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
    return ", ".join(found[:LISTED]) + rest
