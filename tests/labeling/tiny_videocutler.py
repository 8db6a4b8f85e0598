"""A VideoCutLER checkpoint with random weights, small enough for tests and under the names of the published file."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labeling.proposals.videocutler_keys import Sizes, names
from labeling.proposals.videocutler_network import VideoCutLERNetwork

TINY = Sizes(
    stem=8, stages=(16, 16, 32, 32), depths=(1, 1, 1, 1), channels=32, mask_channels=16, heads=4, encoder_layers=1,
    encoder_width=32, decoder_layers=3, decoder_width=32, queries=12, classes=1,
)  # fmt: skip
LEARNED = {"query_feat", "static_query", "query_embed", "level_embed"}
SURE = "sem_seg_head.predictor.class_embed.bias"


def write_videocutler(path: Path, seed: int = 0) -> Path:
    """Write a checkpoint of random weights that finds several objects in anything; the seed decides which."""
    return save(path, tiny_tensors(seed))


def tiny_tensors(seed: int = 0, sizes: Sizes = TINY) -> dict[str, Tensor]:
    """Random tensors of a small network by their detectron2 names."""
    with torch.device("meta"):
        ours = VideoCutLERNetwork(sizes).state_dict()
    tensors = {}
    for name, parts in names(sizes).items():
        shape = ours[parts[0]].shape
        tensors[name] = random_tensor(name, (len(parts) * shape[0], *shape[1:]), seed)
    tensors[SURE] = torch.tensor([2.0, 0.0])  # object, no object
    return tensors


def save(path: Path, tensors: Mapping[str, Tensor]) -> Path:
    """Write tensors as detectron2 does, with what else it leaves in the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model": dict(tensors), "iteration": 15999}, path)
    return path


def random_tensor(name: str, shape: Sequence[int], seed: int = 0) -> Tensor:
    """A tensor that depends on its name, in the sizes of a trained network; seed 0 is the recipe of the fixtures."""
    draw = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode()) + seed)).standard_normal(shape)
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "running_var":
        values = 1 + 0.1 * np.abs(draw)
    elif leaf == "running_mean" or leaf.endswith("bias"):
        values = 0.1 * draw
    elif LEARNED & set(name.split(".")[-2:]):
        values = draw
    elif draw.ndim == 1:
        values = 1 + 0.1 * draw
    else:
        centred = draw - draw.mean(tuple(range(1, draw.ndim)), keepdims=True)
        values = centred * (2 if leaf == "in_proj_weight" else 1) / math.sqrt(math.prod(shape[1:]))
    return torch.from_numpy(values.astype(np.float32))


def write_colour_finder(path: Path, scores: Sequence[float] = (0.95, 0.9, 0.85)) -> Path:
    """Write a checkpoint that finds what is red, what is green and what is blue in a grey scene.

    Query n stands for colour n modulo 3 and is `scores[n]` sure of it. The weights are chosen by hand: the stem
    measures colour, the residual path carries it to the mask features, and each query asks for one channel of these.
    """
    tensors = {name: torch.zeros_like(tensor) for name, tensor in tiny_tensors().items()}
    for name, tensor in tensors.items():
        if name.endswith("running_var") or (tensor.ndim == 1 and name.endswith("weight")):
            tensor += 1
    pixel, predictor = "sem_seg_head.pixel_decoder", "sem_seg_head.predictor"
    middle = slice(4, 6)  # the taps that lie, after two strides of two, in the middle of a mask's cell
    for colour in range(3):
        tensors["backbone.stem.conv1.weight"][colour, :, middle, middle] = -0.5 / 4
        tensors["backbone.stem.conv1.weight"][colour, colour, middle, middle] = 1 / 4
        for step in ("backbone.res2.0.shortcut", f"{pixel}.adapter_1", f"{pixel}.mask_features"):
            tensors[f"{step}.weight"][colour, colour] = 1
        tensors[f"{pixel}.layer_1.weight"][colour, colour, 1, 1] = 1
    tensors["backbone.stem.conv1.norm.bias"] -= 1  # what is nearly grey has no colour
    tensors[f"{pixel}.mask_features.bias"][-1] = 1
    tensors[f"{predictor}.mask_embed.layers.2.bias"][-1] = -3
    length = math.sqrt(TINY.channels - 1)  # of a query that is one in one place, after its norm
    for query in range(TINY.queries):
        tensors[f"{predictor}.query_feat.weight"][query, query] = 1
    for query in range(len(scores)):
        for layer in range(2):
            tensors[f"{predictor}.mask_embed.layers.{layer}.weight"][query, query] = 1
        tensors[f"{predictor}.mask_embed.layers.2.weight"][query % 3, query] = 4 / length
    normed = np.full((len(scores), len(scores)), -1 / length) + np.eye(len(scores)) * (length + 1 / length)
    wanted = [math.log(score / (1 - score)) + 5 for score in scores]
    tensors[f"{predictor}.class_embed.weight"][0, : len(scores)] = torch.from_numpy(np.linalg.solve(normed, wanted))
    tensors[f"{predictor}.class_embed.bias"][0] = -5
    return save(path, tensors)
