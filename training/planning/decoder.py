"""How is the way from spectra back to boxes learned?

A perceptron from spectra (..., 2d) to N boxes (..., N, 4), trained on made-up boxes, whose order does not count. It
belongs to its frequencies W and its number of objects: `decoder` trains it once, on a CPU in about a minute, and keeps
it as safetensors beside the run.
"""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import torch
from pydantic import BaseModel, Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.nn import functional as F

from labeling.files import write_whole
from training.config import TrainError
from training.matching import fitting_order, reordered
from training.models.products import Linear
from training.planning.spectra import Plausible, spectrum
from training.run_folder import refuse_links_in

FOLDER = "decoders"


class DecoderConfig(BaseModel, frozen=True, extra="forbid"):
    """How a decoder learns."""

    hidden: int = Field(256, ge=1, description="Width of both hidden layers.")
    steps: int = Field(4000, ge=1, description="Training steps.")
    batch: int = Field(256, ge=2, description="Made-up frames in a step.")
    lr: float = Field(2e-3, gt=0, description="Highest learning rate.")
    noise: float = Field(0.1, ge=0, description="Errors of the head, up to this deviation, that it learns to bear.")
    seed: int = Field(0, ge=0, description="Draws weights and boxes.")


class Decoder(nn.Module):
    """Spectra to boxes."""

    def __init__(self, frequencies: int, objects: int, hidden: int) -> None:
        super().__init__()
        self.objects = objects
        self.layers = nn.Sequential(
            Linear(2 * frequencies, hidden), nn.GELU(), Linear(hidden, hidden), nn.GELU(),
            Linear(hidden, 4 * objects),
        )  # fmt: skip

    def forward(self, spectra: Tensor) -> Tensor:
        """(..., 2d) to (..., N, 4)."""
        answers: Tensor = self.layers(spectra)
        return answers.view(*spectra.shape[:-1], self.objects, 4)


def decoder(
    frequencies: Tensor,
    objects: int,
    plausible: Plausible,
    folder: Path | None = None,
    config: DecoderConfig | None = None,
) -> Decoder:
    """A decoder for W (4, d) and a number of objects; from the run's `folder` if it was trained already."""
    with torch.inference_mode(False):  # weights that are made in that mode cannot be trained
        return _made(frequencies, objects, plausible, folder, config or DecoderConfig())


def _made(
    frequencies: Tensor, objects: int, plausible: Plausible, folder: Path | None, config: DecoderConfig
) -> Decoder:
    made = Decoder(frequencies.shape[1], objects, config.hidden)
    file = folder / FOLDER / f"{_name(frequencies, objects, plausible, config)}.safetensors" if folder else None
    if not (file and _kept(made, file)):
        _train(made, frequencies.cpu().clone(), plausible, config)
        if file:
            _keep(made, file)
    return made.requires_grad_(False).eval().to(frequencies.device)


def _kept(made: Decoder, file: Path) -> bool:
    """Whether a decoder was kept and could be read."""
    if not file.exists():
        return False
    try:
        made.load_state_dict(load_file(file))
    except (OSError, RuntimeError, SafetensorError) as error:
        warnings.warn(f"{file} cannot be read ({error}): the decoder is trained anew.", stacklevel=3)
        return False
    return True


def _keep(made: Decoder, file: Path) -> None:
    """Save a decoder; a run that cannot be written to, as on a shared disk, can be planned with all the same."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        refuse_links_in(file.parent.parent)
        write_whole(file, save(made.state_dict()))
    except (OSError, TrainError) as error:
        warnings.warn(f"{file} cannot be written ({error}): the decoder will be trained anew.", stacklevel=3)


def _train(made: Decoder, frequencies: Tensor, plausible: Plausible, config: DecoderConfig) -> None:
    generator = torch.Generator().manual_seed(config.seed)
    for parameter in made.parameters():
        bound = parameter.shape[-1] ** -0.5
        parameter.data.copy_((2 * torch.rand(parameter.shape, generator=generator) - 1) * bound)
    optimiser = torch.optim.Adam(made.parameters(), config.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.lr, total_steps=config.steps)
    with torch.enable_grad():
        for _ in range(config.steps):
            boxes = plausible.draw(config.batch, made.objects, generator)
            spectra = spectrum(boxes, frequencies).sum(1)
            deviation = config.noise * torch.rand(config.batch, 1, generator=generator)
            answers = made(spectra + deviation * torch.randn(spectra.shape, generator=generator))
            optimiser.zero_grad()
            loss = F.mse_loss(answers, _in_order_of(answers, boxes))
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()


def _in_order_of(answers: Tensor, boxes: Tensor) -> Tensor:
    """Boxes (M, N, 4), each beside the answer that it fits."""
    if boxes.shape[1] == 1:
        return boxes
    alike = torch.zeros(boxes.shape[:2], dtype=torch.long)
    return reordered(boxes, fitting_order(answers, boxes, torch.ones_like(boxes, dtype=torch.bool), alike))


def _name(frequencies: Tensor, objects: int, plausible: Plausible, config: DecoderConfig) -> str:
    """What decides a decoder, as a short hash."""
    facts = f"{frequencies.cpu().numpy().tobytes().hex()} {objects} {plausible} {config.model_dump_json()}"
    return f"boxes-{objects}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"
