"""How do several processes play the episodes of one simulator?

Each process opens a simulator of its own and plays every so many-th episode. They come back in their order. A process
waits with an episode until it is asked for, so that memory does not grow when they are written more slowly than played.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from itertools import cycle
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING

from labeling.lifetime import deaf, end_with_parent
from training.dataset_format import DatasetError

if TYPE_CHECKING:
    from training.manifest import PrepareConfig, SimulatorSource
    from training.takes import Take


def side_by_side(
    source: SimulatorSource, seed: int, config: PrepareConfig, numbers: range, workers: int
) -> Iterator[Take]:
    """The episodes with these numbers, in their order, with all their pictures; `workers` processes play them."""
    shares = [share for first in range(workers) if (share := numbers[first::workers])]
    players = [_started(source, seed, config, share) for share in shares]
    try:
        for _, (_, played) in zip(numbers, cycle(players), strict=False):
            found = played.recv()
            if isinstance(found, Exception):
                raise found
            yield found
    except EOFError as error:
        raise DatasetError(
            f"A process that plays {source.environment} was ended, perhaps for want of memory: each of the {workers} "
            "has a simulator of its own. The same command goes on from here; with --workers fewer may play."
        ) from error
    finally:
        for process, played in players:
            process.kill()  # nobody waits for the episode that is being played
            process.join()
            played.close()


def _started(
    source: SimulatorSource, seed: int, config: PrepareConfig, numbers: range
) -> tuple[SpawnProcess, Connection]:
    spawn = multiprocessing.get_context("spawn")  # a simulator's window does not outlive a fork
    here, there = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_play, args=(there, source, seed, config, numbers), daemon=True)
    with deaf():
        process.start()
    there.close()  # so that the end of the process is the end of the pipe
    return process, here


def _play(there: Connection, source: SimulatorSource, seed: int, config: PrepareConfig, numbers: range) -> None:
    """In the other process."""
    end_with_parent()
    from training.sources.simulator import Episodes

    try:
        episodes = Episodes(source, seed, config)
        for number in numbers:
            there.send(episodes.whole(number))
    except Exception as error:
        there.send(error)
