"""How does SAM follow objects through a stream without end?

Wraps the streaming session of transformers' SAM 2, SAM 3 tracker and EdgeTAM. After every picture all that no later
picture can read is dropped, so memory is constant and the outputs stay those of the whole session, bit for bit. The one
choice of ours is how many prompts of an object are remembered: the first and the latest few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from labeling.trackers.sam_memory import Reads, cap_prompts, inherited, prune_followed, prune_prompted, stretched
from labeling.trackers.sam_protocol import Segment

SPENT = ("high_res_masks", "pred_masks", "object_score_logits")
MEMORY = ("maskmem_features", "maskmem_pos_enc")


@dataclass(frozen=True, slots=True)
class SamEncoding:
    """One picture's features, shared by all objects and sessions."""

    features: list[torch.Tensor]  # finest first
    position: torch.Tensor  # of the coarsest level: no other is read


class SamSegmenter:
    """One of transformers' SAM video models, with pictures resized and normalised as it expects them."""

    def __init__(
        self, model: Any, session_type: type, mean: tuple[float, ...], std: tuple[float, ...], conditioning: int = 4
    ) -> None:
        """Take a loaded model; `session_type` is its inference session's class, see `sam_loading.load`."""
        self.model = model
        self.image_size = int(model.config.image_size)
        self.conditioning = conditioning
        self._session_type = session_type
        self._resizer = model.device if model.device.type == "cuda" else torch.device("cpu")  # MPS does not antialias
        self._mean, self._std = (torch.tensor(each, device=self._resizer)[:, None, None] for each in (mean, std))
        self._position: torch.Tensor | None = None

    def session(self) -> SamSession:
        """A new memory without objects."""
        kept: dict[str, Any] = {"inference_device": self.model.device, "inference_state_device": self.model.device}
        state = self._session_type(**kept, video_storage_device=self.model.device, dtype=self.model.dtype)
        return SamSession(self.model, state, self.conditioning)

    def encode(self, image: np.ndarray) -> SamEncoding:
        """Run the image encoder on an RGB picture (H, W, 3) uint8."""
        return self.encode_pixels(self.pixels(image))

    @torch.inference_mode()
    def encode_pixels(self, pixels: torch.Tensor) -> SamEncoding:
        """Run the image encoder on a normalised picture (3, S, S)."""
        batch = pixels[None].to(self.model.device, self.model.dtype)
        found = self.model.get_image_features(batch, return_dict=True)
        if self._position is None:  # the same for all pictures, as all have one size
            self._position = found.fpn_position_encoding[-1]
        return SamEncoding(list(found.fpn_hidden_states), self._position)

    def pixels(self, image: np.ndarray) -> torch.Tensor:
        """Stretch a picture to the model's square and normalise it, (3, S, S)."""
        picture = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).to(self._resizer).float()[None]
        size = (self.image_size, self.image_size)
        if picture.shape[-2:] != size:
            picture = functional.interpolate(picture, size=size, mode="bilinear", antialias=True)
        return (picture[0] / 255 - self._mean) / self._std


class SamSession:
    """A pruned streaming session; objects may be added or prompted again before any picture."""

    def __init__(self, model: Any, state: Any, conditioning: int) -> None:
        """Take a new inference session of the model; at least 1 prompted picture of each object is remembered."""
        self._model, self._state, self._conditioning = model, state, conditioning
        self._size = int(model.config.image_size)
        self._reads = Reads(model.config.num_maskmem, model.config.max_object_pointers_in_encoder, MEMORY, SPENT)
        self._index = 0  # the place of the next picture: the automatic one counts pictures that are no longer kept

    def add(self, number: int, coverage: np.ndarray) -> None:
        """Say where an object, known or new, is on the picture that comes next: (H, W) uint8 of the whole picture."""
        mask = torch.from_numpy(stretched(coverage, self._size))[None, None]
        state = self._state
        state.add_mask_inputs(state.obj_id_to_idx(number), self._index, mask)
        state.obj_with_new_inputs.append(number)

    @torch.inference_mode()
    def step(self, encoding: SamEncoding) -> dict[int, Segment]:
        """Find all objects on the next picture."""
        state, index = self._state, self._index
        self._index += 1
        if not state.get_obj_num():
            return {}
        state.cache.cache_vision_features(
            index, {"vision_feats": encoding.features, "vision_pos_embeds": [encoding.position]}
        )
        # The features are there already, so the picture itself is not looked at; without any, the model would take the
        # stream for a video that ends here and read fewer object pointers.
        found = self._model(state, frame=torch.empty(0), frame_idx=index)
        masks, presence = found.pred_masks.float().cpu().numpy(), found.object_score_logits.float().cpu().numpy()
        self._prune(index)
        return {
            int(number): Segment(mask.reshape(mask.shape[-2:]).copy(), float(score))
            for number, mask, score in zip(found.object_ids, masks, presence.ravel(), strict=True)
        }

    def inherit(self, number: int, other: SamSession) -> None:
        """Add what another session of this network was told of its object `number` to what this one was.

        The other session's pictures count as earlier than all of this one.
        """
        own = self._outputs(number)
        earlier = other._outputs(number)["cond_frame_outputs"]
        own["cond_frame_outputs"] = inherited(own["cond_frame_outputs"], earlier, other._index)
        cap_prompts(own["cond_frame_outputs"], self._conditioning)

    def held_bytes(self) -> int:
        """Bytes of all tensors that the session holds on to."""
        storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in _tensors(vars(self._state))}
        return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())

    def _outputs(self, number: int) -> dict[str, Any]:
        outputs: dict[str, Any] = self._state.output_dict_per_obj[self._state.obj_id_to_idx(number)]
        return outputs

    def _prune(self, index: int) -> None:
        """Drop all that no picture after `index` reads."""
        state = self._state
        state.processed_frames = {}
        state.cache.clear_all()
        for place, outputs in state.output_dict_per_obj.items():
            state.mask_inputs_per_obj[place].clear()
            state.frames_tracked_per_obj[place].clear()
            prompted = outputs["cond_frame_outputs"]
            prune_followed(outputs["non_cond_frame_outputs"], index, self._reads)
            prune_prompted(prompted, index, self._reads)
            if index in prompted:
                for name in MEMORY:  # cut out of a tensor with those of all objects, which would live as long
                    prompted[index][name] = prompted[index][name].clone()
                cap_prompts(prompted, self._conditioning)


def _tensors(held: Any) -> Iterator[torch.Tensor]:
    if isinstance(held, torch.Tensor):
        yield held
    elif isinstance(held, dict):
        for value in held.values():
            yield from _tensors(value)
    elif isinstance(held, list | tuple):
        for value in held:
            yield from _tensors(value)
    elif hasattr(held, "_vision_features"):
        yield from _tensors(held._vision_features)
