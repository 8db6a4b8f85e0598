"""What can be set about the SAM tracker?"""

from __future__ import annotations

from pydantic import BaseModel, Field


class SamConfig(BaseModel, extra="forbid", frozen=True):
    """Settings of the SAM tracker."""

    image_size: int | None = Field(
        default=None, ge=16, description="Side to which pictures are stretched for SAM; smaller is faster and coarser. "
        "None: the size it was trained at (1024, SAM 3: 1008).",
    )  # fmt: skip
    window: int = Field(
        default=24, ge=1, description="Frames in which a new object's best view is looked for; each is kept encoded."
    )
    reach: int = Field(default=120, ge=0, description="Frames into which new objects are followed back.")
    gone: int = Field(default=5, ge=1, description="Frames without a sign of an object before its beginning.")
    patience: int = Field(default=120, ge=1, description="Frames for which a missing object is still looked for.")
    claimed: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Share of a proposal from which on it is no new object if known ones cover it.",
    )
    likeness: float = Field(
        default=0.75, ge=-1, le=1, description="Cosine of looks from which on a new object is one that was lost."
    )
    same: float = Field(default=0.8, gt=0, le=1, description="Overlap from which on two objects are taken for one.")
    conditioning: int = Field(
        default=4, ge=1, description="Prompts of an object that SAM remembers: the first and the latest."
    )
    max_objects: int = Field(default=32, ge=1, description="Most objects that are followed at a time.")
    min_area: float = Field(
        default=16, ge=0, description="Smallest mask that counts as seen, in pixels of the decoded frame."
    )
