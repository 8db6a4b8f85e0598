"""How does SAM follow objects through a stream without end?

Wraps the streaming session of transformers' SAM 2, SAM 3 tracker and EdgeTAM. After every picture all that no later
picture can read is dropped, so memory is constant and the outputs stay those of the whole session, bit for bit. The one
choice of ours is how many prompts of an object are remembered: the first and the latest few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import torch
from torch.nn import functional

from labeling.trackers.sam_protocol import Segment

SPENT = ("high_res_masks", "pred_masks", "object_score_logits")  # outputs that no later picture reads
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
        self._mean, self._std = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None]

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
        return SamEncoding(list(found.fpn_hidden_states), found.fpn_position_encoding[-1])

    def pixels(self, image: np.ndarray) -> torch.Tensor:
        """Stretch a picture to the model's square and normalise it, (3, S, S)."""
        picture = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float()[None]
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
        self._index = 0  # the place of the next picture: the automatic one counts pictures that are no longer kept

    def add(self, number: int, coverage: np.ndarray) -> None:
        """Say where an object, known or new, is on the picture that comes next: (H, W) uint8 of the whole picture."""
        mask = torch.from_numpy(_stretched(coverage, self._size))[None, None]
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
        state = self._state
        place, others = state._obj_id_to_idx[number], other._state._obj_id_to_idx[number]
        own = state.output_dict_per_obj[place]["cond_frame_outputs"]
        shift = other._index  # the first picture here came after the last there
        earlier = {index - shift: entry for index, entry in other._prompted(others).items() if index - shift not in own}
        state.output_dict_per_obj[place]["cond_frame_outputs"] = {**earlier, **own}
        self._cap_prompts(place)

    def held_bytes(self) -> int:
        """Bytes of all tensors that the session holds on to."""
        storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in _tensors(vars(self._state))}
        return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())

    def _prompted(self, place: int) -> dict[int, dict[str, Any]]:
        """An object's outputs on the pictures on which it was prompted."""
        entries: dict[int, dict[str, Any]] = self._state.output_dict_per_obj[place]["cond_frame_outputs"]
        return entries

    def _prune(self, index: int) -> None:
        """Drop all that no picture after `index` reads."""
        state, config = self._state, self._model.config
        state.processed_frames = {}
        state.cache.clear_all()
        for place, outputs in state.output_dict_per_obj.items():
            state.mask_inputs_per_obj[place].clear()
            state.frames_tracked_per_obj[place].clear()
            followed = outputs["non_cond_frame_outputs"]
            for past in [past for past in followed if past <= index - (config.max_object_pointers_in_encoder - 1)]:
                del followed[past]
            for past, entry in followed.items():
                # Only what is older than the memory's reach may lose it: a nearer entry without it is an error.
                outdated = MEMORY if past <= index - (config.num_maskmem - 1) else ()
                for name in (*SPENT, *outdated):
                    entry.pop(name, None)
            if index in (prompted := self._prompted(place)):
                for name in SPENT:
                    prompted[index].pop(name, None)
                for name in MEMORY:  # cut out of a tensor with those of all objects, which would live as long
                    prompted[index][name] = prompted[index][name].clone()
                self._cap_prompts(place)

    def _cap_prompts(self, place: int) -> None:
        """Forget an object's prompts but the first and the latest: every one is read on every later picture."""
        prompted = self._prompted(place)
        for past in sorted(prompted)[1 : len(prompted) - self._conditioning + 1]:
            del prompted[past]


def _stretched(coverage: np.ndarray, size: int) -> np.ndarray:
    """A mask on the model's square, (size, size) float32 of zeros and ones; a thin object keeps its strongest part."""
    shrinks = max(coverage.shape) > size
    square = cv2.resize(coverage, (size, size), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    return (square >= min(128, max(1, int(square.max())))).astype(np.float32)


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
