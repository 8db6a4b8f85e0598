"""What can a user choose?

One typed model for the command line, YAML files and the Prefect form. Every stage brings its own settings; a wrong name
or value is refused before any work starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from labeling.embeddings.dinov2 import Dinov2Config
from labeling.filters import FilterConfig
from labeling.profiles import (
    EMBEDDERS,
    PROFILES,
    PROPOSERS,
    TRACKERS,
    EmbedderName,
    ProfileName,
    ProposerName,
    TrackerName,
)
from labeling.proposals.maskcut import MaskCutConfig
from labeling.proposals.motion import MotionConfig
from labeling.proposals.videocutler import VideoCutLERConfig
from labeling.reacquire import ReacquireConfig
from labeling.scan import ScanConfig
from labeling.settings_files import plainly, read_settings
from labeling.trackers.association import AssociationConfig
from labeling.trackers.sam_config import SamConfig
from labeling.vocabulary import VocabularyConfig


def _instead(choices: Iterable[str]) -> str:
    return f"In place of the profile's: {', '.join(choices)}."


class WeightChoice(BaseModel, frozen=True, extra="forbid"):
    """Which checkpoints the networks use."""

    folder: str = Field("", description="Where weights are kept; empty: the user's cache folder.")
    videocutler: str = Field("videocutler", description="For proposals by VideoCutLER.")
    dinov2: str = Field("facebook/dinov2-small", description="For DINOv2 embeddings, and for MaskCut's features.")
    sam2: str = Field("facebook/sam2.1-hiera-small", description="For the sam2 tracker.")
    sam3: str = Field("facebook/sam3", description="For the sam3 tracker.")
    edgetam: str = Field("yonigozlan/EdgeTAM-hf", description="For the edgetam tracker.")
    sam2_native: str = Field("sam2.1_hiera_small.pt", description="For the sam2-native tracker: a file of Meta's.")


class LabelConfig(BaseModel, frozen=True, extra="forbid"):
    """Everything that decides how videos are labeled."""

    profile: ProfileName = Field("embedded", description=f"Which backends to use: {', '.join(PROFILES)}.")
    proposals: ProposerName | None = Field(None, description=_instead(PROPOSERS))
    embeddings: EmbedderName | None = Field(None, description=_instead(EMBEDDERS))
    tracker: TrackerName | None = Field(None, description=_instead(TRACKERS))
    keep_static: bool = Field(False, description="Also label objects that stand still the whole time.")
    store_masks: bool = Field(True, description="Keep a mask for every box.")
    longest_side: int = Field(960, ge=32, description="Larger videos are worked on at this size; boxes stay in theirs.")
    scan: ScanConfig = Field(ScanConfig(), description="Shots, camera motion and frame sampling.")
    motion: MotionConfig = Field(MotionConfig(), description="Proposals from motion.")
    videocutler: VideoCutLERConfig = Field(VideoCutLERConfig(), description="Proposals by VideoCutLER.")
    maskcut: MaskCutConfig = Field(MaskCutConfig(), description="Proposals by MaskCut.")
    dinov2: Dinov2Config = Field(Dinov2Config(), description="Embeddings by DINOv2.")
    tracking: AssociationConfig = Field(AssociationConfig(), description="From proposals to tracks, by association.")
    sam: SamConfig = Field(SamConfig(), description="From proposals to tracks, by SAM 2, SAM 3 or EdgeTAM.")
    weights: WeightChoice = Field(WeightChoice(), description="Checkpoints of networks: names or paths.")
    vocabulary: VocabularyConfig = Field(VocabularyConfig(), description="Categories.")
    reacquire: ReacquireConfig = Field(ReacquireConfig(), description="Joining an object that was gone for a while.")
    filters: FilterConfig = Field(FilterConfig(), description="What is dropped.")


def load_config(file: Path | None = None, settings: list[str] | None = None, **values: Any) -> LabelConfig:
    """Build a configuration from a YAML file, then `key=value` settings (dots reach into stages), then `values`.

    Values that are None are left as they are.
    """
    data = read_settings(file, settings or [], example="keep_static=true")
    data.update({name: value for name, value in values.items() if value is not None})
    try:
        return LabelConfig(**data)
    except ValidationError as error:
        raise plainly(error, "spectrabox settings") from error


def as_yaml(model: type[BaseModel] = LabelConfig, indent: int = 0) -> str:
    """All settings with their defaults and what they do, as a YAML file that `load_config` reads."""
    lines = []
    for name, field in model.model_fields.items():
        margin = "  " * indent
        lines.append(f"{margin}# {field.description}")
        if isinstance(field.default, BaseModel):
            lines += [f"{margin}{name}:", as_yaml(type(field.default), indent + 1)]
        else:
            lines.append(f"{margin}{name}: {json.dumps(field.default)}")
    return "\n".join(lines)
