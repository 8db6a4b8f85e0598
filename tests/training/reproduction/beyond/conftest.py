"""What these tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from training.reproduction.jobs import Hear, Job, Jobs


@pytest.fixture(scope="module")
def in_this_process() -> Iterator[None]:
    """Jobs are done here: a process of its own for each would import torch again, which takes longer than the job."""

    def do(self: Jobs, job: Job, arguments: tuple[Any, ...], hear: Hear, threads: int = 0) -> str:
        job(*arguments, hear)
        return ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Jobs, "do", do)
        yield
