"""How does one get a dataset without a camera?

`simulate` plays episodes of one of our simulators and writes them as a dataset with exact boxes, states and actions:
what `spectrabox simulate nball --balls 1 --episodes 20000 --out DATASET` does. `simulate_videos` writes them as videos
with actions and true boxes beside them, to try the labeling on. Seeds repeat.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from labeling.places import on_disk
from training.envs import make
from training.envs.video import record, write_episode
from training.manifest import Manifest, PrepareConfig, SimulatorSource, Split
from training.prepare import Prepared, Progress, prepare_manifest


def simulate(
    environment: str, out: str | Path, episodes: int = 20000, frames: int = 32, seed: int = 0, size: int | None = None,
    split: Split | None = None, progress: Progress | None = None, replace: bool = False, workers: int = 1,
    **options: int | float,
) -> Prepared:  # fmt: skip
    """Write a dataset of `episodes` episodes; ValueError if there is no such simulator.

    Args:
        environment: Name of the simulator.
        out: Where the dataset goes.
        episodes: How many.
        frames: Frames in an episode.
        seed: Decides everything; the first episodes are the same however many there are.
        size: Height and width of the frames; None: as the simulator draws them.
        split: Which episodes are held out.
        progress: Called now and then with frames done and expected.
        replace: A dataset at `out` that was made of something else makes way; otherwise it is refused.
        workers: Processes that play; n-ball and Two Room play many episodes at once and need no more than one. With
            more, call this below `if __name__ == "__main__":`.
        options: What the simulator is opened with, for example `balls=3`.
    """
    native = make(environment, **options).size[0]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(out).stem).strip("._-") or environment
    manifest = Manifest(
        name=name, kind="simulator", licence="Apache-2.0", seed=seed,
        source=SimulatorSource(environment=environment, options=options, episodes=episodes, frames=frames),
        actions="simulator", labels="simulator", split=split or Split(), settings=PrepareConfig(size=size or native),
    )  # fmt: skip
    return prepare_manifest(manifest, out, progress=progress, replace=replace, workers=workers)


def simulate_videos(
    environment: str, folder: str | Path, episodes: int = 10, frames: int = 100, seed: int = 0,
    progress: Progress | None = None, **options: int | float,
) -> list[Path]:  # fmt: skip
    """Write episodes as videos, `nball-0000.mp4` with `nball-0000.actions.npy` and the true boxes in `nball-0000.json`.

    `spectrabox label` reads the folder, `spectrabox prepare` finds the actions. A video that is there already, byte for
    byte, is left alone. The other arguments are those of `simulate`.
    """
    world = make(environment, **options)
    place = on_disk(folder, "a folder for simulated videos")
    if (place / "zarr.json").exists():
        raise ValueError(f"{place} is a dataset or a store: choose another folder for videos.")
    paths = [place / f"{environment}-{number:04}.mp4" for number in range(episodes)]
    if others := sorted(set(place.glob(f"{environment}-*.mp4")) - set(paths)):
        raise ValueError(f"{place} holds {others[0].name} of another run: empty it, or choose another folder.")
    for number, path in enumerate(paths):
        own = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])  # no two seeds share an episode
        write_episode(path, record(world, frames, own), truth=True)
        if progress:
            progress((number + 1) * frames, episodes * frames)
    return paths
