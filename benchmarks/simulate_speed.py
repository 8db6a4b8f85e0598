"""How fast are simulated pictures drawn, and how far is that from what the machine could do?

    python benchmarks/simulate_speed.py [--frames 8192]

Draws n-ball and Two Room at 64 pixels on one core: whole batches as `spectrabox simulate` does, one frame after another
as a plain loop would, and, as the limit, only copies finished frames of that size in memory. Prints frames a second and
both ratios; times are of the processor, so a busy machine counts little. Push-T, Reacher and Cube are drawn by other
people's renderers and follow for comparison if they are installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from training.envs import make, names
from training.envs.packages import MissingPackageError
from training.sources.simulator import Batched

BATCH = 32
PROMISED = 10_000
OURS = {
    "nball, 1 ball": ("nball", {"balls": 1}), "nball, 3 balls": ("nball", {"balls": 3}),
    "nball, 6 balls": ("nball", {"balls": 6}), "two_room": ("two_room", {"size": 64}),
}  # fmt: skip


def speed(work: Callable[[], object], frames: int) -> float:
    """Frames a second of processor time, the best of three."""
    seconds = []
    for _ in range(3):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return frames / min(seconds)


def measured(name: str, options: dict[str, int], frames: int) -> tuple[float, float, float]:
    """Frames a second: in batches, one by one, and only copied."""
    world = make(name, **options)
    assert isinstance(world, Batched)
    states = world.play(np.random.default_rng(0), frames // BATCH, BATCH)[0]
    drawn = world.draw(states[0])
    place = np.empty_like(drawn)
    few = states[: max(1, len(states) // 8)]
    return (
        speed(lambda: [world.draw(batch) for batch in states], frames),
        speed(lambda: [world.draw(state[None]) for batch in few for state in batch], len(few) * BATCH),
        speed(lambda: [np.copyto(place, drawn) for _ in states], frames),
    )


def others() -> list[tuple[str, float]]:
    """Frames a second of the simulators that others draw."""
    rows = []
    for name in sorted(set(names()) - {name for name, _ in OURS.values()}):
        try:
            world = make(name)
        except MissingPackageError as error:
            print(f"{name}: {error}")
            continue
        states = np.repeat(world.state()[None], 20, axis=0)
        world.draw(states[:1])
        rows.append((name, speed(lambda world=world, states=states: world.draw(states), len(states))))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=8192)
    frames = parser.parse_args().frames // BATCH * BATCH
    print(f"{'64 pixels':16}{'frames/s':>12}{'one by one':>12}{'ratio':>8}{'copied':>12}{'of limit':>10}")
    slowest = np.inf
    for label, (name, options) in OURS.items():
        batched, single, copied = measured(name, options, frames)
        slowest = min(slowest, batched)
        print(f"{label:16}{batched:12.0f}{single:12.0f}{batched / single:8.1f}{copied:12.0f}{batched / copied:10.1%}")
    print(f"slowest: {slowest / PROMISED:.1f} times the promised {PROMISED} frames a second")
    for name, rate in others():
        print(f"{name:16}{rate:12.0f}  at 224 pixels")


if __name__ == "__main__":
    main()
