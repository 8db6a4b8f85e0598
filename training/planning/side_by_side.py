"""How do several cores imagine at once?

A roll-out is thousands of small steps, too small for torch to share each between cores. So pieces of the candidates are
imagined side by side, one to a thread, each with a core of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

Each = Callable[[Callable[[Tensor], Tensor], Iterable[Tensor]], Iterator[Tensor]]  # like `map`


def workers(device: torch.device) -> int:
    """How many pieces are worked on at once: one on a GPU, one for each of torch's threads on a CPU."""
    return torch.get_num_threads() if device.type == "cpu" else 1


@contextmanager
def side_by_side(device: torch.device) -> Iterator[Each]:
    """A `map` whose calls run side by side, and compute with one thread each."""
    threads = workers(device)
    if threads == 1:
        yield map
        return
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            yield pool.map
        finally:
            torch.set_num_threads(threads)  # a thread that sets its own sets what threads to come begin with
