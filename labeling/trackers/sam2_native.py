"""Does the SAM 2 of its makers see the same? The `sam2` package behind the protocol of our tracker, as a cross-check.

Takes one of the published `.pt` files. The package itself would load a whole video up front and never forget; here its
predictor is fed picture by picture, and forgets what it reads no more. docs/foundation.md says how to install it.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import sysconfig
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from labeling.checkpoints import WeightsError
from labeling.devices import torch_device
from labeling.trackers.sam_memory import Reads, cap_prompts, inherited, prune_followed, prune_prompted, stretched
from labeling.trackers.sam_protocol import Segment

MEAN, STD = torch.tensor((0.485, 0.456, 0.406))[:, None, None], torch.tensor((0.229, 0.224, 0.225))[:, None, None]
STEP = 32  # sides of pictures are multiples of it
SIZES = {(96, 12): "t", (96, 16): "s", (112, 24): "b+", (144, 48): "l"}  # by width and depth of the image encoder
MEMORY, SPENT = ("maskmem_features", "maskmem_pos_enc"), ("pred_masks", "object_score_logits")


@dataclass(frozen=True, slots=True)
class NativeEncoding:
    """One picture's features, finest first, and the encodings of their places."""

    features: list[torch.Tensor]
    position: list[torch.Tensor]


def load_native(
    path: str | Path, image_size: int | None = None, device: str = "auto", conditioning: int = 4
) -> NativeSegmenter:
    """Load a published SAM 2 or 2.1 `.pt` file; arguments as those of `sam_loading.load`."""
    path, size = Path(path), image_size or 1024
    _refuse_if_in_our_way()
    try:
        build = importlib.import_module("sam2.build_sam")
    except ImportError as error:
        raise WeightsError(
            f"The tracker sam2-native needs a package that is missing: {error}. Install the extra [sam2] as "
            "docs/foundation.md describes, or take the tracker sam2, which needs none."
        ) from error
    if size % STEP:
        nearest = max(1, round(size / STEP)) * STEP
        raise WeightsError(f"image_size {size} does not fit SAM 2: it takes multiples of {STEP}, such as {nearest}.")
    weights = _weights(path)
    grid = f"[{size // 16},{size // 16}]"
    predictor = build.build_sam2_video_predictor(
        _config_of(weights, path), ckpt_path=None, device="cpu", hydra_overrides_extra=[
            f"++model.image_size={size}",
            f"++model.memory_attention.layer.self_attention.feat_sizes={grid}",
            f"++model.memory_attention.layer.cross_attention.feat_sizes={grid}",
        ],
    )  # fmt: skip
    missing, unexpected = predictor.load_state_dict(weights, strict=False)
    if missing or unexpected:
        raise WeightsError(
            f"{path} is not a whole SAM 2: {len(missing)} tensors are missing and {len(unexpected)} unknown, "
            f"e.g. {[*missing, *unexpected][0]}. Fetch it again."
        )
    return NativeSegmenter(predictor.to(torch_device(device)).eval().requires_grad_(False), conditioning)


class NativeSegmenter:
    """The package's video predictor."""

    def __init__(self, predictor: Any, conditioning: int = 4) -> None:
        """Take a loaded `SAM2VideoPredictor`."""
        self.predictor, self.conditioning = predictor, conditioning
        self.image_size = int(predictor.image_size)
        predictor.fill_hole_area = 0  # would need a CUDA extension
        self._position: list[torch.Tensor] | None = None  # the same for all pictures

    def session(self) -> NativeSession:
        """A new memory without objects."""
        return NativeSession(self.predictor, self.conditioning)

    def encode(self, image: np.ndarray) -> NativeEncoding:
        """Run the image encoder on an RGB picture (H, W, 3) uint8."""
        picture = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float()[None]
        size = (self.image_size, self.image_size)
        if picture.shape[-2:] != size:
            picture = functional.interpolate(picture, size=size, mode="bilinear", antialias=True)
        return self.encode_pixels((picture[0] / 255 - MEAN) / STD)

    @torch.inference_mode()
    def encode_pixels(self, pixels: torch.Tensor) -> NativeEncoding:
        """Run the image encoder on a normalised picture (3, S, S)."""
        found = self.predictor.forward_image(pixels[None].to(self.predictor.device))
        self._position = self._position or list(found["vision_pos_enc"])
        return NativeEncoding(list(found["backbone_fpn"]), self._position)


class NativeSession:
    """The state of a video predictor that is fed picture by picture."""

    def __init__(self, predictor: Any, conditioning: int) -> None:
        """Begin without objects; of each, so many prompts are remembered."""
        self._predictor, self._conditioning = predictor, conditioning
        self._reads = Reads(predictor.num_maskmem, predictor.max_obj_ptrs_in_encoder, MEMORY, SPENT)
        self._index = 0
        size = int(predictor.image_size)
        self._state: dict[str, Any] = {
            "num_frames": sys.maxsize, "images": {}, "cached_features": {}, "constants": {},
            "device": predictor.device, "storage_device": predictor.device, "video_height": size, "video_width": size,
            "obj_id_to_idx": OrderedDict(), "obj_idx_to_id": OrderedDict(), "obj_ids": [],
            "point_inputs_per_obj": {}, "mask_inputs_per_obj": {}, "output_dict_per_obj": {},
            "temp_output_dict_per_obj": {}, "frames_tracked_per_obj": {},
        }  # fmt: skip
        self._prompts: dict[int, torch.Tensor] = {}

    def add(self, number: int, coverage: np.ndarray) -> None:
        """Say where an object, known or new, is on the picture that comes next: (H, W) uint8 of the whole picture."""
        self._prompts[number] = torch.from_numpy(stretched(coverage, self._predictor.image_size) > 0)

    @torch.inference_mode()
    def step(self, encoding: NativeEncoding) -> dict[int, Segment]:
        """Find all objects on the next picture."""
        predictor, state, index = self._predictor, self._state, self._index
        self._index += 1
        if not self._prompts and not state["obj_ids"]:
            return {}
        features = {"backbone_fpn": encoding.features, "vision_pos_enc": encoding.position}
        state["cached_features"] = {index: (torch.empty(1, 0, 0, 0), features)}  # the picture itself is not read
        for number, mask in self._prompts.items():
            predictor.add_new_mask(state, index, number, mask)
        self._prompts = {}
        predictor.propagate_in_video_preflight(state)
        found = {int(number): self._follow(place, index) for place, number in state["obj_idx_to_id"].items()}
        state["cached_features"] = {}
        return found

    def inherit(self, number: int, other: NativeSession) -> None:
        """Add what another session of this network was told of its object `number` to what this one was."""
        own, others = (
            each._state["output_dict_per_obj"][each._state["obj_id_to_idx"][number]] for each in (self, other)
        )
        own["cond_frame_outputs"] = inherited(own["cond_frame_outputs"], others["cond_frame_outputs"], other._index)
        cap_prompts(own["cond_frame_outputs"], self._conditioning)

    def _follow(self, place: int, index: int) -> Segment:
        """Find one object on the picture that is encoded now, and forget what is not read again."""
        state = self._state
        outputs = state["output_dict_per_obj"][place]
        prompted, followed = outputs["cond_frame_outputs"], outputs["non_cond_frame_outputs"]
        if index not in prompted:
            followed[index], _ = self._predictor._run_single_frame_inference(
                inference_state=state, output_dict=outputs, frame_idx=index, batch_size=1, is_init_cond_frame=False,
                point_inputs=None, mask_inputs=None, reverse=False, run_mem_encoder=True,
            )  # fmt: skip
        now = prompted.get(index) or followed[index]
        segment = Segment(now["pred_masks"][0, 0].float().cpu().numpy().copy(), float(now["object_score_logits"]))
        state["mask_inputs_per_obj"][place].clear()
        prune_followed(followed, index, self._reads)
        prune_prompted(prompted, index, self._reads)
        cap_prompts(prompted, self._conditioning)
        return segment


def _refuse_if_in_our_way(site: Path | None = None) -> None:
    """WeightsError while the package's own `training` lies in site-packages, where it hides ours."""
    folder = (site or Path(sysconfig.get_paths()["purelib"])) / "training"
    if (folder / "loss_fns.py").exists():
        raise WeightsError(
            f"The package sam2 has put a package `training` of its own into {folder}, where it hides the one of "
            "spectrabox. sam2 works without it: delete that folder, then install spectrabox again if it lay there, too."
        )


def _weights(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a published file."""
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
        weights: dict[str, torch.Tensor] = held["model"]
    except (OSError, RuntimeError, KeyError, TypeError, pickle.UnpicklingError) as error:
        raise WeightsError(f"{path} is no SAM 2 checkpoint (.pt) that can be read: {error}. Fetch it again.") from error
    return weights


def _config_of(weights: dict[str, torch.Tensor], path: Path) -> str:
    """The name of the package's configuration that these weights belong to."""
    stem = "image_encoder.trunk."
    width = len(weights.get(f"{stem}patch_embed.proj.weight", ()))
    depth = len({key.removeprefix(stem).split(".")[1] for key in weights if key.startswith(f"{stem}blocks.")})
    if (width, depth) not in SIZES:
        raise WeightsError(f"{path} is none of the published SAM 2 models: its image encoder has {depth} blocks.")
    version = "sam2.1" if "no_obj_embed_spatial" in weights else "sam2"
    return f"configs/{version}/{version}_hiera_{SIZES[width, depth]}.yaml"
