"""Does a run get the verdict that it deserves? Trains the three small runs of tests/fixtures/runs and judges them.

    python benchmarks/verdict_runs.py [--work DIR] [--out FOLDER] [--starts N] [--only NAME ...]

n-ball with one white ball, seen in frames of 32 pixels, and models of some 70,000 weights. `collapsed` has nothing that
keeps latents apart, `lazy` is plain LeWM, stopped while it ignores the control ball, `grounded` has the auxiliary head.
Each is judged on episodes simulated anew, which none of them was trained on. With --out, what a reader of the run needs
is copied there: settings, metrics, and the weights of its last checkpoint, without the optimiser's.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from training import checkpoint, load, metrics
from training.config import TrainConfig
from training.dataset import Dataset, open_dataset
from training.evaluation.evaluate import evaluate
from training.manifest import Split
from training.run_folder import SETTINGS
from training.simulate import simulate
from training.trainer import Listener, train

EPISODES, FRESH = 3000, 400
SIZE = 32  # of the frames; the world has 64 pixels
BLOCKS = {"width": 32, "depth": 2, "heads": 4, "ffn": 64}
COMMON: dict[str, Any] = {
    "preset": "nball-cpu", "log_every": 250, "validate_every": 250, "checkpoint_every": 250,
    "model": {
        "latent": 32, "projector": 64, "encoder": {**BLOCKS, "size": SIZE, "patch": 8},
        "predictor": {**BLOCKS, "head_size": 8},
    },
}  # fmt: skip
WITHOUT_HEAD = {"encoded_weight": 0.0, "predicted_weight": 0.0}
RUNS: dict[str, dict[str, Any]] = {
    "collapsed": {"steps": 500, "objective": {"regularizer": "none", **WITHOUT_HEAD}},
    "lazy": {"steps": 750, "optimiser": {"schedule": 8.0}, "objective": WITHOUT_HEAD},  # an eighth of the way
    "grounded": {"steps": 6000},
}


class Progress(Listener):
    def validated(self, row: dict[str, object]) -> None:
        print(f"  step {row['step']}: loss {row['total']:.4f}, {row['verdict']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("verdict_runs"), help="folder for datasets and runs")
    parser.add_argument("--out", type=Path, help="folder for what is kept of the runs")
    parser.add_argument("--starts", type=int, default=100, help="places from which plans are tried out; 0: none")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), help="some of the runs")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core, and its time
    torch.set_num_threads(1)
    dataset, fresh = (
        _episodes(arguments.work / f"{name}.zarr", episodes, seed)
        for name, episodes, seed in (("training", EPISODES, 1), ("fresh", FRESH, 2))
    )
    for name in arguments.only:
        print(name, flush=True)
        run = arguments.work / name
        config = TrainConfig.model_validate({**COMMON, **RUNS[name]})
        train(dataset, run, config, resume=True, device="cpu", listener=Progress())
        found, _ = evaluate(load(run, "last"), fresh, run, epochs=5, starts=arguments.starts)
        minutes = checkpoint.read(checkpoint.find(run, "last")).seconds / 60
        print(f"  judged on fresh episodes after {minutes:.1f} minutes of training: {found.verdict}")
        for one in found.success:
            print(f"  goal {one.horizon} steps on, {one.context} frames seen: {one.plans.rate:.0%}; "
                  f"random actions {one.random.rate:.0%}", flush=True)  # fmt: skip
        if arguments.out:
            keep(run, arguments.out / name)


def _episodes(path: Path, episodes: int, seed: int) -> Dataset:
    return open_dataset(simulate("nball", path, episodes, 32, seed, SIZE, Split(validation=0.1), balls=1).path)


def keep(run: Path, out: Path) -> None:
    """Copy what is needed to read a run, and nothing of the machine that it was made on."""
    shutil.rmtree(out, ignore_errors=True)
    last = checkpoint.find(run, "last")
    place = out / checkpoint.FOLDER / last.name
    place.mkdir(parents=True)
    for file in (SETTINGS, metrics.FILE):
        shutil.copyfile(run / file, out / file)
    shutil.copyfile(last / checkpoint.WEIGHTS, place / checkpoint.WEIGHTS)
    facts = checkpoint.read(last)
    facts = facts.model_copy(update={"data": facts.data.model_copy(update={"path": ""})})
    (place / checkpoint.FACTS).write_text(facts.model_dump_json(indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
