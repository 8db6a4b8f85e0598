"""How good are the labels? Labels a folder of clips with ground truth, exports and scores them.

    python benchmarks/quality.py CLIPS SCORER [--work DIR]

CLIPS holds NAME.mp4 with NAME.json (ground truth); SCORER is a program called as `SCORER CLIPS PREDICTIONS --json OUT`.
All clips are labeled with the default settings in one run, but for families whose objects stand still the whole time
(`--static flies`), which get a run of their own with keep_static. Prints the table of families, the speed, and how
well categories follow the kinds of things (adjusted Rand index over matched tracks, per family).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from labeling.config import load_config
from labeling.export import export
from labeling.run import label_folder
from labeling.store import Store, open_store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", type=Path)
    parser.add_argument("scorer", type=Path)
    parser.add_argument("--work", type=Path, default=Path("quality"), help="folder for stores and predictions")
    parser.add_argument("--static", action="append", default=["flies"], help="family labeled with keep_static")
    parser.add_argument("--only", action="append", default=[], help="only clips whose name begins like this")
    arguments = parser.parse_args()
    truths = {path.stem: json.loads(path.read_text()) for path in sorted(arguments.clips.glob("*.json"))}
    names = [name for name in truths if not arguments.only or name.startswith(tuple(arguments.only))]
    predictions = arguments.work / "predictions"
    shutil.rmtree(predictions, ignore_errors=True)
    predictions.mkdir(parents=True)
    for run, static in (("moving", False), ("static", True)):
        chosen = [name for name in names if (truths[name].get("family") in arguments.static) == static]
        if chosen:
            label(arguments.clips, chosen, arguments.work / run, static, predictions / f"{run}.json")
    scores = arguments.work / "scores.json"
    subprocess.run([sys.executable, arguments.scorer, arguments.clips, predictions, "--json", scores], check=True)
    print(f"\nscores: {scores}\n")
    categories(truths, names, open_store(arguments.work / "moving" / "labels.zarr"))


def label(clips: Path, names: list[str], work: Path, static: bool, out: Path) -> None:
    """Label the named clips in one run and export them."""
    folder = work / "videos"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.mp4").symlink_to((clips / f"{name}.mp4").resolve())
    summary = label_folder(folder, work / "labels.zarr", load_config(keep_static=static), workers=2)
    for outcome in summary.outcomes:
        found, speed = outcome.labels, f"{outcome.fps:.0f} fps" if outcome.fps else "up to date"
        text = f"{found.tracks} tracks, {found.dropped} dropped, {speed}" if found else outcome.failure
        print(f"{outcome.source}: {text}")
    export(open_store(summary.store), "youtube-vis", out)


def categories(truths: dict[str, dict[str, Any]], names: list[str], store: Store) -> None:
    """Print the adjusted Rand index between kinds of true objects and categories of the tracks that follow them."""
    kinds: dict[str, list[str]] = {}
    found: dict[str, list[int]] = {}
    for name in names:
        truth = truths[name]
        main = [thing for thing in truth["objects"] if thing.get("role", "main") == "main"]
        if len(main) < 2 or f"{name}.mp4" not in store.ids:
            continue
        tracks = store[f"{name}.mp4"].tracks
        for thing in main:
            boxes = np.array([box or [np.nan] * 4 for box in thing["boxes"]])
            if len(tracks):
                best = int(np.argmax(np.nansum(overlap(tracks.boxes, boxes[:, None]), axis=0)))
                kinds.setdefault(truth["family"], []).append(re.sub(r"\d+", "", thing["name"]))
                found.setdefault(truth["family"], []).append(int(tracks.category[best]))
    for family, things in kinds.items():
        pairs = sorted(set(zip(things, found[family], strict=True)))
        listed = ", ".join(f"{kind.strip()} -> {category}" for kind, category in pairs)
        print(f"categories, {family}: ARI {adjusted_rand_score(things, found[family]):.2f} ({listed})")


def overlap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """IoU of boxes (..., 4) that broadcast; NaN where one is absent."""
    low, high = np.maximum(first[..., :2], second[..., :2]), np.minimum(first[..., 2:], second[..., 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=-1)
    areas = [np.prod(boxes[..., 2:] - boxes[..., :2], axis=-1) for boxes in (first, second)]
    return shared / (areas[0] + areas[1] - shared)


if __name__ == "__main__":
    main()
