"""Which backends work together? A profile is a named choice of proposer, embedder and tracker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from labeling.config import LabelConfig
    from labeling.embeddings import Embedder
    from labeling.proposals import Proposer
    from labeling.trackers import Tracker


Device = Literal["auto", "cpu", "cuda", "mps"]


@dataclass(frozen=True)
class Backends:
    """The parts of a profile, ready to run."""

    proposer: Proposer
    embedder: Embedder
    tracker: Tracker


class DeviceError(ValueError):
    """A profile cannot run on the device asked for."""


def _embedded(config: LabelConfig, device: str) -> Backends:
    from labeling.embeddings.appearance import AppearanceEmbedder
    from labeling.proposals.motion import MotionProposer
    from labeling.trackers.association import AssociationTracker

    proposer = MotionProposer(config.motion, config.keep_static)
    return Backends(proposer, AppearanceEmbedder(), AssociationTracker(config.tracking))


def check_device(profile: str, device: str) -> None:
    """Refuse a device that a profile has no use for, before any work starts."""
    if device not in get_args(Device):
        raise DeviceError(f"there is no device {device!r}; choose from {', '.join(get_args(Device))}.")
    if profile == "embedded" and device not in ("auto", "cpu"):
        raise DeviceError(f"the embedded profile runs on the CPU, not on {device}. Leave --device out.")


PROFILES: dict[str, Callable[[LabelConfig, str], Backends]] = {"embedded": _embedded}
