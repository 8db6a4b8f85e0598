"""How do several processes play the episodes of one simulator?

Each process opens a simulator of its own and plays whole episodes; they come back in their order. Only a few are played
ahead of the one that is asked for, so that memory does not grow when they are written more slowly than played.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from labeling.lifetime import deaf
from training.dataset_format import DatasetError

if TYPE_CHECKING:
    from training.manifest import PrepareConfig, SimulatorSource
    from training.sources.simulator import Episodes
    from training.takes import Take

AHEAD = 2  # episodes of each process


def side_by_side(
    source: SimulatorSource, seed: int, config: PrepareConfig, numbers: Iterable[int], workers: int
) -> Iterator[Take]:
    """The episodes with these numbers, in their order, with all their pictures; `workers` processes play them."""
    spawn = multiprocessing.get_context("spawn")  # a simulator's window does not outlive a fork
    wanted, held = spawn.Pipe(duplex=False)  # the other end is closed with this process, however it ends
    pool = ProcessPoolExecutor(workers, spawn, initializer=_begin, initargs=(wanted,))
    settings = source.model_dump_json(), seed, config.model_dump_json()
    played: deque[Future[Take]] = deque()
    try:
        for number in numbers:
            with deaf():
                played.append(pool.submit(_play, *settings, number))
            if len(played) >= AHEAD * workers:
                yield played.popleft().result()
        while played:
            yield played.popleft().result()
    except BrokenProcessPool as error:
        raise DatasetError(
            f"A process that plays {source.environment} was ended, perhaps for want of memory: each of the {workers} "
            "has a simulator of its own. The same command goes on from here; with --workers fewer may play."
        ) from error
    finally:
        held.close()  # nobody waits for the episodes that are being played
        pool.shutdown(cancel_futures=True)
        wanted.close()


def _begin(wanted: Connection) -> None:
    def watch() -> None:
        wait([wanted])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _play(source: str, seed: int, config: str, number: int) -> Take:
    """In another process: one episode."""
    return _opened(source, seed, config).whole(number)


@lru_cache(maxsize=1)
def _opened(source: str, seed: int, config: str) -> Episodes:
    from training.manifest import PrepareConfig, SimulatorSource
    from training.sources.simulator import Episodes

    return Episodes(SimulatorSource.model_validate_json(source), seed, PrepareConfig.model_validate_json(config))
