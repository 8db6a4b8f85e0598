"""Which SAM is in this folder, and how is it set up for pictures of another size?

Takes a folder with config.json and safetensors, as `save_pretrained` or the hub leave it, and gives a `SamSegmenter`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeling.checkpoints import WeightsError
from labeling.devices import torch_device, working_dtype
from labeling.trackers.sam_session import SamSegmenter

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class Family:
    """A kind of SAM that follows objects, by the names of transformers' classes."""

    name: str  # of the model class, without "Model"
    module: str
    normalisation: tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation of each channel

    def part(self, suffix: str) -> Any:
        """One of the family's classes: Model, Config or InferenceSession."""
        places = {"Model": "modeling", "Config": "configuration", "InferenceSession": "modeling"}
        module = importlib.import_module(f"transformers.models.{self.module}.{places[suffix]}_{self.module}")
        return getattr(module, self.name + suffix)


SAM2 = Family("Sam2Video", "sam2_video", IMAGENET)
SAM3 = Family("Sam3TrackerVideo", "sam3_tracker_video", HALF)
EDGETAM = Family("EdgeTamVideo", "edgetam_video", IMAGENET)
FAMILIES = {
    "sam2_video": SAM2, "sam2": SAM2, "sam3_tracker_video": SAM3, "sam3_video": SAM3, "edgetam_video": EDGETAM,
}  # fmt: skip


def load(path: str | Path, image_size: int | None = None, device: str = "auto", conditioning: int = 4) -> SamSegmenter:
    """Load the SAM in a folder.

    Args:
        path: Folder with config.json and one or more safetensors files.
        image_size: Side of the square to which pictures are stretched; None takes the size it was trained at.
        device: A torch device, or "auto".
        conditioning: How many prompts of an object are remembered.
    """
    path = Path(path)
    place = torch_device(device)
    dtype = working_dtype(place)
    try:
        family, config = _described(path)
        _resize(config, image_size, path)
        with _quietly():
            model, found = family.part("Model").from_pretrained(
                path, config=config, dtype=dtype, use_safetensors=True, local_files_only=True, output_loading_info=True
            )
    except ImportError as error:
        reason = str(error).strip().splitlines()[0]
        raise WeightsError(
            f"{path} needs a package that is not installed: {reason} The image encoder of the published EdgeTAM is "
            "one of timm, which brings torchvision; SAM 2 and SAM 3 need neither."
        ) from error
    except OSError as error:
        raise WeightsError(f"{path} holds no weights that can be read: {error}. Fetch it again.") from error
    problems = {key: sorted(map(str, found[key])) for key in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    if any(problems.values()):
        told = "; ".join(f"{len(names)} {key}, e.g. {names[0]}" for key, names in problems.items() if names)
        raise WeightsError(f"{path} is not a whole {family.name}Model: {told}. Fetch the video checkpoint again.")
    model.eval().requires_grad_(False)
    if family is EDGETAM:
        _level_scores(model)
    mean, std = family.normalisation
    return SamSegmenter(model.to(place), family.part("InferenceSession"), mean, std, conditioning)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep transformers' own bars and tables off the screen: what matters is said in our words."""
    logging: Any = importlib.import_module("transformers.utils.logging")
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _described(path: Path) -> tuple[Family, Any]:
    """The family and the configuration of the checkpoint in a folder."""
    file = path / "config.json"
    if not file.is_file():
        raise WeightsError(f"{path} has no config.json. Give the folder of a SAM 2, SAM 3 or EdgeTAM video checkpoint.")
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
        kind = settings.get("model_type")
    except (ValueError, AttributeError) as error:
        raise WeightsError(f"{file} is not a configuration: {error}. Fetch it again.") from error
    if kind not in FAMILIES:
        raise WeightsError(f"{file} describes {kind!r}; the tracker takes one of {', '.join(sorted(FAMILIES))}.")
    family = FAMILIES[kind]
    settings = settings.get("tracker_config", settings)  # a whole SAM 3 holds a detector and the tracker
    settings.pop("model_type", None)
    return family, family.part("Config").from_dict(settings)


def _resize(config: Any, size: int | None, path: Path) -> None:
    """Set the side of pictures in all parts of a configuration."""
    vision = config.vision_config
    patch = int(config.prompt_encoder_config.patch_size)
    if config.model_type == "sam3_tracker_video":
        step = patch
    elif config.model_type == "edgetam_video":  # the memory is pooled in a fixed number of equal tiles
        step = patch * int(config.perceiver_resampler_num_latents_2d**0.5)
    else:  # windows of the first stage's positions have to tile the picture
        step = max(32, 4 * int(vision.backbone_config.window_size_per_stage[0]))
    size = int(config.image_size) if size is None else size
    if size < step or size % step:
        nearest = max(1, round(size / step)) * step
        raise WeightsError(f"image_size {size} does not fit {path}: it takes multiples of {step}, such as {nearest}.")
    grid = size // patch
    config.image_size = config.prompt_encoder_config.image_size = size
    vision.backbone_feature_sizes = [[4 * grid, 4 * grid], [2 * grid, 2 * grid], [grid, grid]]
    config.memory_attention_rope_feat_sizes = [grid, grid]
    if hasattr(vision.backbone_config, "image_size"):
        pair = isinstance(vision.backbone_config.image_size, list | tuple)
        vision.backbone_config.image_size = [size, size] if pair else size


def _level_scores(model: Any) -> None:
    """Give presence one shape: EdgeTAM's of a prompted object has a dimension less than that of a followed one.

    transformers 5.22 fails on a picture on which both occur; where that is mended, this changes nothing.
    """
    prompted = model._use_mask_as_output

    def levelled(*arguments: Any, **options: Any) -> Any:
        found = prompted(*arguments, **options)
        found.object_score_logits = found.object_score_logits.reshape(-1, 1, 1)
        return found

    model._use_mask_as_output = levelled
