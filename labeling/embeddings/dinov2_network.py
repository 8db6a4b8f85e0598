"""What does each patch of a picture look like to a DINO network?

Loads a directory that holds a `Dinov2Model`, `Dinov2WithRegistersModel` or `ViTModel` (the first DINO) in the layout
of transformers, and turns pictures into dense features: one vector a patch, in the patches' rows and columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal, cast

import cv2
import numpy as np
import torch
from safetensors import SafetensorError
from transformers import AutoConfig, Dinov2Model, Dinov2WithRegistersModel, PreTrainedModel, ViTModel
from transformers.utils import logging as transformers_logging

from labeling.checkpoints import WeightsError
from labeling.devices import torch_device, working_dtype
from labeling.problems import shown

MEAN = np.array([0.485, 0.456, 0.406], np.float32) * 255  # of ImageNet, on which all of them were trained
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32) * 255
NETWORKS: dict[str, type[PreTrainedModel]] = {
    "dinov2": Dinov2Model,
    "dinov2_with_registers": Dinov2WithRegistersModel,
    "vit": ViTModel,
}
NOT_NEEDED = ("mask_token", "pooler.")  # parts that only training uses: a checkpoint may lack them

Features = Literal["tokens", "keys"]


class PatchNetwork:
    """Turns pictures into features of their patches."""

    def __init__(self, path: Path, device: str, features: Features = "tokens") -> None:
        """Load the network.

        Args:
            path: Directory with config.json and weights.
            device: auto, cpu, cuda or mps.
            features: The last layer's output tokens, or the keys of its attention (all heads side by side).
        """
        self.device = torch_device(device)
        self._model = _load(Path(path)).to(self.device).eval()
        config: Any = self._model.config
        self.patch = _patch_size(config, path)  # side in pixels
        self.depth = int(config.hidden_size)  # length of a feature
        # The class token comes first, then the registers, then the patches.
        self._others = 1 + getattr(config, "num_register_tokens", 0)
        self._keys: torch.Tensor | None = None
        if features == "keys":
            _last_keys(self._model).register_forward_hook(self._keep_keys)

    def __call__(self, images: Sequence[np.ndarray], longest: int) -> np.ndarray:
        """Features of the patches of images of one size, in one go; (B, rows, columns, D) float32.

        Args:
            images: Each (H, W, 3) uint8, RGB. They are scaled so that whole patches fit.
            longest: Patches along the longest side.
        """
        height, width = images[0].shape[:2]
        rows, columns = (max(1, round(longest * side / max(height, width))) for side in (height, width))
        pictures = np.stack([_seen(image, rows * self.patch, columns * self.patch) for image in images])
        tokens = self._tokens(torch.from_numpy(pictures).permute(0, 3, 1, 2).to(self.device))
        return tokens[:, self._others :].float().cpu().numpy().reshape(len(images), rows, columns, -1)

    @torch.inference_mode()
    def _tokens(self, pictures: torch.Tensor) -> torch.Tensor:
        """All tokens of pictures (B, 3, h, w), or their keys; (B, class + registers + patches, D)."""
        half = working_dtype(self.device)
        options = {"interpolate_pos_encoding": True} if isinstance(self._model, ViTModel) else {}
        with torch.autocast(self.device.type, half, enabled=half != torch.float32):
            tokens: torch.Tensor = self._model(pictures, **options).last_hidden_state
        keys, self._keys = self._keys, None
        return tokens if keys is None else keys

    def _keep_keys(self, _module: torch.nn.Module, _inputs: tuple[torch.Tensor, ...], keys: torch.Tensor) -> None:
        self._keys = keys


def _seen(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """An image (H, W, 3) uint8 in the size and the range of values that the network knows; float32."""
    shrinks = image.shape[0] >= height and image.shape[1] >= width
    resized = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC)
    return np.asarray((resized - MEAN) / DEVIATION, np.float32)


def _load(path: Path) -> torch.nn.Module:
    """The network in a directory; WeightsError if there is none that can be used."""
    remedy = "Give a directory with config.json and model.safetensors, as `spectrabox weights fetch` makes it."
    if not path.is_dir():
        raise WeightsError(f"{shown(path)} is not a directory. {remedy}")
    try:
        with _quietly():
            config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            kind = NETWORKS.get(config.model_type)
            if kind is None:
                known = ", ".join(sorted(NETWORKS))
                raise WeightsError(f"{shown(path)} holds a {config.model_type!r} model, not one of {known}. {remedy}")
            loaded: Any = kind.from_pretrained(
                path, config=config, local_files_only=True, use_safetensors=True, dtype=torch.float32,
                output_loading_info=True, ignore_mismatched_sizes=True,
            )  # fmt: skip
    except WeightsError:
        raise
    # What transformers, safetensors and torch raise on files that are missing, cut off, or hold more than weights.
    except (OSError, KeyError, TypeError, RuntimeError, SafetensorError, UnpicklingError, ValueError) as error:
        more = "it holds more than weights, which may be harmful"
        reason = more if isinstance(error, UnpicklingError) else str(error).strip().partition("\n")[0].rstrip(".")
        raise WeightsError(f"{shown(path)} cannot be loaded: {reason}. {remedy}") from error
    model, report = loaded
    misfits = {str(name) for name, *_ in report["mismatched_keys"]}
    missing = {name for name in report["missing_keys"] if not any(part in name for part in NOT_NEEDED)}
    if wrong := sorted(misfits | missing):
        some = ", ".join(wrong[:3]) + (" ..." if len(wrong) > 3 else "")
        raise WeightsError(
            f"{shown(path)}: {len(wrong)} weights of its network are missing or have another shape than config.json "
            f"says ({some}). Its files do not belong together: fetch it again."
        )
    return cast(torch.nn.Module, model)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without transformers' own report and progress bar: what is wrong is said in our words."""
    logging: Any = transformers_logging  # its functions have no types
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


def _patch_size(config: Any, path: Path) -> int:
    size = config.patch_size
    sides = {size} if isinstance(size, int) else set(size)
    if len(sides) > 1:
        raise WeightsError(f"{shown(path)} has patches of {size}; only square ones fit here.")
    return int(sides.pop())


def _last_keys(model: torch.nn.Module) -> torch.nn.Module:
    """The part that makes the keys of the last layer; releases of transformers name it differently."""
    found = [module for name, module in model.named_modules() if name.rsplit(".")[-1] in ("k_proj", "key")]
    return found[-1]
