"""How do several cores imagine at once?

A roll-out is thousands of small steps, too small for torch to share each between cores. So pieces of the candidates are
imagined side by side, one to a thread, each with a core of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

Work = Callable[[Tensor], Tensor]
Each = Callable[[Work, Iterable[Tensor]], Iterable[Tensor]]  # like `map`


@contextmanager
def side_by_side(threads: int) -> Iterator[Each]:
    """A `map` for inference: so many calls run side by side, each computes with one core, and all are waited for."""
    if threads == 1:
        yield map
        return
    pool = ThreadPoolExecutor(threads, initializer=_with_one_core)

    def each(work: Work, pieces: Iterable[Tensor]) -> list[Tensor]:
        return list(pool.map(_as_here(work), pieces))

    try:
        yield each
    finally:
        pool.shutdown(cancel_futures=True)  # after an error, what has not begun is not begun


def _with_one_core() -> None:
    torch.get_num_threads()  # torch sets up a thread when it is first used there, and would undo the next line
    # torch's own setting is that of all threads which come after, also those of others.
    threadpool_limits(1, user_api="openmp")


def _as_here(work: Work) -> Work:
    """The same work in another thread, which knows nothing of the modes of this one."""
    half, kind = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def done(piece: Tensor) -> Tensor:
        with torch.inference_mode(), torch.autocast("cpu", kind, enabled=half):
            return work(piece)

    return done
