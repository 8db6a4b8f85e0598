"""What stands out as an object to VideoCutLER, a network that learned objects without labels?

It looks at several frames at once and gives one mask per object and frame, with a score and no class. `VideoCutLER` is
the network behind a checkpoint; `VideoCutLERProposer` shows it every few frames of a video. The published weights are
for non-commercial use only (CC BY-NC-SA 4.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from pydantic import BaseModel, Field

from labeling.masks import Mask
from labeling.proposals import FrameProposals, Proposal
from labeling.proposals.sparse import propose_sparsely, with_camera
from labeling.scan import Scan
from labeling.video import Video

if TYPE_CHECKING:
    import torch

    from labeling.proposals.videocutler_network import VideoCutLERNetwork

LONGEST = 1333  # pixels: the longer side of a frame is never enlarged beyond this


class VideoCutLERConfig(BaseModel, extra="forbid", frozen=True):
    """Settings of the VideoCutLER proposer."""

    every: int = Field(5, ge=1, description="One frame in this many is looked at.")
    clip: int = Field(8, ge=1, description="Frames looked at together; memory and the reach through time grow with it.")
    short_side: int = Field(360, ge=32, description="Frames are shown at this size; 360 is what it was trained on.")
    top: int = Field(10, ge=1, description="Most objects in a clip.")
    score: float = Field(0.5, ge=0, le=1, description="Objects less sure than this are left out.")
    overlap: float = Field(0.7, gt=0, le=1, description="Of masks that share more than this, only the best is kept.")
    min_area: float = Field(16.0, ge=0, description="An object with fewer pixels on a frame is not there.")


@dataclass(frozen=True)
class Segments:
    """The objects of one clip, best first."""

    queries: np.ndarray  # (K,) which of the network's queries each object is
    scores: np.ndarray  # (K,) float32, how sure it is that this is an object
    certainty: np.ndarray  # (K, T) float32, how sure it is of the mask on each frame
    coverage: np.ndarray  # (K, T, H, W) uint8, 255 = the object covers the pixel entirely

    @property
    def masks(self) -> np.ndarray:
        """The pixels that each object covers for at least half, (K, T, H, W) bool."""
        return self.coverage >= 128


class VideoCutLER:
    """A video Mask2Former that was trained without labels, on transformers alone."""

    def __init__(self, network: VideoCutLERNetwork, device: torch.device) -> None:
        self.network, self.device = network, device

    @classmethod
    def from_checkpoint(cls, path: str | Path, device: str = "cpu") -> VideoCutLER:
        """Load a published checkpoint, such as videocutler_m2f_rn50.pth; CheckpointError says what does not fit."""
        from labeling.devices import torch_device
        from labeling.proposals.videocutler_network import load_network

        where = torch_device(device)
        return cls(load_network(path, where), where)

    def predict(self, frames: np.ndarray | Sequence[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
        """What the network says of frames (T, H, W, 3) uint8 RGB, at the size they have.

        Returns:
            Class logits (Q, 2), of "object" and "no object", and mask logits (Q, T, h, w) at a quarter of the size,
            which is padded to a multiple of 32 first.
        """
        import torch

        from labeling.proposals.videocutler_masks import prepared

        with torch.inference_mode():
            class_logits, mask_logits = self.network(prepared(np.asarray(frames), self.device))
        return class_logits, mask_logits

    def segment(
        self,
        frames: np.ndarray | Sequence[np.ndarray],
        size: tuple[int, int] | None = None,
        top: int = 10,
        score: float = 0.0,
        overlap: float = 1.0,
    ) -> Segments:
        """The best objects of a clip.

        Args:
            frames: (T, H, W, 3) uint8 RGB, shown to the network at the size they have.
            size: Height and width of the masks; those of the frames if left out.
            top: At most so many objects.
            score: None below this score.
            overlap: Of two that share more than this part of their union, only the better.
        """
        import torch

        from labeling.proposals import videocutler_masks as masks

        height, width = np.shape(frames)[1:3]
        class_logits, mask_logits = self.predict(frames)
        with torch.inference_mode():
            queries, scores = masks.best_queries(class_logits, top, score)
            kept = masks.without_doubles(mask_logits[queries], (height, width), overlap)
            queries, scores = queries[kept], scores[kept]
            output = size or (height, width)
            coverage = np.empty((len(queries), len(frames), *output), np.uint8)
            certainty = np.empty((len(queries), len(frames)), np.float32)
            for place, query in enumerate(queries.tolist()):
                logits = masks.enlarged(mask_logits[query], (height, width), output)
                coverage[place] = masks.covered(logits).cpu().numpy()
                certainty[place] = masks.certainty(logits).cpu().numpy()
        return Segments(queries.cpu().numpy(), scores.cpu().numpy(), certainty, coverage)


class VideoCutLERProposer:
    """Proposes what VideoCutLER finds on every few frames."""

    def __init__(self, config: VideoCutLERConfig, path: str | Path, device: str = "cpu") -> None:
        self.config, self.model = config, VideoCutLER.from_checkpoint(path, device)

    def propose(self, video: Video, scan: Scan) -> Iterator[FrameProposals]:
        """Yield every frame of the shots in `scan`, in order; those looked at with proposals."""
        config = self.config
        return with_camera(propose_sparsely(video, scan, self.propose_clip, config.every, config.clip), video)

    def propose_clip(self, images: Sequence[np.ndarray]) -> list[list[Proposal]]:
        """The proposals of each of a clip's frames (H, W, 3), which all have one size.

        A proposal's score says how sure the network is of the object, times how sure of its pixels on this frame: it
        gives no other hint on which frames the object is seen best.
        """
        config = self.config
        size = images[0].shape[:2]
        frames = [_shrunk(image, config.short_side) for image in images]
        found = self.model.segment(frames, (size[0], size[1]), config.top, config.score, config.overlap)
        proposals: list[list[Proposal]] = [[] for _ in images]
        for coverages, score, certainties in zip(found.coverage, found.scores, found.certainty, strict=True):
            for here, coverage, certainty in zip(proposals, coverages, certainties, strict=True):
                mask = Mask.cut(coverage)
                if mask is not None and mask.area >= config.min_area:
                    here.append(Proposal(mask, float(score * certainty)))
        return proposals


def _shrunk(image: np.ndarray, short_side: int) -> np.ndarray:
    """An image (H, W, 3) whose shorter side is `short_side`; less if the longer one would be more than LONGEST."""
    height, width = image.shape[:2]
    scale = min(short_side / min(height, width), LONGEST / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR))
