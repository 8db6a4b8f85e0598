"""How good are the labels? Labels a folder of clips with ground truth, and scores them.

    python benchmarks/quality.py CLIPS [SCORER] [--work DIR]

CLIPS holds NAME.mp4 with NAME.json (ground truth, see docs/scoring.md). All clips are labeled with the default settings
in one run, but for families whose objects stand still the whole time (`--static flies`), which get a run of their own
with keep_static. Prints the speed and the figures of `spectrabox score`, family by family. SCORER is another program
that judges an export, for what it alone measures; it is called as `SCORER CLIPS PREDICTIONS --json OUT`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from labeling.config import load_config
from labeling.export import export
from labeling.run import label_folder
from labeling.scoring import ClipScore, score
from labeling.scoring.figures import MEASURES, mean
from labeling.store import Store, open_store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", type=Path)
    parser.add_argument("scorer", type=Path, nargs="?")
    parser.add_argument("--work", type=Path, default=Path("quality"), help="folder for stores and predictions")
    parser.add_argument("--static", action="append", default=["flies"], help="family labeled with keep_static")
    parser.add_argument("--only", action="append", default=[], help="only clips whose name begins like this")
    arguments = parser.parse_args()
    truths = {path.stem: json.loads(path.read_text()) for path in sorted(arguments.clips.glob("*.json"))}
    names = [name for name in truths if not arguments.only or name.startswith(tuple(arguments.only))]
    judged: list[ClipScore] = []
    for run, static in (("moving", False), ("static", True)):
        chosen = [name for name in names if (truths[name].get("family") in arguments.static) == static]
        if chosen:
            store = label(arguments.clips, chosen, arguments.work / run, static)
            judged += [clip for clip in score(store, arguments.clips).clips if clip.film]
    families(judged, {name: str(truth.get("family", "")) for name, truth in truths.items()})
    if arguments.scorer:
        scores = arguments.work / "scores.json"
        command = [sys.executable, arguments.scorer, arguments.clips, export_all(arguments.work), "--json", scores]
        subprocess.run(command, check=True)
        print(f"\nscores: {scores}\n")


def label(clips: Path, names: list[str], work: Path, static: bool) -> Store:
    """Label the named clips in one run."""
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
    return open_store(summary.store)


def export_all(work: Path) -> Path:
    """A folder with the labels of both runs, as another scorer reads them."""
    predictions = work / "predictions"
    shutil.rmtree(predictions, ignore_errors=True)
    predictions.mkdir(parents=True)
    for store in sorted(work.glob("*/labels.zarr")):
        export(open_store(store), "youtube-vis", predictions / f"{store.parent.name}.json")
    return predictions


def families(clips: list[ClipScore], family_of: dict[str, str]) -> None:
    """Print the mean figures of each family, and which category each kind of thing has."""
    print("\n" + f"{'family':12}{'clips':>6}" + "".join(f"{measure.heading:>6}" for measure in MEASURES.values()))
    for family in [*sorted({family_of[clip.name] for clip in clips}), ""]:
        own = [clip for clip in clips if family in ("", family_of[clip.name])]
        partners = [pair for clip in own for pair in clip.partners]
        figures = mean((clip.figures for clip in own), partners).values()
        cells = "".join(f"{MEASURES[name].text(value):>6}" for name, value in figures.items())
        kinds = ", ".join(f"{kind} -> {category}" for kind, category in sorted(set(partners))) if family else ""
        print(f"{family or 'all':12}{len(own):>6}{cells}  {kinds}")


if __name__ == "__main__":
    main()
