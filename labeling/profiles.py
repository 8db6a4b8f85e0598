"""Which backends work together?

A profile is a named choice of proposer, embedder and tracker; each can also be chosen on its own. This is the registry
of all three: a backend is a file behind its protocol and a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from pydantic import BaseModel

if TYPE_CHECKING:
    from labeling.config import LabelConfig
    from labeling.embeddings import Embedder
    from labeling.proposals import Proposer
    from labeling.trackers import Tracker
    from labeling.weights import Weights

Device = Literal["auto", "cpu", "cuda", "mps"]
ProfileName = Literal["embedded", "foundation", "maskcut"]
ProposerName = Literal["motion", "videocutler", "maskcut"]
EmbedderName = Literal["appearance", "dinov2"]
TrackerName = Literal["association", "sam2", "sam3", "edgetam", "sam2-native"]
Sparse = TypeVar("Sparse", bound=BaseModel)


@dataclass(frozen=True)
class Backends:
    """The parts of a profile, ready to run."""

    proposer: Proposer
    embedder: Embedder
    tracker: Tracker
    hashes: dict[str, str]  # of the weights that they were built from, by their entry in `config.weights`


@dataclass(frozen=True)
class Part:
    """A backend that can be chosen."""

    build: Callable[[LabelConfig, Path, str], Any]  # settings, the path of its weights, device
    settings: str  # the section of the configuration that is about it
    weights: str = ""  # the entry of `config.weights` that names its checkpoint; empty: it needs none


class BackendError(ValueError):
    """The backends asked for cannot run here; the message says why and what to do."""


def _motion(config: LabelConfig, weights: Path, device: str) -> Proposer:
    from labeling.proposals.motion import MotionProposer

    return MotionProposer(config.motion, config.keep_static)


def _videocutler(config: LabelConfig, weights: Path, device: str) -> Proposer:
    from labeling.proposals.videocutler import VideoCutLERProposer

    return VideoCutLERProposer(_dense_enough(config, config.videocutler), weights, device)


def _maskcut(config: LabelConfig, weights: Path, device: str) -> Proposer:
    from labeling.proposals.maskcut import MaskCutProposer

    return MaskCutProposer(_dense_enough(config, config.maskcut), weights, device)


def _appearance(config: LabelConfig, weights: Path, device: str) -> Embedder:
    from labeling.embeddings.appearance import AppearanceEmbedder

    return AppearanceEmbedder()


def _dinov2(config: LabelConfig, weights: Path, device: str) -> Embedder:
    from labeling.embeddings.dinov2 import Dinov2Embedder

    return Dinov2Embedder(config.dinov2, weights, device)


def _association(config: LabelConfig, weights: Path, device: str) -> Tracker:
    from labeling.trackers.association import AssociationTracker

    return AssociationTracker(config.tracking)


def _sam(config: LabelConfig, weights: Path, device: str) -> Tracker:
    from labeling.trackers.sam2 import SamTracker

    return SamTracker.from_checkpoint(weights, config.sam, device)


def _sam2_native(config: LabelConfig, weights: Path, device: str) -> Tracker:
    from labeling.trackers.sam2 import SamTracker
    from labeling.trackers.sam2_native import load_native

    return SamTracker(config.sam, load_native(weights, config.sam.image_size, device, config.sam.conditioning))


PROPOSERS = {
    "motion": Part(_motion, "motion"),
    "videocutler": Part(_videocutler, "videocutler", "videocutler"),
    "maskcut": Part(_maskcut, "maskcut", "dinov2"),
}
EMBEDDERS = {"appearance": Part(_appearance, ""), "dinov2": Part(_dinov2, "dinov2", "dinov2")}
TRACKERS = {
    "association": Part(_association, "tracking"),
    "sam2": Part(_sam, "sam", "sam2"),
    "sam3": Part(_sam, "sam", "sam3"),
    "edgetam": Part(_sam, "sam", "edgetam"),
    "sam2-native": Part(_sam2_native, "sam", "sam2_native"),
}
PROFILES: dict[str, tuple[str, str, str]] = {
    "embedded": ("motion", "appearance", "association"),
    "foundation": ("videocutler", "dinov2", "sam2"),
    "maskcut": ("maskcut", "dinov2", "sam2"),
}


def names_of(config: LabelConfig) -> tuple[str, str, str]:
    """The proposer, embedder and tracker of a configuration: those of the profile, unless others were chosen."""
    proposals, embeddings, tracker = PROFILES[config.profile]
    return config.proposals or proposals, config.embeddings or embeddings, config.tracker or tracker


def parts_of(config: LabelConfig) -> tuple[Part, Part, Part]:
    """The same as entries of the registry."""
    proposals, embeddings, tracker = names_of(config)
    return PROPOSERS[proposals], EMBEDDERS[embeddings], TRACKERS[tracker]


def has_networks(config: LabelConfig) -> bool:
    """Whether any part of it needs weights."""
    return any(part.weights for part in parts_of(config))


def weights_of(config: LabelConfig) -> dict[str, Weights]:
    """The weights that a configuration needs, checked; by their entry in `config.weights`."""
    needed = list(dict.fromkeys(part.weights for part in parts_of(config) if part.weights))
    if not needed:
        return {}
    from labeling.weights import WeightsError, resolve

    folder = Path(config.weights.folder) if config.weights.folder else None
    found, missing = {}, []
    for entry in needed:
        try:
            found[entry] = resolve(getattr(config.weights, entry), folder)
        except WeightsError as error:
            missing.append(str(error))
    if missing:
        raise WeightsError("\n".join(missing))
    return found


def weight_hashes(config: LabelConfig) -> dict[str, str]:
    """The SHA-256 of the weights that a configuration needs, by their entry in `config.weights`."""
    return {entry: found.sha256 for entry, found in weights_of(config).items()}


def check_backends(config: LabelConfig, device: str) -> None:
    """Refuse what cannot run here, before any work starts: device, packages, weights."""
    if device not in get_args(Device):
        raise BackendError(f"there is no device {device!r}; choose from {', '.join(get_args(Device))}.")
    if not has_networks(config):
        if device not in ("auto", "cpu"):
            raise BackendError(f"{_said(config)} runs on the CPU, not on {device}. Leave --device out.")
        return
    missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
    if missing:
        raise BackendError(
            f"{_said(config)} needs {' and '.join(missing)}: pip install -c constraints.txt '.[foundation]'"
        )
    if device in ("cuda", "mps"):
        import torch

        if not (torch.cuda.is_available() if device == "cuda" else torch.backends.mps.is_available()):
            raise BackendError(f"there is no {device} device on this machine. Leave --device out, or take cpu.")
    weights_of(config)


@lru_cache(maxsize=1)
def assemble(config: LabelConfig, device: str) -> Backends:
    """Build the parts of a configuration; those of the last one are kept, as loading networks takes long."""
    found = weights_of(config)
    paths = {"": Path()} | {entry: weights.path for entry, weights in found.items()}
    proposer, embedder, tracker = (part.build(config, paths[part.weights], device) for part in parts_of(config))
    hashes = {entry: weights.sha256 for entry, weights in found.items()}
    if weight_hashes(config) != hashes:
        from labeling.checkpoints import WeightsError

        raise WeightsError("Weights were replaced while they were loaded. Run the same command again.")
    return Backends(proposer, embedder, tracker, hashes)


def _dense_enough(config: LabelConfig, settings: Sparse) -> Sparse:
    """Settings of a sparse proposer as the tracker needs them: one that only joins proposals has to have them all."""
    if names_of(config)[2] != "association":
        return settings
    return settings.model_copy(update={"every": 1})


def _said(config: LabelConfig) -> str:
    chosen = (config.proposals, config.embeddings, config.tracker)
    return f"the {config.profile} profile" if not any(chosen) else f"{', '.join(names_of(config))}"
