"""How good are the labels? Labels a folder of clips with ground truth, exports and scores them.

    python benchmarks/quality.py CLIPS SCORER [--work DIR]

CLIPS holds NAME.mp4 with NAME.json (ground truth); SCORER is a program called as `SCORER CLIPS PREDICTIONS --json OUT`.
All clips are labeled with the default settings in one run, but for families whose objects stand still the whole time
(`--static flies`), which get a run of their own with keep_static. Prints the table of families and the speed.
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
from labeling.store import open_store


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
    print(f"\nscores: {scores}")


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
        print(
            f"{outcome.source}: {f'{found.tracks} tracks, {found.dropped} dropped, {speed}' if found else outcome.failure}"
        )
    export(open_store(summary.store), "youtube-vis", out)


if __name__ == "__main__":
    main()
