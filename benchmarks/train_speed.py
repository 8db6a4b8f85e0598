"""How fast is a training step, and does the loader keep up? Ratios, all of one run.

    python benchmarks/train_speed.py [--quick] [--only PRESET ...]

Our step is the trainer's own; the rival is `rival_lewm.py`, and both have the same loss for the same weights, which is
checked first. One core, one thread. Steps to be compared take turns, and a figure is the median of the time that the
core spent on them, so that other programs hardly count. The preset `lewm` runs with 16 windows in place of 128: the
rival would need some 40 GB, by estimate. Its frames are textured like a camera's: black ones are decoded for nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import cv2
import numpy as np
import torch
from rival_lewm import Rival, RivalStep, apart
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from training.config import load_config
from training.dataset import Batch, Dataset, Windows, open_dataset
from training.dataset_format import DatasetCategory
from training.dataset_writer import DatasetWriter
from training.devices import accelerated
from training.manifest import Split
from training.models.products import linear
from training.simulate import simulate
from training.takes import Layout, Take
from training.trainer import Listener, Trainer

BATCHES = {"nball": 64, "nball-cpu": 24, "lewm": 16}
PROMISED = {"nball": " (promised 1.5)", "lewm": " (promised 1)"}
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mkldnn::_linear_pointwise")
ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
FASTER = torch.ops.mkldnn._linear_pointwise
ATTENTION_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, and lewm with 4 windows")
    parser.add_argument("--only", nargs="+", choices=BATCHES, default=list(BATCHES), help="some of the presets")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    peak = matmul_peak()
    print(f"the best that a large matrix product does here: {peak / 1e9:.0f} GFLOP/s")
    with tempfile.TemporaryDirectory() as work, accelerated("fp32", "cpu") as accelerator:
        for preset in arguments.only:
            batch = 4 if arguments.quick and preset == "lewm" else BATCHES[preset]
            dataset = textured(Path(work)) if preset == "lewm" else balls(Path(work), arguments.quick)
            config = load_config(None, None, preset, batch=batch, steps=1_000_000)
            trainer = Trainer(dataset, Path(work) / preset, config, False, accelerator, Listener())
            print(f"\n{preset}, {batch} windows of {config.length} frames, {config.model.encoder.size} pixels")
            measure(trainer, peak, 3 if preset == "lewm" else 7 if arguments.quick else 25)


def measure(trainer: Trainer, peak: float, turns: int) -> None:
    """Print all figures of one preset."""
    windows, dataset = trainer.windows, trainer.windows.dataset
    size = sum(int(np.prod(dataset.array(name).shape)) * dataset.array(name).dtype.itemsize for name in dataset.columns)
    streamed = Windows(dataset, "train", windows.length, windows.skip, windows.batch, memory_limit=size // 3)
    assert windows.in_memory
    assert not streamed.in_memory
    cached = next(windows.batches(0))
    trainer.objective.train()

    rival = Rival(trainer.config, trainer.objective)
    print(f"  losses of ours and the rival are {apart(rival, trainer.objective, cached):.1e} apart (up to 1e-4)")
    rival_step = RivalStep(rival, trainer.config)
    held, read = forever(windows), forever(streamed)
    times = taking_turns(
        {
            "ours": lambda: step(trainer, cached),
            "rival": lambda: rival_step(cached),
            "held": lambda: step(trainer, next(held)),
            "read": lambda: step(trainer, next(read)),
        },
        turns,
    )
    ours, ratio = times["ours"], times["rival"] / times["ours"]
    print(f"  step: {1000 * ours:.1f} ms, rival {1000 * times['rival']:.1f} ms")
    print(f"  {ratio:.2f} times as fast as the rival{PROMISED.get(trainer.config.preset, '')}")
    for name, kind, loader in (("held", "in memory", windows), ("read", "streamed", streamed)):
        alone = loading(loader)
        print(
            f"  loader, {kind}: {1000 * alone:.2f} ms a batch, {ours / alone:.0f} times as fast as needed "
            f"(promised 20); step with it {100 * (times[name] / ours - 1):+.1f} % (promised 3)"
        )
    products(trainer, cached, peak, ours)


def products(trainer: Trainer, batch: Batch, peak: float, seconds: float) -> None:
    """How much of a step is matrix multiplication, and how far that is from the machine's best."""
    known = {ATTENTION: _attention_flops, ATTENTION_BACKWARD: _attention_backward_flops, FASTER: _linear_flops}
    with FlopCounterMode(display=False, custom_mapping=known) as counter:
        step(trainer, batch)
    counted = {
        str(name).removeprefix("aten.").replace("mkldnn.", "mkldnn::"): flops
        for name, flops in counter.get_flop_counts()["Global"].items()
    }
    with Stopwatch() as watch:
        for _ in range(5 if seconds < 2 else 1):
            step(trainer, batch)
    total = sum(watch.seconds.values())
    multiplied = sum(watch.seconds[name] for name in PRODUCTS)
    attention = sum(spent for name, spent in watch.seconds.items() if "attention" in name)
    flops, share = sum(counted.values()), multiplied / total
    in_products = sum(counted.get(name, 0) for name in PRODUCTS)
    print(
        f"  matrix products {100 * share:.0f} % of the step, fused attention {100 * attention / total:.0f} %; "
        f"{flops / 1e9:.1f} GFLOP a step"
    )
    print(
        f"  products run at {100 * in_products / (share * seconds) / peak:.0f} % of the machine's best, "
        f"the whole step at {100 * flops / seconds / peak:.0f} %"
    )


class Stopwatch(TorchDispatchMode):
    """Time of the core that each of torch's operations takes. The profiler's clock would count other programs too."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = defaultdict(float)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        began = time.thread_time()
        result = func(*args, **(kwargs or {}))
        self.seconds[func._schema.name.removeprefix("aten::")] += time.thread_time() - began
        return result


def _linear_flops(values: Any, weight: Any, *rest: Any, out_shape: Any = None, **more: Any) -> int:
    return 2 * int(np.prod(values)) * weight[0]


def _attention_flops(query: Any, key: Any, value: Any, *rest: Any, out_shape: Any = None, **more: Any) -> int:
    return sdpa_flop_count(query, key, value)


def _attention_backward_flops(
    gradient: Any, query: Any, key: Any, value: Any, *rest: Any, out_shape: Any = None, **more: Any
) -> int:
    return sdpa_backward_flop_count(gradient, query, key, value)


def taking_turns(works: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Median time of the core for each of several works, done alternately; the first turn only warms up."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns + 1):
        for name, work in works.items():
            began = time.process_time()
            work()
            if turn:
                times[name].append(time.process_time() - began)
    return {name: median(spent) for name, spent in times.items()}


def step(trainer: Trainer, batch: Batch) -> None:
    trainer._train_on(batch)
    trainer.step += 1


def forever(windows: Windows) -> Iterator[Batch]:
    epoch = 0
    while True:
        yield from windows.batches(epoch)
        epoch += 1


def loading(windows: Windows) -> float:
    """Time of the core for a batch, the mean over an epoch: of all threads, and with the blocks read anew."""
    began = time.process_time()
    count = sum(1 for _ in windows.batches(0))
    return (time.process_time() - began) / count


def matmul_peak() -> float:
    """Floating point operations a second in the best of several large matrix products."""
    size, best = 1024, 0.0
    one, other = torch.randn(2, size, size)
    for _ in range(20):
        began = time.process_time()
        linear(one, other, None)
        best = max(best, 2 * size**3 / (time.process_time() - began))
    return best


def balls(work: Path, quick: bool) -> Dataset:
    """Episodes of n-ball, as they are trained on."""
    path = work / "nball.zarr"
    if not path.exists():
        simulate("nball", path, 300 if quick else 1000, balls=1)
    return open_dataset(path)


def textured(work: Path, episodes: int = 24, frames: int = 40, size: int = 224) -> Dataset:
    """A camera that drifts over a textured ground, with one box and actions."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (24, 24, 3), np.uint8)
    ground = cv2.resize(coarse, (3 * size, 3 * size), interpolation=cv2.INTER_CUBIC).astype(float)
    ground = np.clip(ground + rng.normal(0, 6, ground.shape), 0, 255).astype(np.uint8)
    with DatasetWriter(work / "textured.zarr", Layout((size, size), 2, 1, {})) as writer:
        for episode in range(episodes):
            corner = rng.integers(0, 2 * size - 3 * frames, 2)
            places = corner + 3 * np.arange(frames)[:, None]
            pictures = np.stack([ground[y : y + size, x : x + size] for x, y in places])
            columns = {"actions": rng.normal(size=(frames, 2)), "boxes": np.full((frames, 1, 4), 0.5)}
            writer.add(Take(f"episode-{episode}", 0, [pictures], columns, np.array([0]), np.array([0])))
        kinds = [DatasetCategory(0, "thing", ("thing",), episodes)]
        return writer.finish("textured", kinds, Split(validation=0.1))


if __name__ == "__main__":
    main()
