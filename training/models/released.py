"""How do the official LeWM weights fit our model?

`load` builds our model from an official state dict, with the names of transformers 4.x (the released files) or 5.x;
`save` gives the official names back. Nothing may be missing or left over. `import_weights` and `export_weights` do the
same with files. There actions come normalised: the numbers to normalise by, and the range that actions had in training,
stand in a JSON file beside the weights.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError
from typing import Literal

import torch
from pydantic import BaseModel, ValidationError
from torch import Tensor

from labeling.files import write_whole
from labeling.problems import in_short
from training.models.lewm import LeWM
from training.settings import MODELS, ModelConfig

Names = Literal["transformers4", "transformers5"]

# One block of the vision transformer: ours, then under "encoder.encoder.layer.N" (4.x) and "encoder.layers.N" (5.x).
_ENCODER_BLOCK = {
    "out": ("attention.output.dense", "attention.o_proj"),
    "norm1": ("layernorm_before", "layernorm_before"),
    "norm2": ("layernorm_after", "layernorm_after"),
    "fc1": ("intermediate.dense", "mlp.fc1"),
    "fc2": ("output.dense", "mlp.fc2"),
}
_QKV = (
    ("attention.attention.query", "attention.attention.key", "attention.attention.value"),
    ("attention.q_proj", "attention.k_proj", "attention.v_proj"),
)
_PREDICTOR_BLOCK = {
    "attention_norm.weight": "attn.norm.weight", "attention_norm.bias": "attn.norm.bias",
    "qkv.weight": "attn.to_qkv.weight", "out.weight": "attn.to_out.0.weight", "out.bias": "attn.to_out.0.bias",
    "ffn_norm.weight": "mlp.net.0.weight", "ffn_norm.bias": "mlp.net.0.bias",
    "fc1.weight": "mlp.net.1.weight", "fc1.bias": "mlp.net.1.bias",
    "fc2.weight": "mlp.net.4.weight", "fc2.bias": "mlp.net.4.bias",
    "modulation.weight": "adaLN_modulation.1.weight", "modulation.bias": "adaLN_modulation.1.bias",
}  # fmt: skip
_OTHERS = {
    "encoder.cls": "encoder.embeddings.cls_token",
    "encoder.positions": "encoder.embeddings.position_embeddings",
    "encoder.patch.weight": "encoder.embeddings.patch_embeddings.projection.weight",
    "encoder.patch.bias": "encoder.embeddings.patch_embeddings.projection.bias",
    "encoder.norm.weight": "encoder.layernorm.weight", "encoder.norm.bias": "encoder.layernorm.bias",
    "predictor.positions": "predictor.pos_embedding",
    "predictor.norm.weight": "predictor.transformer.norm.weight",
    "predictor.norm.bias": "predictor.transformer.norm.bias",
    "action_encoder.mix.weight": "action_encoder.patch_embed.weight",
    "action_encoder.mix.bias": "action_encoder.patch_embed.bias",
    "action_encoder.fc1.weight": "action_encoder.embed.0.weight",
    "action_encoder.fc1.bias": "action_encoder.embed.0.bias",
    "action_encoder.fc2.weight": "action_encoder.embed.2.weight",
    "action_encoder.fc2.bias": "action_encoder.embed.2.bias",
}  # fmt: skip
_PROJECTORS = {"projector": "projector.net", "predicted_projector": "pred_proj.net"}
_PROJECTOR = {
    "fc1.weight": "0.weight", "fc1.bias": "0.bias", "fc2.weight": "3.weight", "fc2.bias": "3.bias",
    **{f"norm.{leaf}": f"1.{leaf}" for leaf in
       ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")},
}  # fmt: skip


class KnownActions(BaseModel, frozen=True, extra="forbid"):
    """What a model knows of actions that its official weights do not say."""

    mean: list[float]  # of all actions of a step, side by side
    std: list[float]
    skip: int | None = None  # actions in a step
    low: list[float] | None = None  # of one action, in training
    high: list[float] | None = None


class WeightsDoNotFit(Exception):
    """An official state dict lacks tensors, has unknown ones, or has them in other shapes."""


def load(state: Mapping[str, Tensor], config: ModelConfig = MODELS["lewm"]) -> LeWM:
    """Our model, in evaluation mode, with the weights of an official state dict."""
    actions_key = "action_encoder.patch_embed.weight"
    if actions_key not in state:
        raise WeightsDoNotFit(f"These are not LeWM's weights: {actions_key} is missing.")
    model = LeWM(config, actions=state[actions_key].shape[1])
    names: Names = "transformers5" if any(key.startswith("encoder.layers.") for key in state) else "transformers4"
    table = _table(model, names)
    wanted = {theirs for parts in table.values() for theirs in parts}
    problems = [f"{key} is missing" for key in sorted(wanted - set(state))]
    problems += [f"{key} is unknown" for key in sorted(set(state) - wanted)]
    if not problems:
        shapes = {theirs: tensor.shape for theirs, tensor in save(model, names).items()}
        problems = [
            f"{key} is {tuple(state[key].shape)}, not {tuple(shape)}"
            for key, shape in shapes.items() if state[key].shape != shape
        ]  # fmt: skip
    if problems:
        more = f", and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise WeightsDoNotFit(f"These weights do not fit LeWM: {'; '.join(problems[:5])}{more}.")
    weights = {
        ours: _to_ours(ours, torch.cat([state[key] for key in theirs]) if len(theirs) > 1 else state[theirs[0]], model)
        for ours, theirs in table.items()
    }  # fmt: skip
    # Theirs does not know how actions are normalised: ours starts by taking them as they are.
    model.load_state_dict({**model.state_dict(), **weights})
    return model.eval()


def save(model: LeWM, names: Names = "transformers4") -> dict[str, Tensor]:
    """The model's weights under the official names and in the official shapes; there actions come normalised."""
    official: dict[str, Tensor] = {}
    table = _table(model, names)
    state = model.state_dict()
    for ours in table:
        theirs = _to_theirs(ours, state[ours], model)
        parts = theirs.chunk(3) if len(table[ours]) == 3 else (theirs,)
        official |= {key: part.detach().cpu().clone() for key, part in zip(table[ours], parts, strict=True)}
    return official


def export_weights(
    model: LeWM, path: str | Path, names: Names = "transformers4", skip: int | None = None,
    low: list[float] | None = None, high: list[float] | None = None,
) -> None:  # fmt: skip
    """Write the official state dict as `.pt` or `.safetensors`, and what is known of actions as JSON beside it."""
    path, weights = Path(path), save(model, names)
    if path.suffix == ".safetensors":
        from safetensors.torch import save as as_safetensors

        write_whole(path, as_safetensors({name: tensor.contiguous() for name, tensor in weights.items()}))
    else:
        buffer = BytesIO()
        torch.save(weights, buffer)
        write_whole(path, buffer.getvalue())
    mean, std = model.action_encoder.mean.tolist(), model.action_encoder.std.tolist()
    known = KnownActions(mean=mean, std=std, skip=skip, low=low, high=high)
    write_whole(_actions_file(path), known.model_dump_json(exclude_none=True))


def import_weights(path: str | Path, config: ModelConfig = MODELS["lewm"]) -> LeWM:
    """Our model from a file of official weights; without statistics beside it, actions have to come normalised."""
    path = Path(path)
    try:
        model = load(_read(path), config)
    except WeightsDoNotFit as error:
        raise WeightsDoNotFit(f"{path}: {error}") from error
    if known := known_actions(path):
        if len(known.mean) != model.actions or len(known.std) != model.actions:
            raise WeightsDoNotFit(f"{_actions_file(path)} is not about actions of {model.actions} numbers a step.")
        model.expect_actions(torch.tensor(known.mean), torch.tensor(known.std))
    return model


def known_actions(path: str | Path) -> KnownActions | None:
    """What stands beside a file of official weights; None: nothing, as with those that were released."""
    place = _actions_file(Path(path))
    try:
        return KnownActions.model_validate_json(place.read_text(encoding="utf-8")) if place.exists() else None
    except (ValidationError, UnicodeDecodeError) as error:
        raise WeightsDoNotFit(f"{place} does not say how actions are normalised ({in_short(error)}).") from error


def _read(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file; WeightsDoNotFit if it holds none."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        weights: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        return weights
    except FileNotFoundError:
        raise
    except (OSError, EOFError, RuntimeError, ValueError, SafetensorError, UnpicklingError, struct.error) as error:
        said = str(error).partition("\n")[0]
        raise WeightsDoNotFit(f"it cannot be read as weights ({said}). Fetch it again.") from error


def _actions_file(path: Path) -> Path:
    return path.with_suffix(".actions.json")


def _table(model: LeWM, names: Names) -> dict[str, tuple[str, ...]]:
    """Our name of each tensor -> its official name, or three of them for queries, keys and values in one."""
    shape = model.config
    if not model.actions or not shape.predictor.inner_norm or shape.predictor.width != shape.latent:
        raise WeightsDoNotFit("Only models built like LeWM (the preset lewm, with actions) have official names.")
    which = 0 if names == "transformers4" else 1
    layer = ("encoder.encoder.layer", "encoder.layers")[which]
    table: dict[str, tuple[str, ...]] = {ours: (theirs,) for ours, theirs in _OTHERS.items()}
    for number in range(len(model.encoder.blocks)):
        for leaf in ("weight", "bias"):
            block = f"encoder.blocks.{number}"
            table[f"{block}.qkv.{leaf}"] = tuple(f"{layer}.{number}.{part}.{leaf}" for part in _QKV[which])
            for ours, theirs in _ENCODER_BLOCK.items():
                table[f"{block}.{ours}.{leaf}"] = (f"{layer}.{number}.{theirs[which]}.{leaf}",)
    for number in range(len(model.predictor.blocks)):
        for ours, name in _PREDICTOR_BLOCK.items():
            table[f"predictor.blocks.{number}.{ours}"] = (f"predictor.transformer.layers.{number}.{name}",)
    for projector, net in _PROJECTORS.items():
        table |= {f"{projector}.{ours}": (f"{net}.{name}",) for ours, name in _PROJECTOR.items()}
    return table


def _to_ours(name: str, tensor: Tensor, model: LeWM) -> Tensor:
    if name == "encoder.patch.weight":  # a convolution (width, 3, P, P); our patches hold their pixels rows first
        return tensor.permute(0, 2, 3, 1).flatten(1)
    if name == "action_encoder.mix.weight":  # a convolution over one step
        return tensor.squeeze(-1)
    if name in ("encoder.cls", "encoder.positions", "predictor.positions"):
        return tensor.reshape(model.state_dict()[name].shape)
    return tensor


def _to_theirs(name: str, tensor: Tensor, model: LeWM) -> Tensor:
    if name == "encoder.patch.weight":
        patch = model.config.encoder.patch
        return tensor.view(-1, patch, patch, 3).permute(0, 3, 1, 2).contiguous()
    if name == "action_encoder.mix.weight":
        return tensor.unsqueeze(-1)
    if name == "encoder.cls":
        return tensor.view(1, 1, -1)
    if name in ("encoder.positions", "predictor.positions"):
        return tensor.unsqueeze(0)
    return tensor
