"""Does the auxiliary head make a world model see both balls? Trains and compares, n-ball with one ball.

    python benchmarks/grounding.py [--work DIR] [--only NAME ...]

Runs of the preset `nball-cpu` on one core each, declared here and not chosen afterwards: seeds 0 and 1, each with the
auxiliary head and without it, with positions of the encoder that begin as noise, as in LeWM's code, or as waves, as in
the preset. Within a pair only the weight of the head's terms differs: steps, windows and their order, initial weights
of the world model and learning rate are the same. A run that was stopped goes on; a finished one stays.

The last checkpoint is judged on held-out episodes: Spearman's rank correlation between distances of latents and of
positions over all pairs of 2,000 frames, and the R² of a linear probe fitted on 50,000 frames, on 5,000 others, of the
coordinate (x or y) that is read worst.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch

from training import checkpoint, load
from training.config import load_config
from training.dataset import Dataset, open_dataset
from training.evaluation.geometry import distance_correlation
from training.evaluation.latents import encoded, quantities
from training.evaluation.probes import Task, linear_probe
from training.prepare import prepare
from training.trainer import Listener, train

SEEDS = (0, 1)
BASELINE = ["objective.encoded_weight=0", "objective.predicted_weight=0"]
RUNS = {
    f"{positions}-{kind}-{seed}": (seed, [f"model.encoder.positions={positions}", *settings])
    for positions in ("noise", "waves")
    for seed in SEEDS
    for kind, settings in (("head", []), ("plain", BASELINE))
}
FITTED, JUDGED = 50_000, 5_000
MANIFEST = Path(__file__).parents[1] / "data_manifests" / "nball-1.yaml"


class Progress(Listener):
    def validated(self, row: dict[str, object]) -> None:
        print(f"  step {row['step']}: loss {row['total']:.4f}, {row['verdict']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("grounding"), help="folder for the dataset and the runs")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), help="some of the runs")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, and its time
    torch.set_num_threads(1)
    dataset = open_dataset(prepare(MANIFEST, arguments.work / "nball-1.zarr").path)
    for name in arguments.only:
        seed, settings = RUNS[name]
        print(name, flush=True)
        config = load_config(None, settings, "nball-cpu", seed=seed)
        train(dataset, arguments.work / name, config, resume=True, device="cpu", listener=Progress())
        judged = arguments.work / name / "grounding.json"
        judged.write_text(json.dumps(judge(arguments.work / name, dataset), indent=2))
    print(table(arguments.work))


def judge(run: Path, dataset: Dataset) -> dict[str, float]:
    """All figures of a finished run."""
    model = load(run, "last")
    fitted, held_out = encoded(model, dataset, "train", FITTED), encoded(model, dataset, "validation", JUDGED)
    names = {row.id: row.name for row in dataset.categories}
    known = quantities(fitted, names)
    figures = {}
    for name, there in quantities(held_out, names).items():
        if name.endswith("position"):
            of = name.removesuffix(", position")
            figures[f"Spearman, {of}"] = distance_correlation(held_out.latents, there.values)
            task = Task(fitted.latents, known[name].values, held_out.latents, there.values)
            figures[f"R², {of}"] = linear_probe(task).worst_r2
    facts = checkpoint.read(checkpoint.find(run, "last"))
    return {**figures, "prediction loss": facts.validation["prediction"], "minutes": facts.seconds / 60}


def table(work: Path) -> str:
    """The runs that are judged, side by side."""
    found = {name: json.loads((work / name / "grounding.json").read_text()) for name in RUNS if _judged(work, name)}
    columns = list(next(iter(found.values())))
    lines = [f"| run | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, figures in found.items():
        lines.append(f"| {name} | {' | '.join(f'{figures[column]:.3f}' for column in columns)} |")
    return "\n".join(lines)


def _judged(work: Path, name: str) -> bool:
    return (work / name / "grounding.json").exists()


if __name__ == "__main__":
    main()
