"""What stands out from a picture, to a network that has learned to see but was never told what?

Takes the frames of a video and a DINO or DINOv2 network; cuts the picture's patches into segments by how alike their
features are (MaskCut), refines each to the pixel, and proposes it. Sparse frames, several at a time from the network
to the cuts.

Patches are described by the keys of the last attention, as MaskCut was published for DINO, with DINO's threshold. For
DINOv2 neither was tuned: its output tokens (`features: tokens`) or another threshold may tell objects apart better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import BaseModel, Field

from labeling.masks import Mask
from labeling.proposals import FrameProposals, Proposal
from labeling.proposals.sparse import propose_sparsely, with_camera
from labeling.scan import Scan
from labeling.video import Video

if TYPE_CHECKING:
    from labeling.proposals.segments import Segment


class MaskCutConfig(BaseModel, extra="forbid", frozen=True):
    """Settings of MaskCut."""

    masks: int = Field(3, ge=1, description="Most masks of one frame.")
    threshold: float = Field(0.15, gt=-1, lt=1, description="Patches are alike from this cosine of their features on.")
    features: Literal["keys", "tokens"] = Field(
        "keys", description="What describes a patch: the keys of the last layer's attention, or its output tokens."
    )
    worst_cut: float = Field(
        0.8,
        gt=0,
        le=2,
        description="A segment is proposed up to this normalised cut; a picture that is all alike has 1.",
    )
    min_patches: int = Field(4, ge=1, description="Smaller segments, in patches, are taken for noise.")
    patches: int = Field(
        60, ge=4, description="Patches along the longest side: 60 are 480 pixels for DINO/8, 840 for DINOv2/14."
    )
    every: int = Field(6, ge=1, description="Look at one frame in so many.")
    batch: int = Field(4, ge=1, description="Frames that go through the network at once.")


class MaskCutProposer:
    """Proposes what stands out from single frames."""

    def __init__(self, config: MaskCutConfig, path: Path, device: str = "auto") -> None:
        """Load a Dinov2Model, Dinov2WithRegistersModel or ViTModel (DINO) from the directory `path`."""
        from labeling.embeddings.dinov2_network import PatchNetwork

        self.config = config
        self._network = PatchNetwork(path, device, config.features)

    def propose(self, video: Video, scan: Scan) -> Iterator[FrameProposals]:
        """Yield every frame in order; sparse ones have proposals."""
        config = self.config
        return with_camera(propose_sparsely(video, scan, self.propose_clip, config.every, config.batch), video)

    def propose_clip(self, images: Sequence[np.ndarray]) -> list[list[Proposal]]:
        """The proposals of each of several images (H, W, 3) uint8 of one size."""
        return segmented(images, self._network(images, self.config.patches), self.config)


def segmented(images: Sequence[np.ndarray], features: np.ndarray, config: MaskCutConfig) -> list[list[Proposal]]:
    """The proposals of each of several images (H, W, 3) uint8, whose patches have `features` (B, rows, columns, D)."""
    from labeling.proposals.segments import find_segments

    return [
        [proposal for segment in segments if (proposal := _proposal(image, segment)) is not None]
        for image, segments in zip(images, find_segments(features, config), strict=True)
    ]


def _proposal(image: np.ndarray, segment: Segment) -> Proposal | None:
    """A segment to the pixel; None if nothing of it is left there."""
    from labeling.proposals.refinement import refined

    mask = Mask.cut(refined(image, segment.patches))
    return None if mask is None else Proposal(mask, max(0.0, 1 - segment.cut))
