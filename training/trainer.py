"""How is a world model trained?

`train` takes a dataset and a folder for the run, and leaves checkpoints, `metrics.jsonl` and `curves.png` there. Order
of the windows, learning rate and random numbers follow from the step alone: a run that was stopped goes on to the same
numbers. Device, mixed precision and several processes are accelerate's business.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeling.places import on_disk
from training import checkpoint, curves
from training.config import Device, OptimiserConfig, TrainConfig, TrainError
from training.damage import bad_numbers
from training.dataset import Batch, Dataset, Windows, open_dataset
from training.devices import accelerated
from training.metrics import Metrics
from training.objective import Terms
from training.run_folder import chosen_config, claimed
from training.validation import Validation
from training.world_model import DataFacts, build

NAMES = (*Terms._fields, "gradient")
DRAW_EVERY = 30.0  # seconds, while it goes on


class Listener:
    """Hears how a run is getting on; in the first process only."""

    def started(self, step: int, steps: int, notes: list[str]) -> None:
        """The run begins or goes on at `step` of `steps`."""

    def stepped(self, step: int, terms: Mapping[str, float] | None) -> None:
        """A step is done; `terms` are means since the last time that there were any."""

    def validated(self, row: Mapping[str, Any]) -> None:
        """The validation split was looked at."""


@dataclass(frozen=True)
class Trained:
    """What a run came to."""

    run: Path
    step: int
    seconds: float  # of training, all sessions together
    best_step: int
    validation: dict[str, Any]  # the last look at the validation split
    curves: Path

    @property
    def verdict(self) -> str:
        """Collapsed, lazy or grounded, in one line."""
        return str(self.validation["verdict"])


def train(
    dataset: str | Path | Dataset, run: str | Path, config: TrainConfig | None = None, resume: bool = False,
    device: Device = "auto", listener: Listener | None = None,
) -> Trained:  # fmt: skip
    """Train a world model.

    Args:
        dataset: What `prepare` or `simulate` wrote.
        run: Folder for checkpoints, metrics and curves.
        config: The settings; None: those that a resumed run was started with, or the defaults.
        resume: Go on from the run's last checkpoint; without one it starts anew, and says so.
        device: Where to train.
        listener: Hears of the progress.
    """
    dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    folder = on_disk(run, "a run")
    if wrong := bad_numbers(dataset):
        raise TrainError(wrong)
    with ExitStack() as stack:
        config = chosen_config(folder, config, resume)
        accelerator = stack.enter_context(accelerated(config.precision, device))
        if accelerator.is_main_process:
            stack.enter_context(claimed(folder, config, resume))
        accelerator.wait_for_everyone()
        devices = [accelerator.device] if accelerator.device.type == "cuda" else []
        stack.enter_context(torch.random.fork_rng(devices))
        return Trainer(dataset, folder, config, resume, accelerator, listener or Listener()).fit()


def learning_rate(step: int, steps: int, config: OptimiserConfig) -> float:
    """The learning rate of a step: a rise, then half a cosine down to 0 at the end of the schedule."""
    length = steps * config.schedule
    rise = config.warmup * length
    if step < rise:
        return config.lr * (step + 1) / (math.floor(rise) + 1)
    return config.lr * 0.5 * (1 + math.cos(math.pi * (step - rise) / (length - rise)))


class Trainer:
    """One run: its parts, and where it stands."""

    def __init__(
        self, dataset: Dataset, run: Path, config: TrainConfig, resume: bool, accelerator: Any, listener: Listener
    ) -> None:
        self.run, self.config, self.accelerator, self.listener = run, config, accelerator, listener
        self.main, self.device = accelerator.is_main_process, accelerator.device
        self.windows = _windows(dataset, config, accelerator.process_index, accelerator.num_processes)
        self.steps = config.steps or config.epochs * len(self.windows)
        self.data = DataFacts.of(dataset)
        torch.manual_seed(config.seed)
        self.objective = build(config, self.data).to(self.device)
        self.parameters = list(self.objective.parameters())
        self.optimiser = torch.optim.AdamW(
            self.parameters, config.optimiser.lr, weight_decay=config.optimiser.weight_decay,
            fused=self.device.type in ("cpu", "cuda"),
        )  # fmt: skip
        self.step, self.earlier, self.best_step = 0, 0.0, 0
        self.best_loss: float | None = None
        self.sums, self.summed = torch.zeros(len(NAMES), device=self.device), 0
        self.row: dict[str, Any] = {}
        self.drawn = time.monotonic()
        self.notes: list[str] = []
        if resume and (newest := checkpoint.last(run)):
            self._go_on_from(newest)
        elif resume:
            self.notes.append(f"{run} has no checkpoint to go on from: training starts anew.")
        self.wrapped = accelerator.prepare_model(self.objective)
        self.validation = Validation(dataset, self.windows, config, self.data.categories) if self.main else None

    def fit(self) -> Trained:
        """Train to the end."""
        began = time.monotonic() - self.earlier
        with ExitStack() as stack:
            metrics = stack.enter_context(Metrics(self.run, self.config.tracker, self.step)) if self.main else None
            if self.validation:
                self.listener.started(self.step, self.steps, [*self.notes, *self.validation.notes])
            self.objective.train()
            for batch in self._batches():
                terms = self._train_on(batch)
                self.step += 1
                self._refuse_nonsense(terms)
                means = self._means() if self._due(self.config.log_every) else None
                if metrics and means:
                    metrics.write(self._training_row(means, time.monotonic() - began))
                better = False
                if self._due(self.config.validate_every) and metrics:
                    better = self._validate(metrics)
                if self.main and (better or self._due(self.config.checkpoint_every)):
                    self._save(time.monotonic() - began)
                if self.main:
                    self.listener.stepped(self.step, means)
        self.accelerator.wait_for_everyone()
        facts = checkpoint.read(checkpoint.find(self.run, "last"))
        picture = curves.draw(self.run) if self.main else self.run / curves.FILE
        return Trained(self.run, self.step, facts.seconds, facts.best_step or 0, facts.validation, picture)

    def _batches(self) -> Iterator[Batch]:
        """The batches from this step to the last, epoch after epoch."""
        step = self.step
        while step < self.steps:
            epoch, start = divmod(step, len(self.windows))
            for batch in self.windows.batches(epoch, start):
                yield batch
                step += 1
                if step == self.steps:
                    return

    def _train_on(self, batch: Batch) -> Tensor:
        """One step of the optimiser; the terms of the loss and the gradient's norm."""
        self._seed_dropout()
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.step, self.steps, self.config.optimiser)
        terms: Terms = self.wrapped(batch.to(self.device), self.step)
        self.optimiser.zero_grad()
        self.accelerator.backward(terms.total)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.optimiser.clip)
        self.optimiser.step()
        values = torch.stack([*terms, norm]).detach()
        self.sums += values
        self.summed += 1
        return values

    def _seed_dropout(self) -> None:
        """Random numbers follow from seed, step and process: a resumed run draws the same."""
        sequence = np.random.SeedSequence([self.config.seed, self.step, self.accelerator.process_index])
        torch.manual_seed(int(sequence.generate_state(1)[0]))

    def _due(self, every: int) -> bool:
        return self.step % every == 0 or self.step == self.steps

    def _refuse_nonsense(self, values: Tensor) -> None:
        """Stop where a number is none, before it gets into a checkpoint.

        A GPU would have to be waited for; there the sums tell at the next line, validation or checkpoint.
        """
        every = (self.config.log_every, self.config.validate_every, self.config.checkpoint_every)
        if self.device.type != "cpu" and not any(self._due(interval) for interval in every):
            return
        if not self.sums.isfinite().all():
            found = ", ".join(f"{name} {value:.4g}" for name, value in zip(NAMES, values.tolist(), strict=True))
            raise TrainError(
                f"The loss is no longer a number at step {self.step} ({found}). {checkpoint.kept(self.run)} "
                "A smaller optimiser.lr usually helps."
            )

    def _means(self) -> dict[str, float]:
        """Means of the terms over the steps since the last time, and over processes."""
        means = self.accelerator.reduce(self.sums / self.summed, "mean").tolist()
        self.sums, self.summed = torch.zeros_like(self.sums), 0
        return dict(zip(NAMES, means, strict=True))

    def _training_row(self, means: Mapping[str, float], seconds: float) -> dict[str, Any]:
        return {
            "step": self.step, "split": "train", "epoch": self.step / len(self.windows), **means,
            "lr": self.optimiser.param_groups[0]["lr"], "seconds": round(seconds, 3),
        }  # fmt: skip

    def _validate(self, metrics: Metrics) -> bool:
        """Look at the validation split; whether the model is the best so far."""
        assert self.validation is not None
        with self.accelerator.autocast():
            self.row = {"step": self.step, "split": "validation", **self.validation.look(self.objective)}
        loss = self.row["total"]
        if not math.isfinite(loss):
            raise TrainError(
                f"The validation loss is no longer a number at step {self.step}. {checkpoint.kept(self.run)}"
            )
        metrics.write(self.row)
        if time.monotonic() - self.drawn > DRAW_EVERY:
            curves.draw(self.run)
            self.drawn = time.monotonic()
        self.listener.validated(self.row)
        better = self.best_loss is None or loss < self.best_loss
        if better:
            self.best_loss, self.best_step = loss, self.step
        return better

    def _save(self, seconds: float) -> None:
        facts = checkpoint.Facts(
            version=version("spectrabox"), step=self.step, steps=self.steps, seconds=seconds, sums=self.sums.tolist(),
            summed=self.summed, best_step=self.best_step or None, best_loss=self.best_loss, config=self.config,
            data=self.data, order=self.windows.order, validation=self.row,
        )  # fmt: skip
        checkpoint.save(self.run, self.objective, self.optimiser, facts)

    def _go_on_from(self, newest: Path) -> None:
        facts = checkpoint.read(newest)
        if facts.order != self.windows.order:
            raise TrainError(
                f"{self.run} was trained on another dataset ({facts.data.name}, fingerprint "
                f"{facts.data.fingerprint[:12]}; this one is {self.data.fingerprint[:12]}). Give that one, or start a "
                "new run in another folder."
            )
        checkpoint.restore(newest, self.objective, self.optimiser)
        self.step, self.steps, self.earlier, self.row = facts.step, facts.steps, facts.seconds, facts.validation
        self.best_step, self.best_loss = facts.best_step or 0, facts.best_loss
        self.sums, self.summed = torch.tensor(facts.sums, device=self.device), facts.summed


def _windows(dataset: Dataset, config: TrainConfig, rank: int, processes: int) -> Windows:
    if config.batch % processes:
        raise TrainError(f"{processes} processes cannot share a batch of {config.batch}. Choose a multiple of it.")
    windows = Windows(
        dataset, "train", config.length, config.skip, config.batch, config.seed, config.memory << 20,
        part=(rank, processes),
    )  # fmt: skip
    if processes > 1 and windows.windows < config.batch:
        raise TrainError(f"{dataset.path} has {windows.windows} windows, fewer than a batch of {config.batch}.")
    return windows
