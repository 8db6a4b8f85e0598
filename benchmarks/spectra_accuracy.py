"""How well do boxes come back from their spectra? Accuracy against the number of objects N and of frequencies d.

    python benchmarks/spectra_accuracy.py [--objects 1 2 3 5] [--frequencies 4 9 18 36] [--noise 0 0.05]

Made-up n-ball frames: boxes of 8 of 64 pixels anywhere in the frame, frequencies as in training (σ = 4 radians per
image width). Each way gets the same spectra, exact or with Gaussian errors like those of a head, and has to say where
the N boxes are. Printed: the share of objects found within a pixel, and the median distance of their centres in pixels,
each object compared with the box that was assigned to it (Hungarian algorithm). Last column: CPU time for one spectrum.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from training.matching import fitting_order, reordered
from training.planning.decoder import decoder
from training.planning.spectra import Minimised, Plausible, Refined, spectrum
from training.targets import FourierTarget

PIXELS = 64
BALLS = Plausible((8 / PIXELS, 8 / PIXELS), (0.0, 0.0))
FRAMES = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, nargs="+", default=[1, 2, 3, 5])
    parser.add_argument("--frequencies", type=int, nargs="+", default=[4, 9, 18, 36])
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.05])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    columns = [f"error {noise:g}: {way}" for noise in arguments.noise for way in ("learned", "minimised", "refined")]
    print(f"| N | d | {' | '.join(columns)} | µs learned, minimised, refined |", flush=True)
    print("|---" * (len(columns) + 3) + "|", flush=True)
    for objects in arguments.objects:
        for frequencies in arguments.frequencies:
            print(row(objects, frequencies, arguments.noise), flush=True)


def row(objects: int, frequencies: int, noises: list[float]) -> str:
    """One line of the table."""
    W = FourierTarget(frequencies).W
    made = decoder(W, objects, BALLS)
    search = Minimised(W, objects, BALLS)
    ways: list[Callable[[Tensor], Tensor]] = [made, search, Refined(made, search)]
    generator = torch.Generator().manual_seed(1)
    boxes = BALLS.draw(FRAMES, objects, generator)
    exact = spectrum(boxes, W).sum(1)
    cells, times = [], []
    for noise in noises:
        spectra = exact + noise * torch.randn(exact.shape, generator=generator)
        times = []
        for way in ways:
            began = time.process_time()
            found = way(spectra)
            times.append((time.process_time() - began) / FRAMES * 1e6)
            distance = apart(found, boxes)
            cells.append(f"{(distance <= 1).float().mean():.0%}, {distance.median():.2f}")
    return f"| {objects} | {frequencies} | {' | '.join(cells)} | {', '.join(f'{spent:.0f}' for spent in times)} |"


def apart(found: Tensor, boxes: Tensor) -> Tensor:
    """Distance in pixels between centres of boxes (M, N, 4) that belong together, (M, N)."""
    found, boxes = found[..., :2] * PIXELS, boxes[..., :2] * PIXELS
    alike = torch.zeros(boxes.shape[:2], dtype=torch.long)
    order = fitting_order(found, boxes, torch.ones_like(boxes, dtype=torch.bool), alike)
    return (found - reordered(boxes, order)).norm(dim=-1)


if __name__ == "__main__":
    main()
