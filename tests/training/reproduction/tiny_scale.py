"""A scale at which a cell of balls takes a few seconds."""

from __future__ import annotations

from dataclasses import replace

from training.reproduction.cells import Simulated
from training.reproduction.scale import Budget
from training.reproduction.scales import CPU

SETTINGS = (
    "batch=8", "validate_every=4", "checkpoint_every=2", "log_every=2", "monitor_windows=16", "model.latent=16",
    "model.projector=32", "model.encoder.size=16", "model.encoder.patch=4", "model.encoder.width=16",
    "model.encoder.depth=1", "model.encoder.heads=2", "model.predictor.width=16", "model.predictor.depth=1",
    "objective.directions=16",
)  # fmt: skip


def _small(world: Simulated) -> Simulated:
    return replace(world, episodes=20, frames=14, size=16, validation=0.4)


TINY = replace(
    CPU,
    worlds={name: _small(world) for name, world in CPU.worlds.items()},
    budgets={name: Budget("nball-cpu", 4, budget.settings) for name, budget in CPU.budgets.items()},
    every=SETTINGS,
    starts=3,
    other_starts=3,
    drives=2,
    probed=(60, 40),
    probe_epochs=1,
    nested=(10, 20),
)
