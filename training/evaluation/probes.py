"""What can be read off a latent?

A linear probe shows what lies open, a small network what is there at all. Both are fitted on training frames and judged
on others; targets are standardised, so that an error of 1 is that of knowing nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

RIDGE = 1e-6
FEW = 20  # frames a number of the latent, below which a probe held back so little would fit their noise
HIDDEN, EPOCHS, BATCH, RATE = 256, 100, 1024, 1e-3
SEEDS = (3072, 3073, 3074)


@dataclass(frozen=True)
class Task:
    """Latents and what should be read off them, to fit on and to judge by."""

    latents: np.ndarray  # (M, D)
    targets: np.ndarray  # (M, S)
    held_out_latents: np.ndarray  # (K, D)
    held_out_targets: np.ndarray  # (K, S)

    def standardised(self) -> Task:
        """Latents and targets with mean 0 and deviation 1 over the frames to fit on."""
        from sklearn.preprocessing import StandardScaler

        latents, targets = StandardScaler().fit(self.latents), StandardScaler().fit(self.targets)
        return Task(
            latents.transform(self.latents), targets.transform(self.targets),
            latents.transform(self.held_out_latents), targets.transform(self.held_out_targets),
        )  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """How well something was read; each is a mean over its components."""

    error: float  # mean squared, of standardised targets
    pearson: float
    r2: float
    worst_r2: float  # of the component that is read worst


def linear_probe(task: Task) -> Reading:
    """By ridge regression; where frames are few, its strength is chosen by leaving some out."""
    from sklearn.linear_model import Ridge, RidgeCV

    task = task.standardised()
    few = len(task.latents) < FEW * task.latents.shape[1]
    ridge = RidgeCV(np.logspace(-6, 4, 11)) if few else Ridge(RIDGE)
    probe = ridge.fit(task.latents.astype(np.float64), task.targets)
    return _judged(probe.predict(task.held_out_latents), task.held_out_targets)


def network_probe(task: Task, device: str | torch.device = "cpu", epochs: int = EPOCHS) -> Reading:
    """By a network with one hidden layer; the answers of three, from seeds of their own, are averaged."""
    task = task.standardised()
    latents, targets, held_out = (
        torch.as_tensor(part, dtype=torch.float32, device=device)
        for part in (task.latents, task.targets, task.held_out_latents)
    )
    probes = _Probes(latents.shape[1], targets.shape[1]).to(device)
    optimiser = torch.optim.Adam(probes.parameters(), RATE)
    order = torch.Generator().manual_seed(SEEDS[0])
    for _ in range(epochs):
        mixed = torch.randperm(len(latents), generator=order).to(device)
        for first in range(0, len(mixed), BATCH):
            chosen = mixed[first : first + BATCH]
            loss = (probes(latents[chosen]) - targets[chosen]).square().mean(dim=(1, 2)).sum()  # each its own
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    with torch.inference_mode():
        return _judged(probes(held_out).mean(dim=0).cpu().numpy(), task.held_out_targets)


class _Probes(torch.nn.Module):
    """A network for each seed, side by side: one matrix product serves them all."""

    def __init__(self, latent: int, size: int) -> None:
        super().__init__()
        layers = [self._layers(seed, latent, size) for seed in SEEDS]
        self.values = torch.nn.ParameterList(torch.stack(parts) for parts in zip(*layers, strict=True))

    @staticmethod
    def _layers(seed: int, latent: int, size: int) -> list[torch.Tensor]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            inner, outer = torch.nn.Linear(latent, HIDDEN), torch.nn.Linear(HIDDEN, size)
        return [part.detach() for part in (inner.weight.T, inner.bias, outer.weight.T, outer.bias)]

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        """Answers (seeds, M, S) to latents (M, D)."""
        weight, bias, last_weight, last_bias = self.values
        hidden = F.relu(torch.baddbmm(bias[:, None], latents.expand(len(SEEDS), -1, -1), weight))
        return torch.baddbmm(last_bias[:, None], hidden, last_weight)


def _judged(answers: np.ndarray, truth: np.ndarray) -> Reading:
    answers = answers.reshape(truth.shape)
    errors = np.square(answers - truth).mean(axis=0)
    deviations = np.where(truth.std(axis=0) > 0, truth.std(axis=0), 1), np.maximum(answers.std(axis=0), 1e-12)
    together = ((answers - answers.mean(axis=0)) * (truth - truth.mean(axis=0))).mean(axis=0)
    pearson = together / (deviations[0] * deviations[1])
    r2 = 1 - errors / deviations[0] ** 2
    return Reading(float(errors.mean()), float(pearson.mean()), float(r2.mean()), float(r2.min()))
