"""What describes an object?

`BoxStates` turns a batch's columns into one vector per object: the paper's twelve variants, from a plain box to the
simulator's exact state, (B, T, N, K), with a mask of the numbers that count. `jittered` adds the paper's noise to
boxes. Places and sizes are shares of the image; other units are normalised by statistics of the training split.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from training.dataset import Batch
from training.dataset_format import DEPTH_PERCENTILES, Statistics
from training.settings import BoxState, TargetConfig

ROUND = 1e-3  # an oriented box whose sides differ less than this share points nowhere

# The parts of each state, in the order of the vector.
PARTS: dict[BoxState, tuple[str, ...]] = {
    "bb": ("box",),
    "obb": ("oriented box", "angle"),
    "obb2": ("oriented box", "double angle"),
    "bb+com": ("box", "mass"),
    "obb+com": ("oriented box", "angle", "mass"),
    "obb2+com": ("oriented box", "double angle", "mass"),
    "bb+depth50": ("box", "depth 50"),
    "bb+depth25-75": ("box", "depth 25", "depth 75"),
    "bb+depth05-95": ("box", "depth 5", "depth 95"),
    "compact7": ("presence", "centre", "velocity", "direction"),
    "compact13": ("presence", "place", "velocity in space", "roll pitch yaw"),
    "exact": ("state",),
}
SIZES = {
    "box": 4, "oriented box": 4, "angle": 2, "double angle": 2, "mass": 2, "presence": 1, "centre": 2, "velocity": 2,
    "direction": 2, "place": 3, "velocity in space": 3, "roll pitch yaw": 6,
    **{f"depth {percentile}": 1 for percentile in DEPTH_PERCENTILES},
}  # fmt: skip
# Which column of the dataset each part is read from, and which statistics normalise it.
COLUMNS = {
    "box": "boxes", "oriented box": "oriented", "angle": "oriented", "double angle": "oriented", "mass": "mass",
    "presence": "present", "centre": "boxes", "velocity": "velocity", "direction": "oriented", "place": "pose",
    "velocity in space": "pose_velocity", "roll pitch yaw": "pose", "state": "state",
    **{f"depth {percentile}": "depth" for percentile in DEPTH_PERCENTILES},
}  # fmt: skip
NORMALISED = {
    "velocity": "velocity", "velocity in space": "pose_velocity", "place": "pose", "state": "state",
    **{f"depth {percentile}": "log_depth" for percentile in DEPTH_PERCENTILES},
}  # fmt: skip
_NEED_STATISTICS = tuple(state for state, parts in PARTS.items() if any(part in NORMALISED for part in parts))
_STRIDE = 0x9E3779B97F4A7C1  # odd and large: neighbours in one count are far apart in another


class TargetError(Exception):
    """A dataset lacks what a target is made of; the message says what."""


@dataclass(frozen=True)
class States:
    """What is true of the objects in a batch."""

    values: Tensor  # (B, T, N, K), 0 where not known
    known: Tensor  # (B, T, N, K) bool: numbers that apply and are known
    present: Tensor  # (B, T, N) bool


def sigmas(config: TargetConfig) -> list[float]:
    """The spread of the Fourier frequencies for each number of a state."""
    spread = {"angle": config.sigma_angle, "double angle": config.sigma_angle}
    spread |= {part: config.sigma_depth for part in PARTS[config.state] if part.startswith("depth")}
    return [spread.get(part, config.sigma) for part in PARTS[config.state] for _ in range(SIZES[part])]


class BoxStates(nn.Module):
    """Reads one kind of state from batches. Statistics are saved with the model."""

    def __init__(self, state: BoxState, statistics: Mapping[str, Statistics] | None = None) -> None:
        """Which state, and the dataset's `statistics`, which tell what it has; TargetError if that is not enough."""
        super().__init__()
        self.state = state
        known = statistics or {}
        if statistics is not None or state in _NEED_STATISTICS:
            _refuse_without(state, {"boxes", "present", *("depth" if name == "log_depth" else name for name in known)})
        for name in {NORMALISED[part] for part in PARTS[state] if part in NORMALISED}:
            usual = known[name]
            self.register_buffer(f"{name}_mean", torch.as_tensor(usual.mean, dtype=torch.float32))
            self.register_buffer(f"{name}_std", torch.as_tensor(usual.std, dtype=torch.float32))
        if state == "exact":
            self.size = int(self.get_buffer("state_mean").numel())
        else:
            self.size = sum(SIZES[part] for part in PARTS[state])

    def forward(self, batch: Batch) -> States:
        """The states of a batch's objects; the exact state is that of one object, the whole world."""
        _refuse_without(self.state, batch.tensors())
        present = batch.present
        pieces = [self._part(part, batch) for part in PARTS[self.state]]
        values = torch.cat([values for values, _ in pieces], dim=-1)
        if self.state == "exact":
            present = torch.ones(values.shape[:-1], dtype=torch.bool, device=values.device)
        known = torch.cat([known.expand_as(values) for values, known in pieces], dim=-1)
        known = known & present[..., None] & values.isfinite()
        if "presence" in PARTS[self.state]:
            known[..., 0] = (batch.category >= 0)[:, None]  # also of objects out of sight, but not of empty slots
        return States(torch.where(known, values, 0), known, present)

    def _part(self, part: str, batch: Batch) -> tuple[Tensor, Tensor]:
        """Numbers (B, T, N, k) and which of them apply, where objects are present."""
        column: Tensor = getattr(batch, COLUMNS[part])
        applies = torch.ones((), dtype=torch.bool, device=column.device)
        match part.split():
            case ["box"] | ["mass"]:
                values = column
            case ["oriented", "box"]:
                values = column[..., :4]
            case ["angle"]:
                values = _circle(column[..., 4:5])
            case ["double", "angle"]:
                values = _circle(2 * column[..., 4:5])
            case ["centre"]:
                values = column[..., :2]
            case ["presence"]:
                values = column[..., None].float()
            case ["direction"] if batch.heading is not None:
                values = _circle(batch.heading)
            case ["direction"]:
                values = _circle(column[..., 4:5])
                applies = ((column[..., 2] - column[..., 3]).abs() > ROUND * column[..., 2])[..., None]
            case ["roll", *_]:
                values = _circle(column[..., 3:6])
            case ["place"]:
                values = self._normalised("pose", column)[..., :3]
            case ["velocity", *_]:
                values = self._normalised(COLUMNS[part], column)
            case ["depth", percentile]:
                index = DEPTH_PERCENTILES.index(int(percentile))
                values = self._normalised("log_depth", column.clamp_min(1e-6).log())[..., index : index + 1]
            case _:
                values = self._normalised("state", column).unsqueeze(-2)
        return values, applies

    def _normalised(self, name: str, values: Tensor) -> Tensor:
        return (values - getattr(self, f"{name}_mean")) / getattr(self, f"{name}_std")


def _refuse_without(state: BoxState, columns: Collection[str]) -> None:
    """TargetError if a state needs more than these columns."""
    missing = [name for name in dict.fromkeys(COLUMNS[part] for part in PARTS[state]) if name not in columns]
    if missing:
        raise TargetError(
            f"The target {state} needs the column {' and '.join(missing)}, which the dataset does not have. Prepare it "
            "from a source that knows more (docs/training.md says which), or choose what this one serves: "
            f"--set target.state={', '.join(possible_states(columns))}."
        )


def possible_states(columns: Collection[str]) -> list[BoxState]:
    """The states that a dataset with these columns has everything for."""
    return [state for state, parts in PARTS.items() if all(COLUMNS[part] in columns for part in parts)]


def _circle(angles: Tensor) -> Tensor:
    """Sine and cosine of each of the angles (..., k), side by side: (..., 2k)."""
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def jittered(boxes: Tensor, rows: Tensor, spread: float, seed: int) -> Tensor:
    """Boxes (B, T, N, 4) with Gaussian noise on each edge.

    The noise belongs to the labels: the same frame, by its row (B, T) in the dataset, always gets the same. So it is a
    function of row, object and edge, and needs no state.
    """
    places = rows[..., None, None] * 4 + torch.arange(4, device=boxes.device)
    slots = torch.arange(boxes.shape[-2], device=boxes.device)[:, None]
    noise = spread * _gaussian(places, slots, seed)
    centre, extent = boxes.chunk(2, dim=-1)
    first, second = noise.chunk(2, dim=-1)
    first, second = first + centre - extent / 2, second + centre + extent / 2
    low, high = torch.minimum(first, second), torch.maximum(first, second)  # an edge may have passed its opposite
    return torch.cat([(low + high) / 2, high - low], dim=-1)


def _gaussian(places: Tensor, slots: Tensor, seed: int) -> Tensor:
    """Standard normal numbers decided by `places` and `slots` (integers) and the seed alone."""
    bits = _mixed(_mixed(places + seed * _STRIDE % 2**62) + slots * _STRIDE)
    uniform = ((bits >> 11) & (2**52 - 1)).double().add_(0.5) / 2**52
    return torch.special.ndtri(uniform).float()


def _mixed(numbers: Tensor) -> Tensor:
    """Scramble integers (the finaliser of SplitMix64, in wrapping 64-bit arithmetic)."""
    numbers = (numbers ^ (numbers >> 30)) * -4658895280553007687
    numbers = (numbers ^ (numbers >> 27)) * -7723592293110705685
    return numbers ^ (numbers >> 31)
